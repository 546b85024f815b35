//! Multiplexes requests over one two-way stream of messages (stdio, HTTP+SSE, websocket): answers are matched
//! by vmcp's own request ids.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use vmcp_wire::envelope::{EnvelopeError, Message, Request};
use vmcp_wire::lists::pages::{List, absent_result};
use vmcp_wire::methods;
use vmcp_wire::payload::{self, Key, LooseReply, ScannedKeys, Scanner};

use crate::inbound::{self, Inbound, Reaction};
use crate::policy::byte_budget::ByteBudget;
use crate::request::RpcOutcome;
use crate::transport::body::counted;
use crate::transport::link_error::{LinkError, Secrets, ServerWords};
use crate::transport::prepared_request::PreparedRequest;

/// Messages waiting to be written. A backend that does not read makes callers wait here (backpressure),
/// within their deadlines.
const MAX_QUEUED_MESSAGES: usize = 64;

/// Messages of one batch that are read; further ones are left out.
const MAX_BATCH: usize = 1000;

/// A message to write. `id` names the request that fails if the message cannot be sent.
#[derive(Debug)]
pub(crate) struct QueuedMessage {
    pub(crate) id: Option<u64>,
    pub(crate) message: Bytes,
}

#[derive(Debug)]
pub(crate) struct Mux {
    pub(crate) inbound: Arc<Inbound>,
    outgoing: mpsc::Sender<QueuedMessage>,
    pending: Mutex<PendingAnswers>,
    closed: CancellationToken,
    /// Budget of all answers in memory.
    budget: ByteBudget,
    /// Messages that were not JSON-RPC.
    ignored: AtomicU64,
    /// The last of them, and when it came.
    stray: Mutex<Option<(Instant, ServerWords)>>,
}

#[derive(Debug, Default)]
struct PendingAnswers {
    waiting: HashMap<u64, Waiting>,
    /// Reason of the end, set once; a stream that has ended takes no requests.
    ended: Option<String>,
}

/// A request that waits for its answer.
#[derive(Debug)]
struct Waiting {
    answer: oneshot::Sender<Result<RpcOutcome, LinkError>>,
    /// The request asks for a list: a result of `null` or `[]` is an empty one.
    is_list: bool,
}

impl Mux {
    /// A multiplexer, and the queue of messages that the transport has to write.
    pub(crate) fn new(
        inbound: Arc<Inbound>,
        closed: CancellationToken,
        budget: ByteBudget,
    ) -> (Arc<Self>, mpsc::Receiver<QueuedMessage>) {
        let (outgoing, to_write) = mpsc::channel(MAX_QUEUED_MESSAGES);
        let pending = Mutex::default();
        (
            Arc::new(Self {
                inbound,
                outgoing,
                pending,
                closed,
                budget,
                ignored: AtomicU64::new(0),
                stray: Mutex::default(),
            }),
            to_write,
        )
    }

    /// Sends a request and waits for its answer. Dropping the future tells the backend to stop.
    pub(crate) async fn exchange(&self, request: PreparedRequest<'_>) -> Result<RpcOutcome, LinkError> {
        let (answer, answered) = oneshot::channel();
        {
            let mut pending = self.pending.lock();
            if let Some(detail) = &pending.ended {
                return Err(LinkError::Gone { detail: detail.clone() });
            }
            let is_list = List::of_method(request.request.method).is_some();
            pending.waiting.insert(request.id, Waiting { answer, is_list });
        }
        let _ticket = CancelOnDrop { mux: self, id: request.id, method: request.request.method };
        let outbox = QueuedMessage { id: Some(request.id), message: request.message };
        if self.outgoing.send(outbox).await.is_err() {
            return Err(LinkError::Gone { detail: self.end_reason() });
        }
        answered.await.unwrap_or_else(|_| Err(LinkError::Closed { detail: self.end_reason() }))
    }

    pub(crate) async fn notify(&self, message: Bytes) -> Result<(), LinkError> {
        let sent = self.outgoing.send(QueuedMessage { id: None, message }).await;
        sent.map_err(|_| LinkError::Gone { detail: self.end_reason() })
    }

    /// Takes one message from the backend, or a batch of them; logs what is neither. Never waits: all calls
    /// share the reader.
    pub(crate) fn receive(&self, bytes: &Bytes) {
        if let Err(why) = self.try_receive(bytes) {
            self.ignore(&why.to_string(), bytes);
        }
    }

    /// Takes one message from the backend, or a batch of them; an error says why it is neither.
    pub(crate) fn try_receive(&self, bytes: &Bytes) -> Result<(), EnvelopeError> {
        if let Some((id, found)) = scan(bytes) {
            match counted(bytes.clone(), &self.budget) {
                Err(exhausted) => {
                    self.fail(id, exhausted.into());
                    return Ok(());
                }
                Ok(bytes) => {
                    if let Ok(reply) = payload::reply(bytes.into(), found, &id.to_string()) {
                        self.settle(id, reply.into());
                        return Ok(());
                    }
                }
            }
        }
        match Message::parse(bytes) {
            Ok(Message::Response(response)) => {
                self.settle_raw(Some(response.id), RpcOutcome::result(response.result));
            }
            Ok(Message::Error(error)) => self.settle_raw(error.id, RpcOutcome::error(error.error)),
            Ok(Message::Notification(notification)) => {
                if let Some(delivery) = self.inbound.notification(&notification, bytes, None) {
                    delivery.try_send();
                }
            }
            Ok(Message::Request(request)) => self.handle_request(&request),
            Err(error) => return self.receive_loosely(bytes).ok_or(error),
        }
        Ok(())
    }

    /// Fails the request of an answer whose bytes are not UTF-8: a repaired text would be another one. False
    /// if the bytes are text, or name no request.
    pub(crate) fn refuse_bytes(&self, bytes: &[u8]) -> bool {
        if std::str::from_utf8(bytes).is_ok() {
            return false;
        }
        let text = String::from_utf8_lossy(bytes);
        let Some(LooseReply { id: Some(id), .. }) = payload::loose_reply(text.as_bytes()) else {
            return false;
        };
        let said = ServerWords::new(bytes, &Secrets::new(self.inbound.secrets.load_full()));
        self.fail(id, LinkError::Unreadable { reason: "the answer is not UTF-8", said });
        true
    }

    /// Takes a batch, or an answer that is almost JSON-RPC; `None` if the bytes are neither.
    fn receive_loosely(&self, bytes: &Bytes) -> Option<()> {
        if let Some(messages) = payload::batch(bytes) {
            for message in messages.into_iter().take(MAX_BATCH) {
                // Its elements are objects: no batch is within a batch.
                self.receive(&bytes.slice_ref(message.get().as_bytes()));
            }
            return Some(());
        }
        let LooseReply { id, reply } = payload::loose_reply(bytes)?;
        if let Some(reply) = reply {
            self.settle(id?, reply.into());
        } else if let Some(absent) = absent_result(bytes, &id?.to_string()).filter(|_| self.asks_for_list(id))
        {
            self.settle(id?, RpcOutcome::result(absent));
        } else {
            let said = ServerWords::new(bytes, &Secrets::new(self.inbound.secrets.load_full()));
            self.fail(id?, LinkError::Unreadable { reason: "the answer has no object as its result", said });
        }
        Some(())
    }

    fn handle_request(&self, request: &Request<'_>) {
        match self.inbound.request(request, None) {
            // `try_send`: a backend that asks without reading loses the answers, and the reader never waits
            // for it.
            Reaction::Answer(message) => drop(self.outgoing.try_send(QueuedMessage { id: None, message })),
            Reaction::Ask(delivery, waiting) => {
                if let Some(delivery) = delivery {
                    delivery.try_send();
                }
                let outgoing = self.outgoing.clone();
                let answer = async move {
                    if let Some(message) = waiting.answer().await {
                        let _ = outgoing.send(QueuedMessage { id: None, message }).await;
                    }
                };
                tokio::spawn(self.closed.clone().run_until_cancelled_owned(answer));
            }
            Reaction::Ignore => {}
        }
    }

    /// Fails one request: its message could not be sent.
    pub(crate) fn fail(&self, id: u64, error: LinkError) {
        if let Some(waiting) = self.pending.lock().waiting.remove(&id) {
            let _ = waiting.answer.send(Err(error));
        }
    }

    /// Fails all requests under way and refuses new ones. The first reason stays.
    pub(crate) fn end(&self, reason: impl Into<String>) {
        let mut pending = self.pending.lock();
        pending.ended.get_or_insert_with(|| reason.into());
        pending.waiting.clear();
        drop(pending);
        self.closed.cancel();
    }

    /// Logs an answer without a waiting call: it comes late, after a time limit, from healthy servers too.
    fn ignore_answer(id: &str) {
        tracing::debug!(id, "ignored an answer to no request under way");
    }

    /// Counts bytes that are not a message, logs their beginning and returns it. The first is worth a line,
    /// not a warning: many healthy programs greet on their standard output.
    pub(crate) fn ignore(&self, why: &str, bytes: &[u8]) -> ServerWords {
        let count = self.ignored.fetch_add(1, Ordering::Relaxed) + 1;
        let words = ServerWords::new(bytes, &Secrets::new(self.inbound.secrets.load_full()));
        *self.stray.lock() = Some((Instant::now(), words.clone()));
        let start = words.as_str();
        if count == 1 {
            tracing::info!(
                why,
                start,
                "ignored what the backend sent; further ones are logged at debug level"
            );
        } else {
            tracing::debug!(why, start, count, "ignored what the backend sent");
        }
        words
    }

    /// Returns the last bytes that are not a message, if they came since then.
    pub(crate) fn stray_since(&self, since: Instant) -> Option<ServerWords> {
        let stray = self.stray.lock();
        stray.as_ref().filter(|(at, _)| *at >= since).map(|(_, words)| words.clone())
    }

    fn settle_raw(&self, id: Option<&RawValue>, outcome: RpcOutcome) {
        let id = id.map_or("null", RawValue::get);
        match payload::request_number(id) {
            Some(number) => self.settle(number, outcome),
            None => Self::ignore_answer(id),
        }
    }

    /// True if the request under way asks for a list.
    fn asks_for_list(&self, id: Option<u64>) -> bool {
        id.is_some_and(|id| self.pending.lock().waiting.get(&id).is_some_and(|waiting| waiting.is_list))
    }

    fn settle(&self, id: u64, outcome: RpcOutcome) {
        let waiting = self.pending.lock().waiting.remove(&id);
        match waiting {
            Some(waiting) => {
                let _ = waiting.answer.send(Ok(outcome));
            }
            None => Self::ignore_answer(&id.to_string()),
        }
    }

    /// The reason of the end, once the stream has ended.
    pub(crate) fn ended(&self) -> Option<String> {
        self.pending.lock().ended.clone()
    }

    fn end_reason(&self) -> String {
        self.ended().unwrap_or_else(|| "the connection ended".to_owned())
    }
}

/// The number of the request that a message answers, and its keys; `None` for a message that answers nothing,
/// or has to be parsed to know.
fn scan(bytes: &[u8]) -> Option<(u64, ScannedKeys)> {
    let mut scanner = Scanner::default();
    let found = scanner.push(bytes).and_then(|()| scanner.finish()).ok()?;
    let id = std::str::from_utf8(bytes.get(found.range(Key::Id)?)?).ok()?.parse().ok()?;
    (!found.has(Key::Method)).then_some((id, found))
}

/// A request under way. Dropped before its answer, it tells the backend to stop.
struct CancelOnDrop<'a> {
    mux: &'a Mux,
    id: u64,
    method: &'a str,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let given_up = self.mux.pending.lock().waiting.remove(&self.id).is_some();
        // The handshake must not be cancelled (specification 2025-11-25, "Cancellation").
        if given_up && !matches!(self.method, methods::INITIALIZE | methods::DISCOVER) {
            let message = inbound::cancelled(self.id);
            let _ = self.mux.outgoing.try_send(QueuedMessage { id: None, message });
        }
    }
}
