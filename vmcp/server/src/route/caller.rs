//! The client of a request, as routes need to know it.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use vmcp_backend::{ClientFacts, Event, SessionId};
use vmcp_wire::era::Era;

use crate::identity::Identity;
use crate::telemetry::traces::TraceContext;

/// The client of a request, and the way to reach it while the request runs.
#[derive(Clone, Default)]
pub struct Caller {
    /// The identity whose view of the catalog counts.
    pub identity: Identity,
    /// The client's era: a modern client is asked for input by the result, a legacy one while its request is
    /// under way.
    pub era: Era,
    /// Facts about the client that a backend may be told.
    pub client: ClientFacts,
    /// The trace that the request belongs to.
    pub trace: TraceContext,
    /// The session, in the legacy era.
    pub session: Option<SessionId>,
    /// Receives a backend's messages before its answer; `None`: the client cannot take any.
    pub events: Option<mpsc::Sender<Event>>,
    /// Cancels the request.
    pub cancel: CancellationToken,
    /// The backend whose sealed state this request carries; the request may go to no other one.
    pub continues: Option<Arc<str>>,
}
