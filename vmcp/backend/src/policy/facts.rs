//! Facts about one backend that every part of its connection needs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{Id, Span, info_span};
use vmcp_config::status::BackendState;
use vmcp_config::{KnownSecrets, Transport};

use crate::policy::configured_headers::ConfiguredHeaders;
use crate::policy::session_changes::SessionChanges;
use crate::policy::settings::BackendSettings;
use crate::policy::stream_floods::StreamFloods;
use crate::program::last_words::LastWords;
use crate::program::package_runner::{PackageRun, PinnedProgram, PinnedPrograms};
use crate::program::program_activity::ProgramActivity;
use crate::request::ServerNetwork;
use crate::server_log::operator_log::OperatorLog;

/// Configuration of a backend and its signals. The lower rooms take these instead of the whole
/// [`BackendCore`](crate::sharing::core::BackendCore), so that no room knows the ones above it.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The backend's configuration.
    pub(crate) spec: vmcp_config::Backend,
    /// The way to the server, for telemetry.
    pub(crate) network: Arc<ServerNetwork>,
    /// Limits and intervals; `connection_timeout`, `ca_bundle_path` and `preconnect` of `spec`, or of a
    /// reload, are part of them.
    settings: ArcSwap<BackendSettings>,
    /// The headers of `spec`, or those of a reload.
    pub(crate) headers: Arc<ConfiguredHeaders>,
    /// Secrets of `spec`, or those of a reload, to be masked in the words of the server.
    pub(crate) secrets: Arc<ArcSwap<KnownSecrets>>,
    /// Wakes the refresher: the definitions may have changed.
    pub(crate) changed: Arc<Notify>,
    /// Wakes the session refresher: the definitions of these sessions may have changed.
    pub(crate) session_changes: Arc<SessionChanges>,
    /// Capabilities that the server declares to legacy clients, once one has introduced itself.
    legacy_capabilities: Mutex<Option<Box<RawValue>>>,
    /// Log messages that belong to no client.
    pub(crate) log: Arc<OperatorLog>,
    /// Streams that were ended because they flooded.
    pub(crate) floods: Arc<StreamFloods>,
    /// Last words of the main connection's program, until it is started again.
    pub(crate) last_words: Arc<LastWords>,
    /// Activity of the main connection's program.
    pub(crate) activity: Arc<ProgramActivity>,
    /// Set once a server of the backend has asked for roots outside of calls.
    pub(crate) asks_for_roots: Arc<AtomicBool>,
    /// Cancelled when the backend is stopped.
    pub(crate) stop: CancellationToken,
}

impl Facts {
    /// Span of a task that outlives the request which begins it. It is a root: a line of the task names the
    /// backend, and belongs to the trace of no request.
    pub(crate) fn task_span(&self) -> Span {
        info_span!(parent: None::<Id>, "backend", backend = &*self.spec.name)
    }

    pub(crate) fn new(spec: vmcp_config::Backend, settings: BackendSettings) -> Self {
        let headers = Arc::new(ConfiguredHeaders::new(spec.transport.headers()));
        let network = Arc::new(ServerNetwork::from(&spec.transport));
        let settings = ArcSwap::from_pointee(of_backend(&spec, settings));
        let secrets = Arc::new(ArcSwap::from_pointee(spec.known_secrets.clone()));
        let last_words = Arc::new(LastWords::new(spec.known_secrets.clone()));
        Self {
            spec,
            network,
            settings,
            headers,
            secrets,
            changed: Arc::default(),
            session_changes: Arc::default(),
            legacy_capabilities: Mutex::default(),
            log: Arc::default(),
            floods: Arc::default(),
            last_words,
            activity: Arc::default(),
            asks_for_roots: Arc::default(),
            stop: CancellationToken::new(),
        }
    }

    /// Returns the limits and intervals in force.
    pub(crate) fn settings(&self) -> Arc<BackendSettings> {
        self.settings.load_full()
    }

    /// Reports a failed attempt to connect; `reason` is a label of a fixed set.
    pub(crate) fn observe_failed_connect(&self, reason: &'static str) {
        self.settings().connection_observer.connect_failed(&self.spec.name, reason);
    }

    /// Reports another state of the backend. Call without a lock.
    pub(crate) fn observe_state(&self, state: BackendState) {
        self.settings().connection_observer.state_changed(&self.spec.name, state);
    }

    /// Returns the capabilities that a modern server was seen to declare to legacy clients.
    pub(crate) fn legacy_capabilities(&self) -> Option<Box<RawValue>> {
        self.legacy_capabilities.lock().clone()
    }

    /// Remembers the capabilities that a modern server declares to legacy clients, and has them published.
    pub(crate) fn learn_legacy_capabilities(&self, capabilities: &RawValue) {
        let mut known = self.legacy_capabilities.lock();
        if known.as_deref().map(RawValue::get) != Some(capabilities.get()) {
            *known = Some(capabilities.to_owned());
            self.changed.notify_one();
        }
    }

    /// Returns the pinned programs, and the backend's run among them; `None` if no package runner starts the
    /// backend, or if pins are switched off.
    pub(crate) fn package_run(&self) -> Option<(PinnedPrograms, PackageRun)> {
        let pins = self.settings.load().pinned_programs.clone()?;
        Some((pins, PackageRun::of(&self.spec.transport)?))
    }

    /// Returns the program that starts in place of the backend's package runner.
    pub(crate) fn pinned_program(&self) -> Option<PinnedProgram> {
        let (pins, run) = self.package_run()?;
        pins.find(&run)
    }

    /// Returns the proxy that requests to the backend go through, without credentials.
    pub(crate) fn proxy(&self) -> Option<String> {
        self.settings.load().http.proxy_for(self.spec.transport.url()?)
    }

    /// Replaces the settings and the values of headers; returns true if the headers differ.
    pub(crate) fn reconfigure(&self, spec: &vmcp_config::Backend, settings: BackendSettings) -> bool {
        self.settings.store(Arc::new(of_backend(spec, settings)));
        self.secrets.store(Arc::new(spec.known_secrets.clone()));
        self.headers.replace(spec.transport.headers())
    }

    /// Returns the time without a call after which a program that took `start` to connect is stopped; `None`
    /// for a remote server and for a program that is never stopped. The time of all programs spares slow
    /// starters, and backends with `preconnect`.
    pub(crate) fn idle_timeout(&self, start: Duration) -> Option<Duration> {
        let Transport::Stdio { idle_timeout, .. } = &self.spec.transport else { return None };
        let settings = self.settings.load();
        let is_slow = start > settings.max_idle_start;
        let common = || if is_slow { Duration::ZERO } else { settings.idle_timeout };
        Some(idle_timeout.unwrap_or_else(common)).filter(|timeout| !timeout.is_zero())
    }
}

fn of_backend(spec: &vmcp_config::Backend, settings: BackendSettings) -> BackendSettings {
    let connection_timeout = spec.connection_timeout.unwrap_or(settings.connection_timeout);
    let http = settings.http.with_ca_bundle(spec.ca_bundle_path.as_deref()).with_addresses(spec.addresses);
    let idle_timeout = if spec.preconnect { Duration::ZERO } else { settings.idle_timeout };
    BackendSettings { connection_timeout, idle_timeout, http, ..settings }
}
