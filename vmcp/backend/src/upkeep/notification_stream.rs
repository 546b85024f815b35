//! Notification stream of a connection: a legacy server's GET stream, or a modern server's
//! `subscriptions/listen`. It carries announcements that belong to no call.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::task::JoinError;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;
use vmcp_wire::era::{Era, Revision};
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::rpc::RpcError;
use vmcp_wire::{codes, methods};

use crate::call::subscribe;
use crate::connection::{Connection, ServerProfile};
use crate::inbound::call_listener::CallListener;
use crate::policy::backoff;
use crate::request::{Request, RpcOutcome, event_queue};
use crate::sharing::core::BackendCore;
use crate::sharing::subscription_registry::ConfirmedVersion;
use crate::transport::{Channel, Link, LinkError};

/// Base of the exponential backoff before a stream is opened again.
const REOPEN_BASE: Duration = Duration::from_secs(1);
/// Short streams in a row after which a server is left alone until a client wants something: each stream
/// costs a listing.
const MAX_SHORT_STREAMS: u32 = 5;
/// Lifetime from which a stream counts as stable.
const MIN_STABLE_LIFETIME: Duration = Duration::from_secs(30);
/// Debounce: changes of the wanted topics within this time of each other become one new stream.
const TOPICS_DEBOUNCE: Duration = Duration::from_millis(50);
/// Time for a server to acknowledge a subscription; a slower one is believed to have done so.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Listens in the background until the connection ends. Links other than HTTP and modern ones bring
/// announcements by themselves.
pub(crate) fn start(shared: &Arc<BackendCore>, connection: &Arc<Connection>) {
    let closed = connection.channel.closed.clone();
    let spawn = |listen| {
        tokio::spawn(closed.clone().run_until_cancelled_owned(listen).in_current_span());
    };
    if connection.server.era() == Era::Modern {
        let stream = NotificationStream::new(shared, connection);
        return spawn(stream.run().boxed());
    }
    if let Link::Http(http) = &connection.channel.link {
        let (http, shared, channel) = (http.clone(), Arc::clone(shared), Arc::clone(&connection.channel));
        let follow = async move {
            let (first, answered) = oneshot::channel();
            let mut follow = pin!(http.follow(first, || recover_missed(&shared)));
            // A server without such a stream says so at once, which ends the future in the same poll.
            tokio::select! {
                biased;
                () = &mut follow => return,
                _ = answered => channel.is_listening.store(true, Ordering::Relaxed),
            }
            follow.await;
            channel.is_listening.store(false, Ordering::Relaxed);
        };
        spawn(follow.boxed());
    }
    let shared = Arc::clone(shared);
    spawn(async move { subscribe::resume(&shared).await }.boxed());
}

/// Makes up for announcements that were lost while no stream was open: lists again, and tells subscribers to
/// look again.
fn recover_missed(shared: &BackendCore) {
    shared.facts.changed.notify_one();
    subscribe::announce(shared);
}

/// Keeps one `subscriptions/listen` open at a modern server.
struct NotificationStream {
    shared: Arc<BackendCore>,
    /// The channel, not the connection: holding the connection would hide its end.
    channel: Arc<Channel>,
    /// The lists whose changes the server announces.
    lists: Vec<String>,
    /// The server takes subscriptions to resources; else a session of the legacy era may have them.
    takes_subscriptions: bool,
    stream: Option<OpenStream>,
    /// Short streams in a row.
    failures: u32,
    /// True after a time without a stream, in which announcements may have been lost.
    gap: bool,
}

/// One `subscriptions/listen` under way; dropping it ends the request.
struct OpenStream {
    task: AbortOnDropHandle<Result<RpcOutcome, LinkError>>,
    since: Instant,
}

/// The end of a stream.
enum StreamEnd {
    /// The stream may be opened again.
    Closed,
    /// The server refuses subscriptions, with this error.
    Refused(Box<RawValue>),
    /// The server is gone: the connector finds out more.
    Gone,
}

impl NotificationStream {
    fn new(shared: &Arc<BackendCore>, connection: &Connection) -> Self {
        Self {
            shared: Arc::clone(shared),
            channel: Arc::clone(&connection.channel),
            lists: lists(&connection.server),
            takes_subscriptions: connection.server.takes_subscriptions(),
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
                        sleep(TOPICS_DEBOUNCE).await;
                        continue;
                    }
                }
            };
            match end {
                StreamEnd::Gone => return self.channel.closed.cancel(),
                StreamEnd::Refused(_) => drop(wanted.changed().await),
                StreamEnd::Closed if self.is_hopeless(&entries) => {
                    tracing::info!("the backend keeps no subscription open");
                    drop(wanted.changed().await);
                }
                StreamEnd::Closed => tokio::select! {
                    () = sleep(backoff::delay(REOPEN_BASE, self.failures)) => {}
                    // A subscriber waits for its confirmation: no pause.
                    _ = wanted.changed() => sleep(TOPICS_DEBOUNCE).await,
                },
            }
        }
    }

    /// Puts the wanted topics in force. The present stream goes on until the next one is open, so that
    /// nothing is lost between them.
    async fn renew(&mut self, version: u64, entries: &[String]) -> Option<StreamEnd> {
        let refusal = match self.open(entries).await {
            Ok(stream) => {
                self.channel.is_listening.store(stream.is_some(), Ordering::Relaxed);
                self.stream = stream;
                None
            }
            Err(StreamEnd::Refused(error)) => {
                tracing::info!(error = error.get(), "the backend refused to announce changes");
                Some(error)
            }
            Err(end) => return Some(end),
        };
        let opened = refusal.is_none();
        self.shared.subscriptions.confirm(ConfirmedVersion { version, refusal });
        if opened && std::mem::take(&mut self.gap) {
            recover_missed(&self.shared);
        }
        None
    }

    /// Returns the entries of the filter, and their version. Only capabilities that the server declares: one
    /// that never changes holds no stream open.
    fn entries(&self) -> (u64, Vec<String>) {
        let (version, resources, tasks) = self.shared.subscriptions.filter();
        let mut entries = self.lists.clone();
        let resources = resources.filter(|_| self.takes_subscriptions);
        entries.extend(resources.map(|uris| format!(r#""resourceSubscriptions":{uris}"#)));
        entries.extend(tasks.map(|ids| format!(r#""taskIds":{ids}"#)));
        (version, entries)
    }

    /// True if no stream is worth another try: the server keeps ending them, and no client waits for a topic.
    fn is_hopeless(&self, entries: &[String]) -> bool {
        self.failures > MAX_SHORT_STREAMS && entries.len() == self.lists.len()
    }

    /// Opens a stream and waits until it is acknowledged.
    async fn open(&mut self, entries: &[String]) -> Result<Option<OpenStream>, StreamEnd> {
        if entries.is_empty() {
            return Ok(None);
        }
        let filter = format!(r#"{{"notifications":{{{}}}}}"#, entries.join(","));
        let Ok(filter) = OwnedParams::from_text(filter) else { return Ok(None) };
        let (events, mut acknowledged) = event_queue(1);
        let listener = Arc::new(CallListener { events: Some(events), ours: true, ..CallListener::default() });
        let channel = Arc::clone(&self.channel);
        let listen = async move {
            let request = Request::new(methods::LISTEN, &filter);
            channel.exchange(Revision::MODERN, &request, Some(&listener)).await
        };
        let task = AbortOnDropHandle::new(tokio::spawn(listen.in_current_span()));
        let mut stream = OpenStream { task, since: Instant::now() };
        // The listener is dropped with the task, so `None` means that the stream has ended.
        match timeout(ACKNOWLEDGE_TIMEOUT, acknowledged.recv()).await {
            Ok(None) => Err(self.end_of((&mut stream.task).await, stream.since)),
            Ok(Some(_)) | Err(_) => Ok(Some(stream)),
        }
    }

    /// Waits for the end of the stream; for ever without a stream.
    async fn ended(&mut self) -> StreamEnd {
        let Some(stream) = &mut self.stream else { return std::future::pending().await };
        let result = (&mut stream.task).await;
        let since = stream.since;
        self.stream = None;
        self.end_of(result, since)
    }

    fn end_of(
        &mut self,
        result: Result<Result<RpcOutcome, LinkError>, JoinError>,
        since: Instant,
    ) -> StreamEnd {
        self.gap |= self.stream.is_none();
        self.channel.is_listening.store(self.stream.is_some(), Ordering::Relaxed);
        self.failures = if since.elapsed() < MIN_STABLE_LIFETIME { self.failures + 1 } else { 1 };
        match result {
            Ok(Ok(RpcOutcome::Error(error))) => StreamEnd::Refused(RawValue::to_owned(&error)),
            Ok(Err(error)) if is_final(&error) => {
                let error = RpcError::new(codes::INTERNAL_ERROR, error.to_string()).to_json();
                StreamEnd::Refused(RawValue::from_string(error).unwrap_or_default())
            }
            Ok(Err(LinkError::Closed { .. })) => StreamEnd::Closed,
            Ok(Err(error)) if error.ends_connection() => StreamEnd::Gone,
            _ => StreamEnd::Closed,
        }
    }
}

/// The lists whose changes the server promises to announce.
fn lists(server: &ServerProfile) -> Vec<String> {
    let lists = ["tools", "prompts", "resources"].into_iter();
    let announced = lists.filter(|capability| server.announces_changes(capability));
    announced.map(|capability| format!(r#""{capability}ListChanged":true"#)).collect()
}

/// True if asking again is useless. A gateway in between that answers 502 will not do so for ever.
fn is_final(error: &LinkError) -> bool {
    match error {
        LinkError::Refused { .. } | LinkError::Protocol(_) | LinkError::Unreadable { .. } => true,
        LinkError::Status(refusal) => refusal.is_client_error(),
        _ => false,
    }
}
