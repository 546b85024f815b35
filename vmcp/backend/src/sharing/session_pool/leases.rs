//! Leases of upstream sessions: a call gets one, and opens its session if need be (single flight).

use std::sync::Arc;

use tokio::time::Instant;
use tracing::Instrument as _;

use super::SessionPool;
use crate::connection::Connection;
use crate::inbound::RouteGuard;
use crate::inbound::call_listener::CallListener;
use crate::request::Request;
use crate::sharing::lease::SessionLease;
use crate::sharing::opening;
use crate::sharing::placement::Placement;
use crate::sharing::session::UpstreamSession;
use crate::sharing::sole_program::SecondProcess;
use crate::transport::LinkError;

impl SessionPool {
    /// Leases the upstream session for `request`, whose messages `listener` takes, and opens it if need be;
    /// `None` if the main connection serves it.
    pub(crate) async fn lease(
        self: &Arc<Self>,
        main: &Arc<Connection>,
        request: &Request<'_>,
        listener: &Arc<CallListener>,
    ) -> Result<Option<(SessionLease, Arc<Connection>)>, LinkError> {
        let Some(placement) = self.placements.of(&self.facts, main, request) else { return Ok(None) };
        // Only a program can be the only one; calls of other servers take no lock for the question.
        if self.facts.spec.starts_process() && self.sole.serves(main, placement.key) {
            return Ok(None);
        }
        let lease = self.take(placement)?;
        if let Some(connection) = lease.session().live() {
            if lease.session().stream.is_closed_idle() {
                Box::pin(self.follow_first(lease.session())).await;
            }
            return Ok(Some((lease, connection)));
        }
        if Box::pin(self.sole.take_over(&self.facts, main, placement.key)).await {
            self.forget(placement.key);
            return Ok(None);
        }
        let opened = Box::pin(self.open_leased(main, placement, lease, listener)).await?;
        if opened.is_some() || placement.era == main.server.era() || !main.refuses_legacy() {
            return Ok(opened);
        }
        // The server turned out to speak the modern era only: the call has another place.
        let Some(placement) = self.placements.of(&self.facts, main, request) else { return Ok(None) };
        let lease = self.take(placement)?;
        Box::pin(self.open_leased(main, placement, lease, listener)).await
    }

    /// Opens the session of a lease; `None` if the backend turns out to speak another era.
    async fn open_leased(
        self: &Arc<Self>,
        main: &Arc<Connection>,
        placement: Placement,
        mut lease: SessionLease,
        listener: &Arc<CallListener>,
    ) -> Result<Option<(SessionLease, Arc<Connection>)>, LinkError> {
        // A task of its own: the call that opens the session may be cancelled, and others wait for the
        // session.
        let opening =
            Arc::clone(self).open(Arc::clone(main), Arc::clone(lease.session()), Arc::clone(listener));
        let opened = tokio::spawn(opening.instrument(self.facts.task_span())).await;
        match opened.unwrap_or(Err(LinkError::Stopped)) {
            Ok((connection, route)) => {
                if route.is_some() {
                    opening::answer_first(&self.facts, &connection).await;
                }
                lease.route = route;
                Ok(Some((lease, connection)))
            }
            Err(error) if main.server.era() != placement.era && opening::refuses_era(&error) => {
                tracing::debug!(error = error.detail(), "the server speaks the modern era only");
                main.set_refuses_legacy();
                self.forget(placement.key);
                Ok(None)
            }
            Err(error) if self.sole.classify(&self.facts, main, &error) != SecondProcess::Unclear => {
                self.sole.share(&error);
                self.forget(placement.key);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens a session and its GET stream; the route takes the server's messages meanwhile.
    async fn open(
        self: Arc<Self>,
        main: Arc<Connection>,
        session: Arc<UpstreamSession>,
        listener: Arc<CallListener>,
    ) -> Result<(Arc<Connection>, Option<RouteGuard>), LinkError> {
        let _opening = session.opening.lock().await;
        // The call that held the lock before may have opened it.
        if let Some(connection) = session.live() {
            return Ok((connection, None));
        }
        let opened = opening::open(&self.facts, &main, session.placement, &listener, &self.warm).await;
        let (connection, route) = match opened {
            // Once may be an accident.
            Err(error) if self.sole.classify(&self.facts, &main, &error) == SecondProcess::EndedAtOnce => {
                opening::open(&self.facts, &main, session.placement, &listener, &self.warm).await?
            }
            opened => opened?,
        };
        self.sole.ran_twice();
        self.start_warm();
        let connection = Arc::new(connection);
        session.connection.store(Some(Arc::clone(&connection)));
        // Stored first, checked second, and `retire` does both the other way round: one of the two closes it.
        if session.is_ended() {
            session.end();
            return Err(LinkError::Stopped);
        }
        // The reader of a lost session may not have noticed yet, and would pass for the new one's.
        session.stream.stop();
        // Definitions that the server added in the session before are gone with it.
        self.drop_listing(&session);
        self.follow_first(&session).await;
        if let Some(client) =
            session.placement.owner.session().filter(|client| self.subscriptions.has(*client))
        {
            let (pool, connection) = (Arc::clone(&self), Arc::clone(&connection));
            tokio::spawn(async move { pool.resubscribe(&connection, client).await }.in_current_span());
        }
        Ok((connection, Some(route)))
    }

    /// Starts processes for the sessions that are expected next, within the limit on sessions.
    fn start_warm(self: &Arc<Self>) {
        let spec = &self.facts.spec;
        if !spec.starts_process() || spec.warm_sessions == 0 {
            return;
        }
        let wanted = (spec.warm_sessions as usize).min(self.limit().saturating_sub(self.count()));
        for _ in 0..self.warm.opened(wanted, Instant::now()) {
            let pool = Arc::clone(self);
            tokio::spawn(
                async move { pool.warm.add(opening::start_warm(&pool.facts).await) }.in_current_span(),
            );
        }
    }
}
