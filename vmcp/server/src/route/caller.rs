//! A client and its request, as routes need to know them.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use vmcp_backend::{ClientFacts, Event, SessionId};
use vmcp_wire::era::Era;

use crate::identity::Identity;
use crate::telemetry::traces::TraceContext;

/// Who asks, and how to reach them while their request runs.
#[derive(Clone, Default)]
pub struct Caller {
    /// Whose view of the catalog counts.
    pub identity: Identity,
    /// How it is asked for input: a modern client by the result, an older one while its request is under way.
    pub era: Era,
    /// What a backend may be told about the client.
    pub client: ClientFacts,
    /// The trace that the request belongs to.
    pub trace: TraceContext,
    /// The session, in the legacy era.
    pub session: Option<SessionId>,
    /// Receives what a backend sends before its answer. `None`: the caller cannot take anything.
    pub events: Option<mpsc::Sender<Event>>,
    /// Cancels the request.
    pub cancel: CancellationToken,
    /// The backend that this request goes on with, when it carries that backend's state.
    pub continues: Option<Arc<str>>,
}
