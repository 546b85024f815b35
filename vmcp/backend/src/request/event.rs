//! What a backend sends before its answer, or without being asked.

use std::fmt;

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::request::RpcOutcome;

/// Names a client's session, the same in every process that serves it.
pub type SessionId = [u8; 16];

/// One message for a client.
#[derive(Debug)]
pub enum Event {
    /// A notification, as a whole JSON-RPC message.
    Notification(Box<RawValue>),
    /// A request that the client is to answer.
    Question(Question),
}

/// A backend's request to its client: `elicitation/create`, `sampling/createMessage`, `roots/list`.
#[derive(Debug)]
pub struct Question {
    /// JSON-RPC method.
    pub method: Box<str>,
    /// Its parameters.
    pub params: Option<Box<RawValue>>,
    /// Takes the answer. Dropped without one, it tells the backend that the client cannot be asked. Closed when nobody waits any more: the backend took the question back, or the call ended.
    pub answer: oneshot::Sender<RpcOutcome>,
}

/// Takes what belongs to no request under way. Must not wait: the reader of a backend's stream calls it.
pub trait Downstream: fmt::Debug + Send + Sync {
    /// `event` came from `backend`: on the upstream session of a client's `session`, or on one that clients share.
    fn deliver(&self, backend: &str, session: Option<SessionId>, event: Event);
}

/// Nobody listens; questions are refused.
#[derive(Debug)]
pub(crate) struct NoDownstream;

impl Downstream for NoDownstream {
    fn deliver(&self, _: &str, _: Option<SessionId>, _: Event) {}
}
