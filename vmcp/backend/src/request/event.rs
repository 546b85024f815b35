//! Messages of a backend besides its answers, and where they go.

use std::fmt;

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::request::RpcOutcome;

/// The id of a client's session, the same in every process that serves it.
pub type SessionId = [u8; 16];
/// The session of vmcp itself: ids of clients are random. Messages for this session are for all clients.
pub(crate) const OWN_SESSION: SessionId = [0; 16];

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
    /// The backend's JSON-RPC id, as JSON; `None` for a question of vmcp itself.
    pub id: Option<Box<str>>,
    /// JSON-RPC method.
    pub method: Box<str>,
    /// Its parameters.
    pub params: Option<Box<RawValue>>,
    /// Takes the answer. Dropped without one, it tells the backend that the client cannot be asked. Closed
    /// once no answer is wanted: the backend took the question back, or the call ended.
    pub answer: oneshot::Sender<RpcOutcome>,
}

/// Receiver of messages that belong to no request under way.
pub trait Downstream: fmt::Debug + Send + Sync {
    /// Delivers `event` of `backend`, which came on the upstream session of a client's `session`, or on a
    /// connection that clients share (`None`). Must not block: the reader of the backend's stream calls it.
    fn deliver(&self, backend: &str, session: Option<SessionId>, event: Event);
}

/// Drops notifications and refuses questions: the default [`Downstream`].
#[derive(Debug)]
pub(crate) struct NoDownstream;

impl Downstream for NoDownstream {
    fn deliver(&self, _: &str, _: Option<SessionId>, _: Event) {}
}
