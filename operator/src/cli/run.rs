//! The life of the process: health and metrics endpoints, leader election, controllers, graceful shutdown.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use axum::routing::get;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use kube::{Client, Config};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use super::options::{LogFormat, Options};
use crate::runtime::{BuildSettings, Context, Election, Leadership, Metrics, OPERATOR_NAME, Scope};

/// The longest that a shutdown waits for reconciles that are under way; then they are dropped.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

/// Error that keeps the operator from starting, or ended it.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No image of `vmcp` was given.
    #[error(
        "no image of vmcp was given; set --vmcp-image or VMCP_IMAGE, as in registry.example.com/team/vmcp:0.1.0"
    )]
    NoImage,
    /// There is neither a kubeconfig nor a service account.
    #[error("no cluster found: there is neither a kubeconfig nor the service account of a pod")]
    Config(#[from] kube::config::InferConfigError),
    /// The kubeconfig or the service account cannot be used.
    #[error("cannot use the kubeconfig or the service account")]
    Client(#[from] kube::Error),
    /// SIGTERM or SIGINT cannot be received.
    #[error("cannot receive signals")]
    Signal(#[source] std::io::Error),
    /// An address cannot be listened at.
    #[error("cannot listen at {address}; choose another with --metrics-listen or --health-listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The Lease could not be renewed in time, or another replica holds it. The process ends, and its restart
    /// is a candidate again.
    #[error("the lease was lost; another replica takes over")]
    LeaseLost,
    /// A controller, a watch or an endpoint ended before the shutdown.
    #[error("a controller, a watch or an endpoint ended unexpectedly, which is a bug; the log has the place")]
    Ended,
}

/// Runs the operator until SIGTERM or SIGINT, or until the Lease is lost.
pub(super) async fn run(options: Options) -> Result<(), RunError> {
    log(options.log_format);
    let settings = options.build_settings().ok_or(RunError::NoImage)?;
    // Two crates of the tree would choose different providers of cryptography; installing one decides.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let shutdown = CancellationToken::new();
    tokio::spawn(cancel_on_signal(shutdown.clone())?);

    let config = Config::infer().await?;
    let namespace = options.lease_namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config)?;
    let metrics = Arc::new(Metrics::default());
    let served = serve(&options, &metrics).await?;

    let operate = operate(&options, settings, client, &namespace, metrics, shutdown.clone());
    tokio::select! {
        ended = operate => ended,
        () = served => Err(RunError::Ended),
    }
}

/// Waits for the Lease, then runs the controllers for as long as this replica holds it.
async fn operate(
    options: &Options,
    settings: BuildSettings,
    client: Client,
    namespace: &str,
    metrics: Arc<Metrics>,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    let identity = identity(options);
    if !options.leader_elect {
        let context = context(options, settings, client, metrics, Leadership::alone(), &identity, shutdown);
        return control(context).await;
    }
    let leadership = Leadership::default();
    let election =
        Election::new(client.clone(), namespace, OPERATOR_NAME, &identity, leadership.clone(), &metrics);
    let Some(lease) = shutdown.run_until_cancelled(election.win()).await else { return Ok(()) };
    let context = context(options, settings, client, metrics.clone(), leadership, &identity, shutdown);
    let ended = tokio::select! {
        ended = control(context) => ended,
        // Reconciles that are under way are dropped: another replica may write now.
        () = election.hold(lease) => Err(RunError::LeaseLost),
    };
    if ended.is_ok() {
        election.release().await;
    }
    ended
}

fn context(
    options: &Options,
    settings: BuildSettings,
    client: Client,
    metrics: Arc<Metrics>,
    leadership: Leadership,
    identity: &str,
    shutdown: CancellationToken,
) -> Arc<Context> {
    let scope = Scope::parse(&options.watch_namespace);
    Context::new(client, settings, scope, metrics, leadership, identity, shutdown)
}

/// Runs all controllers and watches until the shutdown, then waits up to [`DRAIN_TIMEOUT`] for reconciles
/// that are under way.
async fn control(context: Arc<Context>) -> Result<(), RunError> {
    let shutdown = context.shutdown.clone();
    // Before the watches start, so that no change is missed.
    let mut controllers: FuturesUnordered<_> =
        crate::controllers(&context).into_iter().map(tokio::spawn).collect();
    let watching = context.clone();
    let watches = tokio::spawn(async move { watching.watch().await });
    tokio::select! {
        () = shutdown.cancelled() => {}
        _ = controllers.next() => if !shutdown.is_cancelled() { return Err(RunError::Ended) },
        _ = watches => if !shutdown.is_cancelled() { return Err(RunError::Ended) },
    }
    if tokio::time::timeout(DRAIN_TIMEOUT, controllers.collect::<Vec<_>>()).await.is_err() {
        tracing::warn!("shutdown: dropped reconciles that took longer than {} s", DRAIN_TIMEOUT.as_secs());
    }
    Ok(())
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

/// Sends log lines to standard error.
fn log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube=warn"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Fails only in tests, which have a subscriber already.
    let _ = match format {
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
        LogFormat::Text => builder.try_init(),
    };
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

/// Serves `/metrics`, `/healthz` and `/readyz`. A replica that waits for the Lease is ready: it stands by to
/// take over.
async fn serve(options: &Options, metrics: &Arc<Metrics>) -> Result<BoxFuture<'static, ()>, RunError> {
    let metrics = metrics.clone();
    let text = move || async move {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        (StatusCode::OK, [("content-type", kind)], metrics.text()).into_response()
    };
    let mut router = Router::new().route("/metrics", get(text));
    let health = |router: Router| {
        router.route("/healthz", get(|| async { "ok\n" })).route("/readyz", get(|| async { "ready\n" }))
    };
    let mut servers = Vec::new();
    if options.health_listen == options.metrics_listen {
        router = health(router);
    } else {
        servers.push((options.health_listen, health(Router::new())));
    }
    servers.push((options.metrics_listen, router));
    let mut running = FuturesUnordered::new();
    for (address, router) in servers {
        let listener = tokio::net::TcpListener::bind(address)
            .await
            .map_err(|source| RunError::Listen { address, source })?;
        running.push(async move { axum::serve(listener, router).await });
    }
    Ok(async move { drop(running.next().await) }.boxed())
}
