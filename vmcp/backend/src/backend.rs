//! The handle of a backend: what the rest of the process may do with it.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::DropGuard;
use tracing::Instrument as _;
use vmcp_config::status::BackendStatus;
use vmcp_model::discovered::Discovered;
use vmcp_wire::era::Revision;
use vmcp_wire::level::Level;

use crate::call;
use crate::call::{legacy_probe, session_lease, subscribe};
use crate::policy::facts::Facts;
use crate::policy::settings::BackendSettings;
use crate::request::SessionId;
use crate::request::{CallError, Request, Response, RpcOutcome, ServerNetwork, Subscriber};
use crate::sharing::core::{BackendCore, ListingOutcome};
use crate::sharing::session_listings::SessionListing;
use crate::transport::LinkError;
use crate::upkeep::connector::Connector;
use crate::upkeep::{idle_stop, refresher, session_refresher};

/// One configured MCP server. Clones are handles of the same one; dropping the last closes the connection.
///
/// A server that cannot be started is a status, not a panic, and its calls fail with the reason:
///
/// ```
/// use vmcp_backend::{Backend, BackendSettings, BackendState, Request};
/// use vmcp_wire::owned::OwnedParams;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let spec = vmcp_config::Backend {
///     name: "notes".into(),
///     transport: vmcp_config::Transport::Stdio {
///         command: "/no/such/program".to_owned(),
///         args: Vec::new(),
///         env: Default::default(),
///         cwd: None,
///         inherit_env: Vec::new(),
///         idle_timeout: None,
///     },
///     enabled: true,
///     timeout: None,
///     connection_timeout: None,
///     ca_bundle_path: None,
///     addresses: vmcp_config::addresses::ReachableAddresses::Any,
///     preconnect: false,
///     isolation: None,
///     protocol_era: vmcp_config::ProtocolEra::Auto,
///     max_sessions: None,
///     warm_sessions: 0,
///     credentials: Default::default(),
///     passthrough_headers: Default::default(),
///     known_secrets: Default::default(),
///     codex: None,
/// };
/// let settings = BackendSettings { max_connection_retries: 0, ..BackendSettings::default() };
/// let backend = Backend::start(spec, settings, None);
///
/// let params = OwnedParams::from_text(r#"{"name":"search"}"#).unwrap();
/// let error = backend.request(Request::new("tools/call", &params)).await.unwrap_err();
/// assert_eq!(error.category(), "unavailable");
/// assert_eq!(backend.status().state, BackendState::Failed);
/// backend.stop().await;
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Backend(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    shared: Arc<BackendCore>,
    connector: tokio::sync::Mutex<JoinHandle<()>>,
    _stop: DropGuard,
}

impl Backend {
    /// Starts the background tasks, whatever `spec.enabled` says: that decision is the caller's. Given
    /// `cached` definitions, it connects at the first use, or after [`BackendSettings::revalidate_after`],
    /// unless `spec.preconnect` or [`BackendSettings::lazy_connect`] says otherwise.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(
        spec: vmcp_config::Backend,
        settings: BackendSettings,
        cached: Option<Arc<Discovered>>,
    ) -> Self {
        let eager = cached.is_none() || spec.preconnect || !settings.lazy_connect;
        let revalidate_after = settings.revalidate_after;
        let shared = Arc::new(BackendCore::new(Facts::new(spec, settings), cached));
        if eager {
            shared.want(1);
        } else {
            tokio::spawn(revalidate(Arc::downgrade(&shared), revalidate_after));
        }
        let span = shared.facts.task_span();
        tokio::spawn(refresher::run(Arc::clone(&shared)).instrument(span.clone()));
        tokio::spawn(session_refresher::run(Arc::clone(&shared)).instrument(span.clone()));
        let connector = tokio::spawn(Connector::new(Arc::clone(&shared)).run().instrument(span));
        let stop = shared.facts.stop.clone().drop_guard();
        Self(Arc::new(Handle { shared, connector: connector.into(), _stop: stop }))
    }

    /// The configured name.
    pub fn name(&self) -> &Arc<str> {
        &self.0.shared.facts.spec.name
    }

    /// True if both are handles of the same backend.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The configuration that the backend was started with.
    pub fn spec(&self) -> &vmcp_config::Backend {
        &self.0.shared.facts.spec
    }

    /// The way to the server, for telemetry.
    pub fn network(&self) -> &Arc<ServerNetwork> {
        &self.0.shared.facts.network
    }

    /// Returns the revision that the server spoke when it was listed, if it was.
    pub fn revision(&self) -> Option<Revision> {
        let listed = self.0.shared.discovered.borrow();
        listed.as_ref().and_then(|listed| Revision::parse(listed.revision.as_deref()?))
    }

    /// The status for operators, as of now.
    pub fn status(&self) -> BackendStatus {
        self.0.shared.status()
    }

    /// The definitions: the cached ones at first, then those of each listing that differs. A listing that
    /// fails changes nothing. Clone out of a `borrow` at once: while one is held, the next listing and
    /// `status` wait.
    pub fn discovered(&self) -> watch::Receiver<Option<Arc<Discovered>>> {
        self.0.shared.discovered.subscribe()
    }

    /// Sends a request, connecting first if need be. [`Request::deadline`] limits it, not `spec.timeout`.
    pub async fn request(&self, request: Request<'_>) -> Result<Response, CallError> {
        let shared = &self.0.shared;
        // Closed before the token of the stop is cancelled. No call looks at the token: that takes a lock.
        if shared.calls.is_closed() {
            return Err(LinkError::Stopped.into());
        }
        let _underway = shared.calls.token();
        shared.usage.touch();
        let response = call::run(shared, request).await?;
        idle_stop::keep_for_task(shared, &response);
        Ok(response)
    }

    /// Returns the definitions that a client session has on its own connection to a server that added some
    /// there; `None` where they are those of [`Backend::discovered`].
    pub fn session_listing(&self, session: SessionId) -> Option<SessionListing> {
        self.0.shared.sessions.listing(session)
    }

    /// Masks the secrets of the backend's configuration in a text that its server wrote.
    pub fn mask_secrets(&self, text: &str) -> String {
        self.0.shared.facts.secrets.load().mask(text).into_owned()
    }

    /// Asks for a new listing soon. A backend that is not connected is connected for it.
    pub fn refresh(&self) {
        let shared = &self.0.shared;
        if shared.current.load().is_some() {
            shared.facts.changed.notify_one();
        } else {
            // Every new connection is listed.
            shared.want(shared.rounds.borrow().ended + 1);
        }
    }

    /// Lists the tools of a connected backend, and returns once they were published; or the reason why they
    /// could not be listed. The caller limits the time.
    pub async fn relist(&self) -> Result<(), String> {
        let shared = &self.0.shared;
        let (asked, mut listed, mut rounds) =
            (Instant::now(), shared.listed.subscribe(), shared.rounds.subscribe());
        self.refresh();
        let is_later = |listing: &ListingOutcome| listing.begun.is_some_and(|begun| begun >= asked);
        let stopped = || LinkError::Stopped.to_string();
        let seen = rounds.borrow_and_update().ended;
        let lost = rounds.wait_for(|round| round.ended > seen && round.error.is_some());
        tokio::select! {
            listing = listed.wait_for(is_later) => {
                listing.map_err(|_| stopped())?.error.clone().map_or(Ok(()), Err)
            }
            round = lost => Err(round.ok().and_then(|round| round.error.clone()).map_or_else(stopped, |e| e.detail())),
            () = shared.facts.stop.cancelled() => Err(stopped()),
        }
    }

    /// Takes over another configuration without a new connection: values of headers, limits and intervals.
    /// The caller makes sure that nothing else differs.
    pub fn reconfigure(&self, spec: &vmcp_config::Backend, settings: BackendSettings) {
        let core = &self.0.shared;
        core.breaker.lock().reconfigure(settings.breaker);
        let is_sooner = settings.refresh_interval < core.facts.settings().refresh_interval;
        let has_headers = core.facts.reconfigure(spec, settings);
        if has_headers || (is_sooner && core.current.load().is_some()) {
            // Another token may show other tools, or be what a failed backend waits for.
            self.refresh();
        }
    }

    /// Closes the connection and makes another. Calls under way fail; a program is ended and started again.
    pub fn restart(&self) {
        let shared = &self.0.shared;
        match shared.current.load_full() {
            Some(connection) => {
                shared.forget(&connection);
                connection.channel.closed.cancel();
            }
            None => shared.want(shared.rounds.borrow().ended + 1),
        }
    }

    /// Ends the upstream session of a client session that has ended.
    pub fn end_session(&self, session: SessionId) {
        self.0.shared.sessions.end(session);
    }

    /// Ends the upstream sessions of a client that had this
    /// [number](crate::ClientInstance::Number) and has gone.
    pub fn end_instance(&self, number: u64) {
        self.0.shared.sessions.end_instance(number);
    }

    /// Records that a client session's server-push (GET) stream opened or closed in this process. Every
    /// `true` needs one `false`.
    pub fn listen_session(&self, session: SessionId, open: bool) {
        self.0.shared.sessions.listen(session, open);
    }

    /// Sets the log level of a client's session. Its calls must carry the level too, in
    /// [`ClientFacts::log_level`](crate::ClientFacts::log_level).
    pub fn set_log_level(&self, session: SessionId, level: Level) {
        session_lease::set_level(&self.0.shared, session, level);
    }

    /// Tells the backend that the roots of a session's client have changed.
    pub fn roots_changed(&self, session: SessionId) {
        self.0.shared.sessions.roots_changed(session);
    }

    /// Learns what a server of both eras offers to legacy clients, if it was not asked yet: its discovery may
    /// name less. `None` if there is nothing to learn.
    pub fn learn_legacy_capabilities(&self) -> Option<impl Future<Output = ()> + Send + 'static> {
        let shared = Arc::clone(&self.0.shared);
        legacy_probe::is_due(&shared).then_some(async move { legacy_probe::learn(&shared).await })
    }

    /// Subscribes a client to a resource: `notifications/resources/updated` goes to
    /// [`BackendSettings::downstream`] until [`Backend::unsubscribe`], across reconnections; under the
    /// client's session if that has a connection of its own. Any answer but a result subscribes no client.
    pub async fn subscribe(&self, uri: &str, subscriber: &Subscriber) -> Result<RpcOutcome, CallError> {
        subscribe::subscribe(&self.0.shared, uri, subscriber).await
    }

    /// Takes back one successful [`Backend::subscribe`] of a client with the same session.
    pub fn unsubscribe(&self, uri: &str, session: Option<SessionId>) {
        subscribe::unsubscribe(&self.0.shared, uri, session);
    }

    /// True if the session has subscribed to the resource on a connection of its own: its updates come there.
    pub fn has_own_subscription(&self, uri: &str, session: SessionId) -> bool {
        self.0.shared.sessions.has_subscription(session, uri)
    }

    /// Counts a watcher of a task of a modern backend: the task's notifications go to
    /// [`BackendSettings::downstream`].
    pub fn watch_task(&self, id: &str) -> Result<(), CallError> {
        self.0.shared.subscriptions.watch(id)
    }

    /// Takes back what one successful [`Backend::watch_task`] counted.
    pub fn unwatch_task(&self, id: &str) {
        self.0.shared.subscriptions.unwatch(id);
    }

    /// Refuses new requests, waits up to [`BackendSettings::drain_timeout`] for those under way, then closes
    /// the connection: a child process has exited, or was killed, when this returns.
    pub async fn stop(self) {
        let shared = &self.0.shared;
        shared.calls.close();
        let _ = tokio::time::timeout(shared.facts.settings().drain_timeout, shared.calls.wait()).await;
        shared.facts.stop.cancel();
        let mut connector = self.0.connector.lock().await;
        if !connector.is_finished() {
            let _ = (&mut *connector).await;
        }
    }
}

/// Connects a backend whose definitions are cached, which lists them again.
async fn revalidate(shared: Weak<BackendCore>, after: Duration) {
    sleep(after).await;
    // The backend may have been dropped meanwhile; a call that came first has connected it.
    if let Some(shared) = shared.upgrade() {
        shared.want(1);
    }
}
