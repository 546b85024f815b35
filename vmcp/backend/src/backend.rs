//! The handle of a backend.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::DropGuard;
use tracing::Instrument as _;
use vmcp_config::status::BackendStatus;
use vmcp_model::discovered::Discovered;
use vmcp_wire::level::Level;

use crate::policy::facts::Facts;
use crate::policy::settings::BackendSettings;
use crate::request::SessionId;
use crate::request::{CallError, Request, Response, RpcOutcome};
use crate::sharing::core::BackendCore;
use crate::sharing::{call, subscribe};
use crate::transport::LinkError;
use crate::upkeep::connector::Connector;
use crate::upkeep::refresher;

/// One configured MCP server. Clones are handles of the same; when the last one is dropped, the connection ends.
#[derive(Clone, Debug)]
pub struct Backend(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    shared: Arc<BackendCore>,
    connector: tokio::sync::Mutex<JoinHandle<()>>,
    _stop: DropGuard,
}

impl Backend {
    /// Starts the tasks, whatever `spec.enabled` says: whether to start is the caller's decision. Nothing connects before the first use if the definitions are cached (GOB-15), unless the
    /// configuration asks for it (GOB-23). Must be called within a tokio runtime.
    pub fn start(
        spec: vmcp_config::Backend,
        settings: BackendSettings,
        cached: Option<Arc<Discovered>>,
    ) -> Self {
        let eager = cached.is_none() || spec.preconnect || !settings.lazy_connect;
        let shared = Arc::new(BackendCore::new(Facts::new(spec, settings), cached));
        if eager {
            shared.want(1);
        }
        let span = tracing::info_span!("backend", backend = &*shared.facts.spec.name);
        tokio::spawn(refresher::run(Arc::clone(&shared)).instrument(span.clone()));
        let connector = tokio::spawn(Connector::new(Arc::clone(&shared)).run().instrument(span));
        let stop = shared.facts.stop.clone().drop_guard();
        Self(Arc::new(Handle { shared, connector: connector.into(), _stop: stop }))
    }

    /// The configured name.
    pub fn name(&self) -> &Arc<str> {
        &self.0.shared.facts.spec.name
    }

    /// Whether both are handles of the same.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The configuration it was started with.
    pub fn spec(&self) -> &vmcp_config::Backend {
        &self.0.shared.facts.spec
    }

    /// What an operator sees of it now.
    pub fn status(&self) -> BackendStatus {
        self.0.shared.status()
    }

    /// The definitions: the cached ones at first, then what each listing brings that differs. A listing that fails
    /// changes nothing. Clone out of a `borrow` at once: while one is held, neither the next listing nor `status` gets on.
    pub fn discovered(&self) -> watch::Receiver<Option<Arc<Discovered>>> {
        self.0.shared.discovered.subscribe()
    }

    /// Sends a request, connecting first if need be. How long it may take is the request's matter, not `spec.timeout`'s.
    pub async fn request(&self, request: Request<'_>) -> Result<Response, CallError> {
        let shared = &self.0.shared;
        if shared.facts.stop.is_cancelled() || shared.calls.is_closed() {
            return Err(LinkError::Stopped.into());
        }
        let _underway = shared.calls.token();
        call::run(shared, request).await
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

    /// A client's session has ended: so does the one kept upstream for it.
    pub fn end_session(&self, session: SessionId) {
        self.0.shared.sessions.end(session);
    }

    /// A stream on which a client's session takes what belongs to no request was opened, or closed, here. Each opening
    /// must be followed by one closing.
    pub fn listen_session(&self, session: SessionId, open: bool) {
        self.0.shared.sessions.listen(session, open);
    }

    /// The client of a session asked for log messages of this level and above. Its calls must say so too, in
    /// `ClientFacts::log_level`.
    pub fn set_log_level(&self, session: SessionId, level: Level) {
        call::set_level(&self.0.shared, session, level);
    }

    /// The client of a session says that its roots have changed.
    pub fn roots_changed(&self, session: SessionId) {
        self.0.shared.sessions.roots_changed(session);
    }

    /// Counts a subscriber of a resource: `notifications/resources/updated` goes to `BackendSettings::downstream` until
    /// [`Backend::unsubscribe`], across reconnections. Whatever is answered but a result counts nobody.
    pub async fn subscribe(&self, uri: &str) -> Result<RpcOutcome, CallError> {
        subscribe::subscribe(&self.0.shared, uri).await
    }

    /// Takes back what one successful [`Backend::subscribe`] counted.
    pub fn unsubscribe(&self, uri: &str) {
        subscribe::unsubscribe(&self.0.shared, uri);
    }

    /// Counts a watcher of a task of a modern backend: its notifications go to `BackendSettings::downstream`.
    pub fn watch_task(&self, id: &str) -> Result<(), CallError> {
        self.0.shared.subscriptions.watch(id)
    }

    /// Takes back what one successful [`Backend::watch_task`] counted.
    pub fn unwatch_task(&self, id: &str) {
        self.0.shared.subscriptions.unwatch(id);
    }

    /// Refuses new requests, lets those under way finish for a while, then ends the connection: a child process has
    /// exited, or been killed, when this returns.
    pub async fn stop(self) {
        let shared = &self.0.shared;
        shared.calls.close();
        let _ = tokio::time::timeout(shared.facts.settings.drain_timeout, shared.calls.wait()).await;
        shared.facts.stop.cancel();
        let mut connector = self.0.connector.lock().await;
        if !connector.is_finished() {
            let _ = (&mut *connector).await;
        }
    }
}
