//! HTTP+SSE transport of 2024-11-05: answers come on one GET stream of server-sent events, requests go to a
//! URL that the stream's first event names.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use url::Url;

use crate::http_client::Purpose;
use crate::policy::byte_budget::ByteBudget;
use crate::transport::body::{self, AnswerLimits, Events};
use crate::transport::endpoint::{Endpoint, is_event_stream};
use crate::transport::link_error::{LinkError, Secrets, ServerWords};
use crate::transport::mux::{Mux, QueuedMessage};
use crate::transport::refused_response::{refusal, words};

/// Time for a server to accept a message; it answers on the stream. A request that is not accepted in time
/// fails.
const ACCEPT_TIMEOUT: Duration = Duration::from_mins(1);
/// Time by which a notification precedes the requests behind it. A server that accepts it later may see them
/// in another order; it does not hold them up.
const HEAD_START: Duration = Duration::from_millis(500);
/// Notifications that wait for a server to accept them; one more is dropped.
const MAX_QUEUED_NOTIFICATIONS: usize = 64;

/// Opens the stream. The returned task reads it until it ends or `closed` is cancelled.
pub(crate) async fn start(
    endpoint: Endpoint,
    url: &Url,
    limit: usize,
    mux: Arc<Mux>,
    to_write: mpsc::Receiver<QueuedMessage>,
    closed: CancellationToken,
) -> Result<JoinHandle<()>, LinkError> {
    let response = endpoint.get_events(endpoint.headers()).await?;
    if !response.status().is_success() {
        return Err(refusal(&endpoint, &mux, response).await);
    }
    if !is_event_stream(response.headers()) {
        let (_, said) = words(&endpoint, &mux, response).await;
        return Err(LinkError::Unreadable { reason: "the URL does not answer with an event stream", said });
    }
    // All calls share the stream: a lack of room must not end it, so the multiplexer counts the answers.
    let limits = AnswerLimits { bytes: limit, budget: ByteBudget::default() };
    let mut events = Events::new(response.into_body(), &limits);
    let target = endpoint.at(&message_url(&mut events, url, &mux).await?)?;
    let run = async move {
        let mut writer = JoinSet::new();
        writer.spawn(write(target, to_write, Arc::clone(&mux)));
        let reason = tokio::select! {
            reason = read(events, &mux) => reason,
            () = closed.cancelled() => "stopped".to_owned(),
        };
        mux.end(reason);
    };
    Ok(tokio::spawn(run.in_current_span()))
}

/// Reads the URL for messages from the `endpoint` event. Another origin than `url`'s is refused: configured
/// credentials go to that URL.
async fn message_url(events: &mut Events, url: &Url, mux: &Mux) -> Result<Url, LinkError> {
    while let Some(event) = events.next().await? {
        if event.name.as_deref() == Some("endpoint") {
            let secrets = Secrets::new(mux.inbound.secrets.load_full());
            let said = |bytes: &[u8]| ServerWords::new(bytes, &secrets);
            let target = url.join(std::str::from_utf8(&event.data).unwrap_or_default().trim());
            let reason = match target {
                Ok(target) if target.origin() == url.origin() => return Ok(target),
                Ok(_) => "the endpoint event names another origin",
                Err(_) => "the endpoint event is no URL",
            };
            return Err(LinkError::Unreadable { reason, said: said(&event.data) });
        }
    }
    Err(LinkError::Closed { detail: "the stream ended before its endpoint event".to_owned() })
}

async fn read(mut events: Events, mux: &Mux) -> String {
    loop {
        match events.next().await {
            Ok(Some(event)) if event.data.is_empty() => {}
            Ok(Some(event)) => mux.receive(&event.data),
            Ok(None) => return "the server closed the stream".to_owned(),
            Err(error) => return error.detail(),
        }
    }
}

/// Sends notifications one by one, since their order counts, and requests side by side: some servers accept a
/// message only after they have worked it off.
async fn write(target: Endpoint, mut messages: mpsc::Receiver<QueuedMessage>, mux: Arc<Mux>) {
    let mut notifications = Notifications::start(target.clone(), Arc::clone(&mux));
    let mut requests = JoinSet::new();
    while let Some(QueuedMessage { id, message }) = messages.recv().await {
        let Some(id) = id else {
            notifications.send(message).await;
            continue;
        };
        let (mux, target) = (Arc::clone(&mux), target.clone());
        requests.spawn(async move {
            if let Err(error) = post(target, message, &mux).await {
                mux.fail(id, error);
            }
        });
        while requests.try_join_next().is_some() {}
    }
}

/// Posts a message; the server must accept it in time.
async fn post(target: Endpoint, message: Bytes, mux: &Mux) -> Result<(), LinkError> {
    let accepted = async {
        let headers = target.post_headers();
        let response = target.post(headers, message, Purpose::Call).await?;
        if !response.status().is_success() {
            return Err(refusal(&target, mux, response).await);
        }
        body::drain(response.into_body());
        Ok(())
    };
    let stuck = LinkError::Closed { detail: "a message was not accepted in time".to_owned() };
    timeout(ACCEPT_TIMEOUT, accepted).await.unwrap_or(Err(stuck))
}

/// Messages that wait for no answer, sent one after the other by a task of their own.
struct Notifications {
    queue: mpsc::Sender<(Bytes, oneshot::Sender<()>)>,
    /// Ends when the last queued message was accepted.
    last: Option<oneshot::Receiver<()>>,
    /// Dropped with the rest, which ends the task.
    _sender: JoinSet<()>,
}

impl Notifications {
    fn start(target: Endpoint, mux: Arc<Mux>) -> Self {
        let (queue, mut queued) = mpsc::channel::<(Bytes, oneshot::Sender<()>)>(MAX_QUEUED_NOTIFICATIONS);
        let mut sender = JoinSet::new();
        sender.spawn(async move {
            while let Some((message, accepted)) = queued.recv().await {
                if let Err(error) = post(target.clone(), message, &mux).await {
                    tracing::debug!(error = error.detail(), "a notification did not reach the backend");
                }
                drop(accepted);
            }
        });
        Self { queue, last: None, _sender: sender }
    }

    /// Queues a message and gives it a head start before requests that follow. While an earlier one is not
    /// accepted, there is none.
    async fn send(&mut self, message: Bytes) {
        let is_behind = self.last.as_mut().is_some_and(|last| last.try_recv() == Err(TryRecvError::Empty));
        let (accepted, last) = oneshot::channel();
        if self.queue.try_send((message, accepted)).is_err() {
            return tracing::debug!("dropped a notification: the backend accepts none");
        }
        let last = self.last.insert(last);
        if !is_behind {
            let _ = timeout(HEAD_START, last).await;
        }
    }
}
