//! [`ServerPush`]: the state that push streams and subscriptions share.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use vmcp_backend::SessionId;

use super::downstream_router::DownstreamRouter;
use vmcp_engine::engine::Engine;

/// The state behind all push streams and subscriptions of this process.
pub(crate) struct ServerPush {
    pub(crate) engine: Engine,
    pub(crate) router: Arc<DownstreamRouter>,
    /// Cancelled at shutdown; ends all push streams.
    pub(crate) closing: CancellationToken,
}

impl ServerPush {
    /// Frees all that an ended session holds, in this process and at the backends.
    pub(crate) fn end_session(&self, session: SessionId) {
        self.router.end_session(session);
        self.engine.contexts().forget(session);
        for backend in self.engine.snapshot().backends.values() {
            backend.end_session(session);
        }
    }

    /// Frees what was registered for a session that its client ended concurrently. Call after each
    /// registration: the end may have come between the check of the session id and the registration.
    pub(crate) fn release_if_ended(&self, session: SessionId) {
        if self.router.sessions.has_ended(session) {
            self.router.end_session(session);
        }
    }
}
