//! [`SessionLease`]: a call's hold on an upstream session, which may end with it.

use std::sync::Arc;

use crate::inbound::RouteGuard;
use crate::sharing::session::UpstreamSession;
use crate::sharing::session_pool::SessionPool;

/// A call's hold on an [`UpstreamSession`]; a leased session is never idle.
#[derive(Debug)]
pub(crate) struct SessionLease {
    session: Arc<UpstreamSession>,
    /// Set if the session ends with the lease.
    ends_in: Option<Arc<SessionPool>>,
    /// Routes to the call for which the session was opened what the server said before it.
    pub(crate) route: Option<RouteGuard>,
}

impl SessionLease {
    /// Takes a lease. The caller holds the lock of the pool, so that the reaper cannot see the session idle
    /// in between.
    pub(crate) fn new(session: Arc<UpstreamSession>) -> SessionLease {
        session.begin_use();
        SessionLease { session, ends_in: None, route: None }
    }

    /// The leased session.
    pub(crate) fn session(&self) -> &Arc<UpstreamSession> {
        &self.session
    }

    /// Makes the session, which is in `pool`, end with the lease.
    pub(crate) fn ends_in(&mut self, pool: Arc<SessionPool>) {
        self.ends_in = Some(pool);
    }
}

impl Drop for SessionLease {
    fn drop(&mut self) {
        self.session.end_use();
        if let Some(pool) = self.ends_in.take() {
            pool.forget(self.session.placement.key);
        }
    }
}
