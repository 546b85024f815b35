//! The pool of upstream sessions: the connections at one backend that clients own, as
//! [`Placements`] decides.
//!
//! A client session gets an upstream session of its own: opened at its first call (single flight), ended with
//! it, or reaped when it was idle for `session_idle`. Clients without a session (the modern era) share those
//! of their principal. A backend has a limited number; one more evicts the least recently used idle one, and
//! is refused if all are in use. A principal gets half of them at most.

mod leases;
mod room;
mod subscriptions;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::timeout;
use vmcp_wire::era::Era;
use vmcp_wire::{methods, rpc};

use crate::connection::Connection;
use crate::policy::facts::Facts;
use crate::request::{ClientInstance, Event, Request, SessionId};
use crate::sharing::placement::{OwnerKey, Placements};
use crate::sharing::session::UpstreamSession;
use crate::sharing::session_listings::{ChangedLists, SessionListing, SessionListings};
use crate::sharing::session_subscriptions::SessionSubscriptions;
use crate::sharing::sole_program::SoleProgram;
use crate::sharing::warm_processes::WarmProcesses;

/// Time a call waits for the GET stream to open, on which the server may ask its questions; then the call,
/// and each later one of the session, goes on without.
const STREAM_OPEN_TIMEOUT: Duration = Duration::from_millis(500);
/// Sessions closed side by side when the backend stops.
const MAX_CONCURRENT_CLOSES: usize = 32;
/// Time for all of them; the server forgets the rest by itself.
const CLOSE_ALL_TIMEOUT: Duration = Duration::from_secs(5);

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
