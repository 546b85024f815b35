//! Hears of what belongs to no call: a legacy server's GET stream, a modern server's `subscriptions/listen`. One per
//! connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinError;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;
use vmcp_wire::era::{Era, Revision};
use vmcp_wire::rpc::RpcError;
use vmcp_wire::{codes, methods};

use crate::connection::{Connection, ServerProfile};
use crate::inbound::call_listener::CallListener;
use crate::policy::backoff;
use crate::request::{Request, RpcOutcome};
use crate::sharing::core::BackendCore;
use crate::sharing::subscribe;
use crate::sharing::subscription_registry::ConfirmedVersion;
use crate::transport::{Channel, Link, LinkError};

/// How long to wait before a stream is opened again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// A server that ends its subscriptions this often at once has no use for them, and each costs a listing.
const MOST_SHORT_STREAMS: u32 = 5;
/// A stream that ends sooner is reopened with longer pauses.
const STABLE: Duration = Duration::from_secs(30);
/// Changes of what is wanted that come within this time of each other are one.
const COALESCE: Duration = Duration::from_millis(50);
/// A server that takes longer to acknowledge a subscription is believed to have done so.
const ACKNOWLEDGE: Duration = Duration::from_secs(10);

/// Listens in the background until the connection ends, for everybody: other legacy links bring such messages by
/// themselves.
pub(crate) fn start(shared: &Arc<BackendCore>, connection: &Arc<Connection>) {
    let closed = connection.channel.closed.clone();
    let spawn = |listen| {
        tokio::spawn(closed.clone().run_until_cancelled_owned(listen).in_current_span());
    };
    if connection.server.era() == Era::Modern {
        let listening = Listening::new(shared, connection);
        return spawn(listening.run().boxed());
    }
    if let Link::Http(http) = &connection.channel.link {
        let (http, shared) = (http.clone(), Arc::clone(shared));
        let follow = async move { http.follow(oneshot::channel().0, || missed(&shared)).await };
        spawn(follow.boxed());
    }
    let shared = Arc::clone(shared);
    spawn(async move { subscribe::resume(&shared).await }.boxed());
}

/// What was announced meanwhile was announced to nobody.
fn missed(shared: &BackendCore) {
    shared.facts.changed.notify_one();
    subscribe::announce(shared);
}

/// The one subscription to a modern server, and what becomes of it.
struct Listening {
    shared: Arc<BackendCore>,
    /// Not the connection, whose end is to be noticed.
    channel: Arc<Channel>,
    /// The lists whose changes the server announces.
    lists: Vec<String>,
    stream: Option<Stream>,
    /// Streams in a row that ended soon.
    failures: u32,
    /// There was a time without a stream.
    gap: bool,
}

/// One `subscriptions/listen`; dropped, it ends.
struct Stream {
    task: AbortOnDropHandle<Result<RpcOutcome, LinkError>>,
    since: Instant,
}

/// How a stream ended.
enum End {
    /// It may be opened again.
    Closed,
    /// The server does not want it, and says why.
    Refused(Box<RawValue>),
    /// The server is gone: the connector finds out more.
    Gone,
}

impl Listening {
    fn new(shared: &Arc<BackendCore>, connection: &Connection) -> Self {
        Self {
            shared: Arc::clone(shared),
            channel: Arc::clone(&connection.channel),
            lists: lists(&connection.server),
            stream: None,
            failures: 0,
            gap: false,
        }
    }

    async fn run(mut self) {
        let mut wanted = self.shared.subscriptions.version.subscribe();
        loop {
            wanted.borrow_and_update();
            let (version, entries) = self.entries();
            let end = if let Some(end) = self.renew(version, &entries).await {
                end
            } else {
                tokio::select! {
                    end = self.ended() => end,
                    _ = wanted.changed() => {
                        sleep(COALESCE).await;
                        continue;
                    }
                }
            };
            match end {
                End::Gone => return self.channel.closed.cancel(),
                End::Refused(_) => drop(wanted.changed().await),
                End::Closed if self.is_futile(&entries) => {
                    tracing::info!("the backend keeps no subscription open");
                    drop(wanted.changed().await);
                }
                End::Closed => tokio::select! {
                    () = sleep(backoff::delay(FIRST_PAUSE, self.failures)) => {}
                    // Somebody waits for an answer.
                    _ = wanted.changed() => sleep(COALESCE).await,
                },
            }
        }
    }

    /// Puts what is wanted in force. The stream that there is goes on until the next one is open.
    async fn renew(&mut self, version: u64, entries: &[String]) -> Option<End> {
        let refusal = match self.open(entries).await {
            Ok(stream) => {
                self.stream = stream;
                None
            }
            Err(End::Refused(error)) => {
                tracing::info!(error = error.get(), "the backend refused to announce changes");
                Some(error)
            }
            Err(end) => return Some(end),
        };
        let opened = refusal.is_none();
        self.shared.subscriptions.confirm(ConfirmedVersion { version, refusal });
        if opened && std::mem::take(&mut self.gap) {
            missed(&self.shared);
        }
        None
    }

    /// What to ask for, and its version. Only what the server promises, so that one which never changes holds no
    /// stream open.
    fn entries(&self) -> (u64, Vec<String>) {
        let (version, resources, tasks) = self.shared.subscriptions.filter();
        let mut entries = self.lists.clone();
        entries.extend(resources.map(|uris| format!(r#""resourceSubscriptions":{uris}"#)));
        entries.extend(tasks.map(|ids| format!(r#""taskIds":{ids}"#)));
        (version, entries)
    }

    /// Whether to leave it at that: nobody in particular waits for something.
    fn is_futile(&self, entries: &[String]) -> bool {
        self.failures > MOST_SHORT_STREAMS && entries.len() == self.lists.len()
    }

    /// Opens a stream and waits until it is acknowledged.
    async fn open(&mut self, entries: &[String]) -> Result<Option<Stream>, End> {
        if entries.is_empty() {
            return Ok(None);
        }
        let filter = format!(r#"{{"notifications":{{{}}}}}"#, entries.join(","));
        let Ok(filter) = RawValue::from_string(filter) else { return Ok(None) };
        let (events, mut acknowledged) = mpsc::channel(1);
        let listener = Arc::new(CallListener { events: Some(events), ours: true, ..CallListener::default() });
        let channel = Arc::clone(&self.channel);
        let listen = async move {
            let request = Request::new(methods::LISTEN, &filter);
            channel.exchange(Revision::MODERN, &request, Some(&listener)).await
        };
        let task = AbortOnDropHandle::new(tokio::spawn(listen.in_current_span()));
        let mut stream = Stream { task, since: Instant::now() };
        // The listener is dropped with the task: there is nothing to receive from a stream that has ended.
        match timeout(ACKNOWLEDGE, acknowledged.recv()).await {
            Ok(None) => Err(self.end_of((&mut stream.task).await, stream.since)),
            Ok(Some(_)) | Err(_) => Ok(Some(stream)),
        }
    }

    /// Waits for the end of the stream, for ever if there is none.
    async fn ended(&mut self) -> End {
        let Some(stream) = &mut self.stream else { return std::future::pending().await };
        let result = (&mut stream.task).await;
        let since = stream.since;
        self.stream = None;
        self.end_of(result, since)
    }

    fn end_of(&mut self, result: Result<Result<RpcOutcome, LinkError>, JoinError>, since: Instant) -> End {
        self.gap |= self.stream.is_none();
        self.failures = if since.elapsed() < STABLE { self.failures + 1 } else { 1 };
        match result {
            Ok(Ok(RpcOutcome::Error(error))) => End::Refused(RawValue::to_owned(&error)),
            Ok(Err(error)) if is_final(&error) => {
                let error = RpcError::new(codes::INTERNAL_ERROR, error.to_string()).to_json();
                End::Refused(RawValue::from_string(error).unwrap_or_default())
            }
            Ok(Err(error)) if error.nothing_executed() => End::Gone,
            _ => End::Closed,
        }
    }
}

/// The lists whose changes the server promises to announce, as entries of a filter.
fn lists(server: &ServerProfile) -> Vec<String> {
    let lists = ["tools", "prompts", "resources"].into_iter();
    let announced = lists.filter(|capability| server.announces_changes(capability));
    announced.map(|capability| format!(r#""{capability}ListChanged":true"#)).collect()
}

/// Whether asking again is useless. A gateway in between that answers 502 will not for ever.
fn is_final(error: &LinkError) -> bool {
    match error {
        LinkError::Refused(_) | LinkError::Protocol(_) => true,
        LinkError::Status(status) => status.is_client_error(),
        _ => false,
    }
}
