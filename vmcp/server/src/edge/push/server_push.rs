//! [`ServerPush`]: the state that streams and subscriptions share.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use vmcp_backend::SessionId;

use super::downstream_router::DownstreamRouter;
use crate::edge::session::sessions::Sessions;
use crate::engine::Engine;

/// The shared state behind all streams and subscriptions of this process.
pub(crate) struct ServerPush {
    pub(crate) engine: Engine,
    pub(crate) router: Arc<DownstreamRouter>,
    pub(crate) sessions: Arc<Sessions>,
    /// Cancelled when the server shuts down: all streams end then.
    pub(crate) closing: CancellationToken,
}

impl ServerPush {
    /// Frees everything that belongs to a session that has ended, here and at the backends.
    pub(crate) fn end_session(&self, session: SessionId) {
        self.router.end_session(session);
        for backend in self.engine.snapshot().backends.values() {
            backend.end_session(session);
        }
    }

    /// Frees what was registered of a session that its client ended in the same moment.
    pub(crate) fn release_if_ended(&self, session: SessionId) {
        if self.sessions.has_ended(session) {
            self.router.end_session(session);
        }
    }
}
