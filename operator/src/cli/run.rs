//! The life of the process: health and metrics endpoints, leader election, controllers, graceful shutdown.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use kube::{Client, Config};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use super::endpoints::{self, Readiness};
use super::options::{LogFormat, Options};
use super::run_error::RunError;
use super::traces::Traces;
use crate::runtime::{
    BuildSettings, Clients, Context, Election, Leadership, Metrics, OPERATOR_NAME, PodSchema, Scope,
};

/// The longest that a shutdown waits for reconciles that are under way; then they are dropped.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

/// Time after which a replica without the Lease counts as standing by.
const WIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs the operator until SIGTERM or SIGINT, or until the Lease is lost.
pub(super) async fn run(options: Options) -> Result<(), RunError> {
    // Two crates of the tree would choose different providers of cryptography; installing one decides.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let traces = Traces::of_environment();
    log(options.log_format, traces.as_ref().ok().and_then(Option::as_ref));
    if let Err(error) = &traces {
        tracing::warn!(error, "reconciles are not exported as traces");
    }
    let ended = serve(options).await;
    if let Ok(Some(traces)) = traces {
        traces.finish().await;
    }
    ended
}

/// Runs the operator, whose log is set up.
async fn serve(options: Options) -> Result<(), RunError> {
    let settings = options.build_settings().ok_or(RunError::NoImage)?;
    let shutdown = CancellationToken::new();
    tokio::spawn(cancel_on_signal(shutdown.clone())?);

    let config = Config::infer().await?;
    let namespace = options.lease_namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config.clone())?;
    let metrics = Arc::new(Metrics::default());
    let readiness = Readiness::default();
    let served = endpoints::serve(&options, &metrics, &readiness).await?;

    let settings = BuildSettings { pod_schema: Arc::new(PodSchema::served(&client).await), ..settings };
    let process = Process { options: &options, settings, client, config, metrics, readiness, shutdown };
    let operate = process.operate(&namespace);
    tokio::select! {
        ended = operate => ended,
        () = served => Err(RunError::Ended),
    }
}

/// Everything that one run of the operator needs.
struct Process<'a> {
    options: &'a Options,
    settings: BuildSettings,
    client: Client,
    config: Config,
    metrics: Arc<Metrics>,
    readiness: Readiness,
    shutdown: CancellationToken,
}

impl Process<'_> {
    /// Waits for the Lease, then runs the controllers for as long as this replica holds it.
    async fn operate(&self, namespace: &str) -> Result<(), RunError> {
        let identity = identity(self.options);
        if !self.options.leader_elect {
            // Without a Lease, the one replica leads.
            self.metrics.leads(true);
            return self.control(&self.contexts(&Leadership::alone(), &identity)).await;
        }
        let leadership = Leadership::default();
        let client = self.client.clone();
        let election =
            Election::new(client, namespace, OPERATOR_NAME, &identity, leadership.clone(), &self.metrics);
        // Boxed, for a future of this size would be moved on the stack.
        let mut win = self.shutdown.run_until_cancelled(election.win()).boxed();
        let won = if let Ok(won) = tokio::time::timeout(WIN_TIMEOUT, &mut win).await {
            won
        } else {
            self.readiness.stand_by();
            win.await
        };
        let Some(lease) = won else { return Ok(()) };
        let contexts = self.contexts(&leadership, &identity);
        let ended = tokio::select! {
            ended = self.control(&contexts) => ended,
            // Another replica may write now: from here on, every write of this one is refused.
            () = election.hold(lease) => Err(RunError::LeaseLost),
        };
        if matches!(ended, Ok(()) | Err(RunError::NotSynced { .. })) {
            election.release().await;
        }
        ended
    }

    /// Returns a context for each API group: resources of one refer to resources of the same group only.
    fn contexts(&self, leadership: &Leadership, identity: &str) -> Vec<Arc<Context>> {
        let context = |api_group| {
            let scope = Scope::parse(&self.options.watch_namespace, &self.options.exclude_namespaces);
            let settings = BuildSettings { api_group, ..self.settings.clone() };
            let clients = Clients::new(self.client.clone(), &self.config, &scope);
            let (metrics, leadership) = (self.metrics.clone(), leadership.clone());
            Context::new(clients, settings, scope, metrics, leadership, identity, self.shutdown.clone())
        };
        self.options.api_groups().into_iter().map(context).collect()
    }

    /// Runs all controllers and watches until the shutdown, then waits up to [`DRAIN_TIMEOUT`] for reconciles
    /// that are under way.
    async fn control(&self, contexts: &[Arc<Context>]) -> Result<(), RunError> {
        let shutdown = &self.shutdown;
        self.readiness.lead(contexts);
        // Before the watches start, so that no change is missed.
        let mut controllers: FuturesUnordered<_> =
            contexts.iter().flat_map(crate::controllers).map(tokio::spawn).collect();
        let mut watches: FuturesUnordered<_> = contexts
            .iter()
            .cloned()
            .map(|context| tokio::spawn(async move { context.watch().await }))
            .collect();
        tokio::select! {
            () = shutdown.cancelled() => {}
            Err(error) = self.synced(contexts) => return Err(error),
            _ = controllers.next() => if !shutdown.is_cancelled() { return Err(RunError::Ended) },
            _ = watches.next() => if !shutdown.is_cancelled() { return Err(RunError::Ended) },
        }
        if tokio::time::timeout(DRAIN_TIMEOUT, controllers.collect::<Vec<_>>()).await.is_err() {
            let seconds = DRAIN_TIMEOUT.as_secs();
            tracing::warn!("shutdown: reconciles that took longer than {seconds} s end with the process");
        }
        Ok(())
    }

    /// Waits for the first list of every kind; fails after the time for it. Nothing is reconciled before, so
    /// that a process that waits on would look well and do nothing.
    async fn synced(&self, contexts: &[Arc<Context>]) -> Result<(), RunError> {
        let after = Duration::from_secs(self.options.sync_timeout_seconds);
        let ready = join_all(contexts.iter().map(|context| context.ready()));
        if tokio::time::timeout(after, ready).await.is_ok() {
            return Ok(());
        }
        match contexts.iter().find_map(|context| context.pending_lists()) {
            Some(pending) => Err(RunError::NotSynced { after, pending }),
            None => Ok(()),
        }
    }
}

/// Returns the name of this process in the Lease. A random suffix keeps a pod before and after a restart of
/// its container apart.
fn identity(options: &Options) -> String {
    let name = options.identity.clone().unwrap_or_else(|| OPERATOR_NAME.to_owned());
    let mut random = [0; 4];
    // Without randomness, the process id is the suffix.
    if getrandom::fill(&mut random).is_err() {
        random = std::process::id().to_be_bytes();
    }
    format!("{name}_{:08x}", u32::from_be_bytes(random))
}

/// Sends log lines to standard error, and spans to the collector if there is one.
fn log(format: LogFormat, traces: Option<&Traces>) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube=warn"));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match format {
        LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
        LogFormat::Text => lines.with_filter(filter).boxed(),
    };
    // In one list, for a layer that is an absent `Option` has no filter of its own.
    let mut layers = vec![lines];
    layers.extend(traces.map(|traces| traces.layer().boxed()));
    // Fails only in tests, which have a subscriber already.
    let _ = tracing_subscriber::registry().with(layers).try_init();
}

/// Returns a future that cancels `shutdown` at SIGTERM or SIGINT.
fn cancel_on_signal(shutdown: CancellationToken) -> Result<impl Future<Output = ()>, RunError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(RunError::Signal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(RunError::Signal)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("signal received, shutting down");
        shutdown.cancel();
    })
}
