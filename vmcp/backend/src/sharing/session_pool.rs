//! The pool of upstream sessions at a legacy HTTP server that keeps state.
//!
//! A client session gets an upstream session of its own: opened at its first call (single flight), ended with
//! it, or reaped when it was idle for `session_idle`. Clients without a session (the modern era) share one
//! for each set of things that they can be asked. At most `max_sessions` are open; one more evicts the least
//! recently used idle one, and is refused if all are in use.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use tracing::Instrument as _;
use vmcp_wire::handshake::client_capabilities::AnswerableQuestions;
use vmcp_wire::{methods, rpc};

use crate::connection::client_capabilities;
use crate::connection::{Connection, era};
use crate::inbound::SessionOwner;
use crate::policy::facts::Facts;
use crate::request::{ClientFacts, Request, SessionId};
use crate::sharing::session::{SessionLease, UpstreamSession};
use crate::transport::{self, LinkError};

/// Bounds of the pause between two runs of the reaper, which is a quarter of `session_idle`.
const MIN_REAP_INTERVAL: Duration = Duration::from_millis(50);
const MAX_REAP_INTERVAL: Duration = Duration::from_mins(1);
/// Divisor of `session_idle`: an idle session's GET stream is closed after `session_idle /
/// STREAM_IDLE_DIVISOR`; the session itself lives on.
const STREAM_IDLE_DIVISOR: u32 = 30;
/// Time a call waits for the GET stream to open, on which the server may ask its questions; then the call
/// goes on without.
const STREAM_OPEN_TIMEOUT: Duration = Duration::from_millis(500);
/// Sessions closed side by side when the backend stops.
const MAX_CONCURRENT_CLOSES: usize = 32;
/// Time for all of them; the server forgets the rest by itself.
const CLOSE_ALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Upstream sessions of one backend, by the clients that use them.
#[derive(Debug)]
pub(crate) struct SessionPool {
    facts: Arc<Facts>,
    sessions: Mutex<HashMap<SessionKey, Arc<UpstreamSession>>>,
    /// ServerProfile-push streams that are open in this process, counted by client session.
    listening: Mutex<HashMap<SessionId, usize>>,
    /// The reaper runs: it is started with the first session.
    reaping: AtomicBool,
}

/// The clients that share an upstream session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum SessionKey {
    /// One client's session.
    Client(SessionId),
    /// All clients without a session that can be asked the same.
    Able(AnswerableQuestions),
}

impl SessionKey {
    /// `None` if the main connection will do: the client has no session and can be asked nothing.
    fn of(request: &Request<'_>) -> Option<Self> {
        if let Some(session) = request.session {
            return Some(Self::Client(session));
        }
        let abilities = AnswerableQuestions::read(request.client.capabilities.as_deref());
        (!abilities.is_empty()).then_some(Self::Able(abilities))
    }
}

impl SessionPool {
    pub(crate) fn new(facts: Arc<Facts>) -> Self {
        let (sessions, listening) = (Mutex::default(), Mutex::default());
        Self { facts, sessions, listening, reaping: AtomicBool::new(false) }
    }

    /// Leases the upstream session for `request` and opens it if need be; `None` if the main connection
    /// serves it.
    pub(crate) async fn lease(
        self: &Arc<Self>,
        main: &Arc<Connection>,
        request: &Request<'_>,
    ) -> Result<Option<(SessionLease, Arc<Connection>)>, LinkError> {
        if !main.keeps_state() {
            return Ok(None);
        }
        let Some(key) = SessionKey::of(request) else { return Ok(None) };
        let lease = self.take(key, request)?;
        if let Some(connection) = lease.session().live() {
            if lease.session().stream.is_closed_idle() {
                self.follow_first(lease.session()).await;
            }
            return Ok(Some((lease, connection)));
        }
        // A task of its own: the call that opens the session may be cancelled, and others wait for the
        // session.
        let opening =
            Arc::clone(self).open(Arc::clone(main), Arc::clone(lease.session()), request.client.clone());
        let opened = tokio::spawn(opening.in_current_span()).await;
        let connection = opened.unwrap_or(Err(LinkError::Stopped))?;
        Ok(Some((lease, connection)))
    }

    async fn open(
        self: Arc<Self>,
        main: Arc<Connection>,
        session: Arc<UpstreamSession>,
        client: ClientFacts,
    ) -> Result<Arc<Connection>, LinkError> {
        let _opening = session.opening.lock().await;
        // The call that held the lock before may have opened it.
        if let Some(connection) = session.live() {
            return Ok(connection);
        }
        let channel = transport::sibling(&self.facts, &main.channel, session.owner)?;
        let (info, capabilities) = match session.owner.session {
            Some(_) => (client.info.as_deref(), client_capabilities::relayed(client.capabilities.as_deref())),
            None => (None, session.owner.abilities.to_capabilities()),
        };
        let info = info.map_or(&*channel.client_info, RawValue::get);
        let after = self.facts.settings.connection_timeout;
        let opened =
            timeout(after, era::introduce(&channel, main.server.revision, info, &capabilities)).await;
        let server = opened.unwrap_or(Err(LinkError::ConnectTimeout { after }))?;
        // All sessions say the same about the server, and there may be thousands of them: one copy serves
        // all.
        let same = server.revision == main.server.revision && server.logs == main.server.logs;
        let server = if same { Arc::clone(&main.server) } else { Arc::new(server) };
        let connection = Arc::new(Connection::new(channel, server));
        session.connection.store(Some(Arc::clone(&connection)));
        // Stored first, checked second, and `retire` does both the other way round: one of the two closes it.
        if session.is_ended() {
            session.end();
            return Err(LinkError::Stopped);
        }
        // The reader of a lost session may not have noticed yet, and would pass for the new one's.
        session.stream.stop();
        self.follow_first(&session).await;
        Ok(connection)
    }

    fn take(self: &Arc<Self>, key: SessionKey, request: &Request<'_>) -> Result<SessionLease, LinkError> {
        let mut sessions = self.sessions.lock();
        if let Some(session) = sessions.get(&key) {
            return Ok(session.lease());
        }
        let limit = self.facts.settings.max_sessions;
        if sessions.len() >= limit {
            let idle = sessions.iter().filter_map(|(key, session)| Some((session.idle_since()?, *key)));
            let Some((_, oldest)) = idle.min_by_key(|(since, _)| *since) else {
                return Err(LinkError::Unsendable(format!("all {limit} sessions at the backend are in use")));
            };
            if let Some(session) = sessions.remove(&oldest) {
                session.end();
            }
        }
        let abilities = AnswerableQuestions::read(request.client.capabilities.as_deref());
        let session = Arc::new(UpstreamSession::new(SessionOwner { session: request.session, abilities }));
        sessions.insert(key, Arc::clone(&session));
        self.start_reaper();
        Ok(session.lease())
    }

    fn start_reaper(self: &Arc<Self>) {
        if self.reaping.swap(true, Ordering::Relaxed) {
            return;
        }
        let idle = self.facts.settings.session_idle;
        let (stop, pool) = (self.facts.stop.clone(), Arc::clone(self));
        let reap = async move {
            loop {
                sleep((idle / 4).clamp(MIN_REAP_INTERVAL, MAX_REAP_INTERVAL)).await;
                pool.end_idle(idle);
            }
        };
        tokio::spawn(stop.run_until_cancelled_owned(reap).in_current_span());
    }

    /// Ends sessions idle for `idle`, and closes the streams of those idle for a part of it. A session whose
    /// client listens is not idle: the server may have something to say.
    fn end_idle(&self, idle: Duration) {
        let mut sessions = self.sessions.lock();
        let unused = |session: &UpstreamSession, time| {
            session.idle_since().is_some_and(|since| since.elapsed() >= time)
                && !self.is_listening(session.owner)
        };
        for (_, session) in sessions.extract_if(|_, session| unused(session, idle)) {
            session.end();
        }
        for session in sessions.values() {
            if unused(session, idle / STREAM_IDLE_DIVISOR) {
                session.stream.close_idle();
            }
        }
    }

    fn is_listening(&self, owner: SessionOwner) -> bool {
        owner.session.is_some_and(|session| self.listening.lock().contains_key(&session))
    }

    /// Sessions that are open or being opened.
    pub(crate) fn count(&self) -> usize {
        self.sessions.lock().len()
    }

    fn of_client(&self, session: SessionId) -> Option<Arc<UpstreamSession>> {
        self.sessions.lock().get(&SessionKey::Client(session)).cloned()
    }

    /// The open upstream session of a client session.
    pub(crate) fn live_of_client(&self, session: SessionId) -> Option<Arc<Connection>> {
        self.of_client(session).and_then(|session| session.live())
    }

    /// Ends the upstream session of a client session.
    pub(crate) fn end(&self, session: SessionId) {
        let removed = self.sessions.lock().remove(&SessionKey::Client(session));
        if let Some(session) = removed {
            session.end();
        }
    }

    /// Ends all sessions and waits until the server was told, for at most [`CLOSE_ALL_TIMEOUT`].
    pub(crate) async fn end_all(&self) {
        let sessions = std::mem::take(&mut *self.sessions.lock());
        let closes = futures::stream::iter(sessions.into_values()).for_each_concurrent(
            MAX_CONCURRENT_CLOSES,
            async |session| {
                if let Some(connection) = session.retire() {
                    connection.close().await;
                }
            },
        );
        let _ = timeout(CLOSE_ALL_TIMEOUT, closes).await;
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
            let _ = timeout(STREAM_OPEN_TIMEOUT, opened).await;
        }
    }

    /// Opens the session's GET stream while its clients can be asked something or listen; else closes it.
    fn follow(&self, session: &UpstreamSession) -> Option<tokio::sync::oneshot::Receiver<()>> {
        let wanted = !session.owner.abilities.is_empty() || self.is_listening(session.owner);
        session.stream.follow(wanted, || session.live())
    }

    /// Tells the server that the client's roots have changed, if the client has a session there.
    pub(crate) fn roots_changed(&self, session: SessionId) {
        if let (Some(connection), Ok(runtime)) = (self.live_of_client(session), Handle::try_current()) {
            let message = Bytes::from(rpc::notification(methods::ROOTS_CHANGED, None));
            runtime.spawn(async move { connection.channel.link.notify(message).await });
        }
    }
}
