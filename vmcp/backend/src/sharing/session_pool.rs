//! The pool of upstream sessions: the connections at one backend that clients own, as
//! [`Placements`] decides.
//!
//! A client session gets an upstream session of its own: opened at its first call (single flight), ended with
//! it, or reaped when it was idle for `session_idle`. Clients without a session (the modern era) share those
//! of their principal. A backend has a limited number; one more evicts the least recently used idle one, and
//! is refused if all are in use. A principal gets half of them at most.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};
use tracing::Instrument as _;
use vmcp_config::Transport;
use vmcp_wire::era::Era;
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::{methods, rpc};

use crate::connection::Connection;
use crate::inbound::RouteGuard;
use crate::inbound::call_listener::CallListener;
use crate::policy::facts::Facts;
use crate::request::{ClientInstance, Event, OWN_SESSION, Principal, Request, RpcOutcome, SessionId};
use crate::sharing::opening;
use crate::sharing::placement::{OwnerKey, Placement, Placements};
use crate::sharing::session::{SessionLease, UpstreamSession};
use crate::sharing::session_listings::{ChangedLists, SessionListing, SessionListings};
use crate::sharing::session_subscriptions::{self, SessionSubscriptions};
use crate::sharing::sole_program::{SecondProcess, SoleProgram};
use crate::sharing::warm_processes::WarmProcesses;
use crate::transport::LinkError;

/// Time a call waits for the GET stream to open, on which the server may ask its questions; then the call,
/// and each later one of the session, goes on without.
const STREAM_OPEN_TIMEOUT: Duration = Duration::from_millis(500);
/// Time for a server to renew one subscription.
const RESUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(10);
/// Sessions closed side by side when the backend stops.
const MAX_CONCURRENT_CLOSES: usize = 32;
/// Time for all of them; the server forgets the rest by itself.
const CLOSE_ALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Sessions of processes, unless the backend's configuration says otherwise. A process holds tens of MiB.
const MAX_PROCESSES: usize = 64;
/// Sessions of event streams; each holds a socket.
const MAX_EVENT_STREAMS: usize = 1000;

/// Upstream sessions of one backend, by the clients that use them.
#[derive(Debug)]
pub(crate) struct SessionPool {
    pub(super) facts: Arc<Facts>,
    placements: Placements,
    pub(super) sessions: Mutex<HashMap<OwnerKey, Arc<UpstreamSession>>>,
    /// Server-push streams that are open in this process, counted by client session.
    listening: Mutex<HashMap<SessionId, usize>>,
    /// The reaper runs: it is started with the first session.
    pub(super) reaping: AtomicBool,
    subscriptions: SessionSubscriptions,
    /// Definitions that client sessions have for themselves.
    pub(crate) listings: SessionListings,
    pub(super) warm: WarmProcesses,
    /// Knowledge about a program that may run only once.
    pub(super) sole: SoleProgram,
}

impl SessionPool {
    pub(crate) fn new(facts: Arc<Facts>) -> Self {
        let listings = SessionListings::new(facts.settings().session_listings.clone());
        Self {
            facts,
            placements: Placements::default(),
            sessions: Mutex::default(),
            listening: Mutex::default(),
            reaping: AtomicBool::new(false),
            subscriptions: SessionSubscriptions::default(),
            listings,
            warm: WarmProcesses::default(),
            sole: SoleProgram::default(),
        }
    }

    /// True if the client session has a connection of its own, or will have one with its next call.
    pub(crate) fn owns(&self, main: &Arc<Connection>, request: &Request<'_>) -> bool {
        let placement = self.placements.of(&self.facts, main, request);
        placement.is_some_and(|placement| {
            matches!(placement.key, OwnerKey::Session(_)) && !self.sole.serves(main, placement.key)
        })
    }

    /// Records that a session has subscribed on its own connection, and listens there.
    pub(crate) fn subscribed(&self, session: SessionId, uri: &str) {
        self.subscriptions.add(session, uri);
        if let Some(session) = self.of_client(session) {
            self.follow(&session);
        }
    }

    /// True if the session has subscribed to the resource on its own connection.
    pub(crate) fn has_subscription(&self, session: SessionId, uri: &str) -> bool {
        self.subscriptions.of(session).iter().any(|own| **own == *uri)
    }

    /// True if the session has subscribed to anything on its own connection.
    pub(crate) fn has_subscriptions(&self, session: SessionId) -> bool {
        self.subscriptions.has(session)
    }

    /// Takes a subscription back, which the server is told in the background; false if the session has none.
    pub(crate) fn unsubscribe(&self, session: SessionId, uri: &str) -> bool {
        let removed = self.subscriptions.remove(session, uri);
        let params = OwnedParams::from_text(session_subscriptions::named(uri)).ok();
        if let (true, Some(params), Some(connection), Ok(runtime)) =
            (removed, params, self.live_of_client(session), Handle::try_current())
        {
            runtime.spawn(async move {
                let _ = connection.ask(&Request::new(methods::UNSUBSCRIBE, &params)).await;
            });
        }
        removed
    }

    /// Subscribes again on a connection that was opened again, and tells the client to look again.
    async fn resubscribe(&self, connection: &Connection, session: SessionId) {
        for uri in self.subscriptions.of(session) {
            let Ok(params) = OwnedParams::from_text(session_subscriptions::named(&uri)) else { continue };
            let request = Request::new(methods::SUBSCRIBE, &params);
            let asked = timeout(RESUBSCRIBE_TIMEOUT, connection.ask(&request)).await;
            if !matches!(asked, Ok(Ok(RpcOutcome::Result(_)))) {
                tracing::info!("a subscription of a client's session could not be renewed");
            }
            if let Some(message) = session_subscriptions::updated(&uri) {
                let settings = self.facts.settings();
                settings.downstream.deliver(
                    &self.facts.spec.name,
                    Some(session).filter(|session| *session != OWN_SESSION),
                    Event::Notification(message),
                );
            }
        }
    }

    /// Leases the upstream session for `request`, whose messages `listener` takes, and opens it if need be;
    /// `None` if the main connection serves it.
    pub(crate) async fn lease(
        self: &Arc<Self>,
        main: &Arc<Connection>,
        request: &Request<'_>,
        listener: &Arc<CallListener>,
    ) -> Result<Option<(SessionLease, Arc<Connection>)>, LinkError> {
        let Some(placement) = self.placements.of(&self.facts, main, request) else { return Ok(None) };
        if self.sole.serves(main, placement.key) {
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

    fn take(self: &Arc<Self>, placement: Placement) -> Result<SessionLease, LinkError> {
        let mut sessions = self.sessions.lock();
        if let Some(session) = sessions.get(&placement.key) {
            return Ok(session.lease());
        }
        let evicted = self.make_room(&mut sessions, placement.principal)?;
        let session = Arc::new(UpstreamSession::new(placement));
        sessions.insert(placement.key, Arc::clone(&session));
        let mut lease = session.lease();
        drop(sessions);
        if let Some(evicted) = evicted {
            self.drop_listing(&evicted);
        }
        self.start_reaper();
        if matches!(placement.key, OwnerKey::Call(_)) {
            lease.ends_in(Arc::clone(self));
        }
        Ok(lease)
    }

    /// Evicts the session that was idle for longest, if there is no room for another of `principal`; returns
    /// it.
    fn make_room(
        &self,
        sessions: &mut HashMap<OwnerKey, Arc<UpstreamSession>>,
        principal: Principal,
    ) -> Result<Option<Arc<UpstreamSession>>, LinkError> {
        let limit = self.limit();
        let of = |session: &UpstreamSession| session.placement.principal == principal;
        let is_full = sessions.len() >= limit;
        // The only client of a process has all of it; the clients of a bridge come through one vmcp.
        let is_only = principal == Principal::Anonymous || self.facts.settings().in_our_place;
        let share = if is_only { limit } else { limit.div_ceil(2) };
        let is_over =
            sessions.len() >= share && sessions.values().filter(|session| of(session)).count() >= share;
        if !is_full && !is_over {
            return Ok(None);
        }
        let candidates = sessions.iter().filter(|(_, session)| !is_over || of(session));
        let idle = candidates.filter_map(|(key, session)| Some((session.idle_since()?, *key)));
        let Some((_, oldest)) = idle.min_by_key(|(since, _)| *since) else {
            let count = if is_over { share } else { limit };
            let reason = format!("all {count} sessions at the backend are in use; try again later");
            return Err(LinkError::Unsendable(reason));
        };
        let evicted = sessions.remove(&oldest);
        if let Some(evicted) = &evicted {
            evicted.end();
        }
        Ok(evicted)
    }

    fn limit(&self) -> usize {
        let (spec, settings) = (&self.facts.spec, self.facts.settings());
        let by_transport = match spec.transport {
            Transport::Http { .. } => settings.max_sessions,
            Transport::Sse { .. } | Transport::WebSocket { .. } => {
                settings.max_sessions.min(MAX_EVENT_STREAMS)
            }
            Transport::Stdio { .. } => settings.max_sessions.min(MAX_PROCESSES),
        };
        spec.max_sessions.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(by_transport).max(1)
    }

    pub(super) fn is_listening(&self, session: &UpstreamSession) -> bool {
        let session = session.placement.owner.session();
        session.is_some_and(|session| self.listening.lock().contains_key(&session))
    }

    /// Sessions that are open or being opened.
    pub(crate) fn count(&self) -> usize {
        self.sessions.lock().len()
    }

    pub(crate) fn of_client(&self, session: SessionId) -> Option<Arc<UpstreamSession>> {
        self.sessions.lock().get(&OwnerKey::Session(session)).cloned()
    }

    /// The open upstream session of a client session.
    pub(crate) fn live_of_client(&self, session: SessionId) -> Option<Arc<Connection>> {
        self.of_client(session).and_then(|session| session.live())
    }

    /// Ends the upstream session of a client session.
    pub(crate) fn end(&self, session: SessionId) {
        self.subscriptions.end(session);
        self.forget(OwnerKey::Session(session));
        if let Some(main) = self.sole.release(OwnerKey::Session(session)) {
            main.channel.closed.cancel();
        }
    }

    /// Ends the upstream sessions of a client without a session that has gone.
    pub(crate) fn end_instance(&self, number: u64) {
        let instance = ClientInstance::Number(number);
        let of_client = |session: &UpstreamSession| session.placement.instance == instance;
        let mut sessions = self.sessions.lock();
        let ended: Vec<_> =
            sessions.extract_if(|_, session| of_client(session) && session.idle_since().is_some()).collect();
        drop(sessions);
        for (_, session) in &ended {
            session.end();
        }
    }

    /// Ends the upstream session of `key`.
    pub(crate) fn forget(&self, key: OwnerKey) {
        let removed = self.sessions.lock().remove(&key);
        if let Some(session) = removed {
            session.end();
            self.drop_listing(&session);
        }
    }

    /// Returns the definitions that a client session has on its own connection, where they differ from the
    /// backend's own.
    pub(crate) fn listing(&self, session: SessionId) -> Option<SessionListing> {
        self.listings.get(session).filter(|_| self.live_of_client(session).is_some())
    }

    /// Forgets the definitions of a connection that has ended or was opened again, and tells its client.
    pub(super) fn drop_listing(&self, session: &UpstreamSession) {
        if let Some(session) = session.placement.owner.session() {
            self.announce(session, self.listings.remove(session));
        }
    }

    /// Tells a client which of its lists changed in its own session.
    pub(crate) fn announce(&self, session: SessionId, changed: ChangedLists) {
        let settings = self.facts.settings();
        for method in changed.methods() {
            if let Ok(message) = serde_json::from_slice(&rpc::notification(method, None)) {
                let event = Event::Notification(message);
                settings.downstream.deliver(&self.facts.spec.name, Some(session), event);
            }
        }
    }

    /// Ends all sessions and waits until the server was told, for at most [`CLOSE_ALL_TIMEOUT`].
    pub(crate) async fn end_all(&self) {
        let sessions = std::mem::take(&mut *self.sessions.lock());
        for session in sessions.values() {
            self.drop_listing(session);
        }
        let closes = futures::stream::iter(sessions.into_values()).for_each_concurrent(
            MAX_CONCURRENT_CLOSES,
            async |session| {
                if let Some(connection) = session.retire() {
                    connection.close().await;
                }
            },
        );
        let warm = futures::stream::iter(self.warm.close()).for_each_concurrent(
            MAX_CONCURRENT_CLOSES,
            async |process| {
                process.closed.cancel();
                process.link.close().await;
            },
        );
        let _ = timeout(CLOSE_ALL_TIMEOUT, futures::future::join(closes, warm)).await;
    }

    /// Records that a server-push stream of a client session opened or closed in this process.
    pub(crate) fn listen(&self, session: SessionId, open: bool) {
        {
            let mut listening = self.listening.lock();
            let streams = listening.entry(session).or_default();
            *streams = if open { *streams + 1 } else { streams.saturating_sub(1) };
            if *streams == 0 {
                listening.remove(&session);
            }
        }
        if let Some(session) = self.of_client(session) {
            self.follow(&session);
        }
    }

    /// Opens the GET stream as [`SessionPool::follow`] does, and waits until the server has answered: a
    /// question that it asks before has nobody to go to.
    async fn follow_first(&self, session: &UpstreamSession) {
        if let Some(opened) = self.follow(session) {
            session.stream.answered(opened, STREAM_OPEN_TIMEOUT).await;
        }
    }

    /// Opens the session's GET stream while its clients can be asked something or listen; else closes it.
    fn follow(&self, session: &UpstreamSession) -> Option<tokio::sync::oneshot::Receiver<()>> {
        let owner = session.placement.owner;
        let wanted = !owner.abilities().is_empty()
            || self.is_listening(session)
            || owner.session().is_some_and(|session| self.subscriptions.has(session));
        self.facts.task_span().in_scope(|| session.stream.follow(wanted, || session.live()))
    }

    /// Tells the server that the client's roots have changed, if the client has a session there.
    pub(crate) fn roots_changed(&self, session: SessionId) {
        let connection = self.live_of_client(session);
        let connection = connection.filter(|connection| connection.server.era() == Era::Legacy);
        if let (Some(connection), Ok(runtime)) = (connection, Handle::try_current()) {
            let message = Bytes::from(rpc::notification(methods::ROOTS_CHANGED, None));
            runtime.spawn(async move { connection.channel.link.notify(message).await });
        }
    }
}
