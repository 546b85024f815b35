//! The state of one backend that its handle, its calls and its background tasks share.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use arc_swap::ArcSwapOption;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, watch};
use tokio_util::task::TaskTracker;
use vmcp_config::status::{BackendState, BackendStatus};
use vmcp_model::discovered::Discovered;
use vmcp_wire::era::Revision;

use crate::connection::Connection;
use crate::policy::breaker::Breaker;
use crate::policy::facts::Facts;
use crate::policy::last_use::LastUse;
use crate::policy::list_crashes::ListCrashes;
use crate::sharing::session_pool::SessionPool;
use crate::sharing::subscription_registry::SubscriptionRegistry;
use crate::transport::LinkError;

/// Requests to subscribe and unsubscribe that one backend is sent side by side, whatever a client asks for at
/// once; further ones wait.
pub(crate) const MAX_CONCURRENT_SUBSCRIBES: usize = 16;

#[derive(Debug)]
pub(crate) struct BackendCore {
    pub(crate) facts: Arc<Facts>,
    /// The connection that calls use. Empty while none is open.
    pub(crate) current: ArcSwapOption<Connection>,
    /// Progress of connecting; the connector writes it.
    pub(crate) rounds: watch::Sender<ConnectRounds>,
    /// The number of the round that calls wait for; the calls write it.
    pub(crate) wanted: watch::Sender<u64>,
    pub(crate) breaker: Mutex<Breaker>,
    pub(crate) discovered: watch::Sender<Option<Arc<Discovered>>>,
    pub(crate) live: Mutex<LiveStatus>,
    pub(crate) subscriptions: SubscriptionRegistry,
    /// Permits for requests that subscribe and unsubscribe.
    pub(crate) subscribing: Semaphore,
    pub(crate) sessions: Arc<SessionPool>,
    /// Calls under way.
    pub(crate) calls: TaskTracker,
    /// True while the refresher lists.
    pub(crate) listing: AtomicBool,
    /// Outcome of the last listing of tools; the refresher writes it.
    pub(crate) listed: watch::Sender<ListingOutcome>,
    /// Lists over which the server ended.
    pub(crate) list_crashes: ListCrashes,
    /// Time of the last call.
    pub(crate) usage: LastUse,
}

/// Outcome of a listing of tools.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListingOutcome {
    /// The time at which the server was asked.
    pub(crate) begun: Option<Instant>,
    /// Reason why the tools are not those of this listing.
    pub(crate) error: Option<String>,
}

/// Rounds of connecting: each is a series of attempts that ended in a connection or in failure.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectRounds {
    /// Rounds that have ended.
    pub(crate) ended: u64,
    /// The error of the last round; `None` if it made a connection.
    pub(crate) error: Option<LinkError>,
}

/// The changing part of [`BackendStatus`].
#[derive(Debug, Default)]
pub(crate) struct LiveStatus {
    pub(crate) state: BackendState,
    /// The time of the last change of `state`.
    pub(crate) since: Option<SystemTime>,
    pub(crate) connected_at: Option<SystemTime>,
    pub(crate) connections: u32,
    pub(crate) last_error: Option<String>,
    pub(crate) last_refresh: Option<SystemTime>,
    /// Revision and `serverInfo` of the last connection.
    pub(crate) server: Option<(Revision, Option<Box<RawValue>>)>,
}

impl BackendCore {
    pub(crate) fn new(facts: Facts, cached: Option<Arc<Discovered>>) -> Self {
        let facts = Arc::new(facts);
        Self {
            breaker: Mutex::new(Breaker::new(facts.settings().breaker)),
            current: ArcSwapOption::empty(),
            rounds: watch::Sender::default(),
            wanted: watch::Sender::default(),
            discovered: watch::Sender::new(cached),
            live: Mutex::default(),
            subscriptions: SubscriptionRegistry::default(),
            subscribing: Semaphore::new(MAX_CONCURRENT_SUBSCRIBES),
            sessions: Arc::new(SessionPool::new(Arc::clone(&facts))),
            calls: TaskTracker::new(),
            listing: AtomicBool::new(false),
            listed: watch::Sender::default(),
            list_crashes: ListCrashes::default(),
            usage: LastUse::default(),
            facts,
        }
    }

    /// Returns the connection, made first if need be. Single flight: all callers that wait share one round of
    /// attempts.
    pub(crate) async fn connected(&self) -> Result<Arc<Connection>, LinkError> {
        match self.current.load_full() {
            Some(connection) => Ok(connection),
            None => Box::pin(self.next_connection()).await,
        }
    }

    async fn next_connection(&self) -> Result<Arc<Connection>, LinkError> {
        let mut rounds = self.rounds.subscribe();
        loop {
            if let Some(connection) = self.current.load_full() {
                return Ok(connection);
            }
            let seen = rounds.borrow_and_update().ended;
            self.want(seen + 1);
            if self.facts.settings().fail_fast && self.has_failed() {
                return Err(LinkError::Down);
            }
            tokio::select! {
                () = self.facts.stop.cancelled() => return Err(LinkError::Stopped),
                round = rounds.wait_for(|rounds| rounds.ended > seen) => {
                    let Ok(round) = round else { return Err(LinkError::Stopped) };
                    if let Some(error) = &round.error {
                        return Err(error.clone());
                    }
                }
            }
        }
    }

    /// True if an error was recorded since the last connection was made, or before the first one.
    fn has_failed(&self) -> bool {
        self.live.lock().last_error.is_some()
    }

    /// Asks the connector for round number `round`, unless it has run already.
    pub(crate) fn want(&self, round: u64) {
        self.wanted.send_if_modified(|wanted| {
            let later = round > *wanted;
            *wanted = round.max(*wanted);
            later
        });
    }

    /// Gives up a dead connection: no new call uses it, and the connector makes another.
    pub(crate) fn discard(&self, connection: &Arc<Connection>, error: &LinkError) {
        tracing::info!(error = error.detail(), "connection ended");
        self.remember_error(error.detail());
        if matches!(error, LinkError::SessionLost(_)) {
            connection.session_lost.store(true, Ordering::Relaxed);
        }
        self.forget(connection);
        connection.channel.closed.cancel();
    }

    /// Empties `current` if it still holds this connection: the connector may have replaced it meanwhile.
    pub(crate) fn forget(&self, connection: &Arc<Connection>) {
        let current = self.current.load();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
            self.current.compare_and_swap(&current, None);
        }
    }

    pub(crate) fn remember_error(&self, detail: String) {
        self.live.lock().last_error = Some(detail);
    }

    pub(crate) fn status(&self) -> BackendStatus {
        let live = self.live.lock();
        let discovered = self.discovered.borrow().clone();
        let discovered = discovered.as_deref();
        let count = |count: fn(&Discovered) -> usize| discovered.map_or(0, count);
        let (revision, info) =
            live.server.as_ref().map(|(revision, info)| (*revision, info.as_deref())).unzip();
        let info = info.flatten().or_else(|| discovered?.server_info.as_deref());
        let server = info.map(ServerInfo::read).unwrap_or_default();
        BackendStatus {
            name: self.facts.spec.name.to_string(),
            transport: self.facts.spec.kind().to_owned(),
            state: live.state,
            since: live.since,
            era: revision.map(|revision| revision.era().as_str().to_owned()),
            revision: revision.map(|revision| revision.as_str().to_owned()),
            server_name: server.name,
            server_version: server.version,
            credentials: self.facts.spec.credentials.fetched_kind().map(str::to_owned),
            signed_in_at: self.facts.spec.credentials.signed_in_at(),
            proxy: self.facts.proxy(),
            connected_at: live.connected_at,
            last_error: live.last_error.clone().or_else(|| self.facts.floods.recent()),
            breaker: self.breaker.lock().position(Instant::now()),
            tools: discovered.filter(|found| found.knows_tools()).map(|found| found.tools.len()),
            resources: count(|d| d.resources.len()),
            templates: count(|d| d.templates.len()),
            prompts: count(|d| d.prompts.len()),
            rejected: count(|d| d.rejected.len()),
            restarts: live.connections.saturating_sub(1),
            sessions: self.sessions.count(),
            last_refresh: live.last_refresh,
            cached: discovered.is_some() && live.last_refresh.is_none(),
            changes: None,
            quarantined: Vec::new(),
            advice: self.sessions.advice(),
        }
    }
}

/// The readable part of `serverInfo`.
#[derive(Default, serde::Deserialize)]
struct ServerInfo {
    name: Option<String>,
    version: Option<String>,
}

impl ServerInfo {
    fn read(raw: &RawValue) -> Self {
        serde_json::from_str(raw.get()).unwrap_or_default()
    }
}
