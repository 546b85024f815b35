//! The engine keeps the one [`Snapshot`] that every request reads: it connects backends, aggregates their
//! definitions into a catalog, indexes the catalog at once and embeds it in the background.
//!
//! One task, the conductor, makes all changes and publishes each as a new snapshot by an atomic swap; readers
//! take no lock and never wait. [`Engine`] is the handle to the conductor and to the present snapshot.

mod conductor;
pub mod embedding;
mod first_listings;
mod fleet;
mod handle;
mod options;
mod recorder;
pub mod replicas;
mod restart;
mod revocations;
mod shared;
pub mod snapshot;
mod tool_drift;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use vmcp_backend::{ByteBudget, SessionListingCount};
use vmcp_config::Config;
use vmcp_script::jobs::ScriptJobs;
use vmcp_script::pool::WorkerPool;
use vmcp_store::StoreError;

pub use fleet::BackendChanges;
pub use handle::refresh::{RefreshOutcome, Refreshed};
pub use options::{Options, StartError, Storage};
pub use restart::needs_restart;
pub use shared::OpeningDatabases;
pub use snapshot::Snapshot;
pub use snapshot::client_records::issued_tasks::{IssuedTask, IssuedTasks, TaskOwner};
pub use snapshot::client_records::{kept_results, linked_uris};
pub use snapshot::generation::Generation;
pub use snapshot::list::{ListEntry, Page, PagedList};
pub use snapshot::view::{ListDigests, View};
pub use tool_drift::ChangedTool;
pub use tool_drift::trust::TrustReport;

use crate::access::agent_sessions::{self, AgentSessions};
use crate::access::configured::policy::policy;
use crate::access::identity::{Principal, PrincipalKey};
use crate::access::outgoing::TokenFactory;
use crate::access::session_webhooks::SessionWebhooks;
use crate::metrics::Metrics;
use crate::runs::Runs;
use crate::search::context::{Contexts, Learner};
use crate::server_registrar::ServerRegistrar;
use crate::server_registrar::registry_reader::RegistryReader;
use crate::telemetry::calls::CallObservers;
use crate::telemetry::observed_shapes::ObservedShapes;
use crate::telemetry::query_log::QueryLog;
use crate::telemetry::tool_metrics::ToolMetricsRecorder;
use crate::telemetry::topic_usage::TopicUsage;
use conductor::ConductorOptions;
use conductor::commands::ConductorHandle;
use fleet::Fleet;
use replicas::Replicas;
use revocations::WithdrawnCredentials;
use shared::{Shared, SharedParts};
use snapshot::client_records::kept_results::KeptResults;

/// Interval at which [`Engine::settled`] polls.
const SETTLED_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Time after the start at which old sessions of agents are forgotten.
const FORGET_DELAY: Duration = Duration::from_secs(5);

/// Handle to the running system behind the edge. Cheap to clone; everything stops when the last handle is
/// dropped.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    conductor: ConductorHandle,
    session_listings: SessionListingCount,
    started: Instant,
    /// True once every backend has settled after the start, or lists no longer wait for that.
    has_settled: AtomicBool,
    /// Credentials that operators have withdrawn.
    withdrawn: Arc<WithdrawnCredentials>,
    /// Runs of composite tools.
    runs: Runs,
    agent_sessions: AgentSessions,
    session_webhooks: SessionWebhooks,
    scripts: Option<Arc<WorkerPool<PrincipalKey>>>,
    script_jobs: Option<Arc<dyn ScriptJobs>>,
    registrar: Option<Arc<dyn ServerRegistrar>>,
    registry: Option<Arc<dyn RegistryReader>>,
    _stop: DropGuard,
}

impl Engine {
    /// Starts everything and waits for no backend, model or embedding service. Needs a tokio runtime.
    ///
    /// A trait object, as each way in from another crate: a crate that polls a plain `async fn` compiles its
    /// body again, with all that it awaits.
    pub fn start(config: Config, options: Options) -> BoxFuture<'static, Result<Engine, StartError>> {
        let databases = OpeningDatabases::begin(&config, &options.storage);
        Self::start_with(databases, config, options)
    }

    /// Starts likewise, over databases that are being opened, in the place that `options` name.
    pub fn start_with(
        databases: OpeningDatabases,
        config: Config,
        options: Options,
    ) -> BoxFuture<'static, Result<Engine, StartError>> {
        Box::pin(Self::assemble(databases, config, options))
    }

    async fn assemble(
        mut databases: OpeningDatabases,
        config: Config,
        options: Options,
    ) -> Result<Engine, StartError> {
        let dir = databases.state_dir().cloned();
        let results = Arc::new(KeptResults::open(dir.as_deref()));
        let policy = options.policy.clone().unwrap_or_else(|| policy(&config, &options.metrics));
        let snapshot = Snapshot::empty(&config, policy, options.bridge)?;
        let revocations = Arc::clone(snapshot.authentication.revocations());
        let latest = snapshot.authentication.latest_tokens().clone();
        let withdrawn = Arc::new(WithdrawnCredentials::open(dir.as_deref(), revocations, latest));
        let drift = Arc::new(databases.drift().await?);
        // Only now: the recorder's thread opens `state.db`, too, and the second of two openings waits 10 ms
        // for the lock.
        let retention_days = config.optimizer.metrics_retention_days;
        let tool_metrics = ToolMetricsRecorder::start(dir.clone(), retention_days, &options.metrics);
        let query_log = QueryLog::new(dir.clone(), &options.metrics, tool_metrics.search_days());
        let contexts = Arc::<Contexts>::default();
        let learner = Learner::new(Arc::clone(&contexts), dir.clone());
        let shapes = ObservedShapes::new(dir.clone());
        let replicas = Replicas::new(
            dir.as_deref(),
            Arc::clone(&tool_metrics),
            Arc::clone(&learner),
            Arc::clone(&drift),
            Arc::clone(&withdrawn),
        );
        let store = databases.store().await?;
        let shared = Arc::new(Shared::from(SharedParts {
            snapshot,
            store,
            drift,
            tool_metrics,
            contexts,
            learner,
            shapes,
            query_log,
            metrics: options.metrics,
            replicas,
            results: Arc::clone(&results),
            observers: options.observers,
        }));
        let stop = CancellationToken::new();
        let behavior = ConductorOptions {
            embed: options.embed,
            cached: options.cached,
            embedder: options.embedder,
            policy: options.policy,
        };
        let fleet = Fleet::new(
            options.downstream,
            shared.observed_connections(),
            options.bridge,
            shared.byte_budget.clone(),
            options.orphan_guard,
            options.served,
            TokenFactory::new(shared.snapshot.load().authentication.latest_tokens().clone()),
        );
        let session_listings = fleet.session_listings();
        let session_webhooks = SessionWebhooks::new(&shared.metrics);
        let conductor = conductor::start(Arc::clone(&shared), behavior, fleet, stop.clone());
        conductor.apply(config).await;
        let engine = Engine(Arc::new(Inner {
            shared,
            session_listings,
            conductor,
            started: Instant::now(),
            has_settled: AtomicBool::new(false),
            withdrawn,
            runs: Runs::new(dir.as_deref()),
            agent_sessions: AgentSessions::new(dir.as_deref()),
            session_webhooks,
            scripts: options.script_worker.map(|program| Arc::new(WorkerPool::new(program))),
            script_jobs: options.script_jobs,
            registrar: options.registrar,
            registry: options.registry,
            _stop: stop.clone().drop_guard(),
        }));
        tokio::spawn(kept_results::sweep(results, stop.clone()));
        tokio::spawn(handle::ask_replicas(engine.clone(), stop));
        if let Some(dir) = dir {
            let settings = engine.snapshot().config.optimizer.session_hooks.clone();
            tokio::spawn(async move {
                // A start has more urgent work than to open the database once more.
                tokio::time::sleep(FORGET_DELAY).await;
                // The task fails only when the runtime is going down.
                let forgetting = move || agent_sessions::forget_old(&dir, &settings);
                let _ = tokio::task::spawn_blocking(forgetting).await;
            });
        }
        Ok(engine)
    }

    /// Puts another configuration in force. Backends whose configuration is unchanged keep running; the
    /// others finish their calls in flight and stop.
    pub async fn apply(&self, config: Config) -> BackendChanges {
        let changes = self.0.conductor.apply(config).await;
        let config = Arc::clone(&self.snapshot().config);
        self.0.session_webhooks.retain(&config.optimizer.session_hooks.webhooks);
        changes
    }

    /// Returns the snapshot in force. A request loads one snapshot and uses it from its begin to its end.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.shared.snapshot.load_full()
    }

    /// Makes the view of a client, unless it is there: on a thread that may be kept busy, since a policy is
    /// asked about each item of the catalog.
    pub async fn prepare(&self, snapshot: &Arc<Snapshot>, principal: &Principal) {
        if snapshot.has_view(principal) {
            return;
        }
        let (snapshot, principal) = (Arc::clone(snapshot), principal.clone());
        // Without the thread, the request makes its view itself.
        let _ = tokio::task::spawn_blocking(move || snapshot.view(&principal)).await;
    }

    /// Watches the [`Generation`], which changes with the lists that clients see.
    pub fn generations(&self) -> watch::Receiver<Generation> {
        self.0.shared.generation.subscribe()
    }

    /// Watches for configurations that come into force, and with each perhaps other backends.
    pub fn configurations(&self) -> watch::Receiver<()> {
        self.0.shared.configured.subscribe()
    }

    /// Returns the latest change of each tool's definition, newest first.
    pub async fn changed_tools(&self) -> Result<Vec<ChangedTool>, StoreError> {
        let shared = Arc::clone(&self.0.shared);
        // The task fails only when the runtime is going down.
        tokio::task::spawn_blocking(move || shared.drift.changes()).await.unwrap_or_else(|_| Ok(Vec::new()))
    }

    /// Returns the trust in the tools of backends under quarantine, for replicas that share it.
    pub fn trust_report(&self) -> Arc<TrustReport> {
        self.0.shared.drift.report()
    }

    /// True if the cache on disk could not be used: it is in memory, and ends with the process.
    pub fn lacks_cache(&self) -> bool {
        self.0.shared.lacks_cache()
    }

    /// The cache, so that tests can read what was recorded.
    #[cfg(any(test, feature = "testing"))]
    pub fn store(&self) -> Arc<vmcp_store::Store> {
        self.0.shared.open_store()
    }

    /// The metrics of this process.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.shared.metrics
    }

    /// The budget of bytes of all bodies of this process.
    pub fn byte_budget(&self) -> &ByteBudget {
        &self.0.shared.byte_budget
    }

    /// The observers that read the record of each call.
    pub fn call_observers(&self) -> &Arc<CallObservers> {
        &self.0.shared.call_observers
    }

    /// The metrics of each tool, counted from the calls.
    pub fn tool_metrics(&self) -> &Arc<ToolMetricsRecorder> {
        &self.0.shared.tool_metrics
    }

    /// The runs of composite tools.
    pub fn runs(&self) -> &Runs {
        &self.0.runs
    }

    /// The sessions of coding agents.
    pub fn agent_sessions(&self) -> &AgentSessions {
        &self.0.agent_sessions
    }

    /// The tokens of the answers of `GET /tools`.
    pub fn topic_usage(&self) -> &TopicUsage {
        &self.0.shared.topic_usage
    }

    /// Makes a backend list its definitions again in the background; all backends if no name is given.
    /// Returns true if there is such a backend.
    pub fn refresh(&self, backend: Option<&str>) -> bool {
        let snapshot = self.snapshot();
        let mut chosen = snapshot
            .backends
            .iter()
            .filter(|(name, _)| backend.is_none_or(|wanted| wanted == &***name))
            .peekable();
        let any = chosen.peek().is_some();
        chosen.for_each(|(_, backend)| backend.refresh());
        any
    }

    /// Waits until every enabled backend has been listed, or has failed, and the snapshot shows it.
    pub async fn settled(&self) {
        while !self.is_settled() {
            tokio::time::sleep(SETTLED_POLL_INTERVAL).await;
        }
    }

    /// Shuts down gracefully: stops all backends. Calls in flight have `grace` to end; later ones are cut
    /// off.
    pub async fn shutdown(&self, grace: Duration) {
        self.0.conductor.shutdown(grace).await;
        self.tool_metrics().flush().await;
        self.learner().flush().await;
        self.query_log().flush().await;
    }
}
