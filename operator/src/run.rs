//! The life of the process: health, election, controllers, end.

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

use crate::cli::{LogFormat, Options};
use crate::runtime::{Context, Election, Leadership, Metrics, OPERATOR, Scope, Settings};

/// How long reconciles that are under way may take at the end.
const DRAIN: Duration = Duration::from_secs(20);

/// Why the operator cannot run, or has to end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no cluster.
    #[error("no cluster: neither a kubeconfig nor a service account of a pod was found")]
    Config(#[from] kube::config::InferConfigError),
    /// What was found cannot be used.
    #[error("the cluster's configuration cannot be used")]
    Client(#[from] kube::Error),
    /// Signals cannot be waited for.
    #[error("signals cannot be received")]
    Signal(#[source] std::io::Error),
    /// A port cannot be used.
    #[error("cannot listen at {address}; choose another with --metrics-listen or --health-listen")]
    Listen {
        /// Which one.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Another replica leads, or will.
    #[error("the lease was lost; another replica takes over")]
    LeaseLost,
    /// A controller or a server ended though nobody asked it to.
    #[error("a part of the operator ended by itself")]
    Ended,
}

/// Runs the operator until a signal, or until it may not write any more.
pub async fn run(options: Options) -> Result<(), RunError> {
    log(options.log_format);
    // Two crates of the tree would choose different providers of cryptography; this one is ours.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let shutdown = CancellationToken::new();
    tokio::spawn(cancel_on_signal(shutdown.clone())?);

    let config = Config::infer().await?;
    let namespace = options.lease_namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config)?;
    let metrics = Arc::new(Metrics::default());
    let served = serve(&options, &metrics).await?;

    let operate = operate(&options, client, &namespace, metrics, shutdown.clone());
    tokio::select! {
        ended = operate => ended,
        () = served => Err(RunError::Ended),
    }
}

async fn operate(
    options: &Options,
    client: Client,
    namespace: &str,
    metrics: Arc<Metrics>,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    let identity = identity(options);
    if !options.leader_elect {
        let context = context(options, client, metrics, Leadership::alone(), &identity, shutdown);
        return control(context).await;
    }
    let leadership = Leadership::default();
    let election =
        Election::new(client.clone(), namespace, OPERATOR, &identity, leadership.clone(), &metrics);
    let Some(lease) = shutdown.run_until_cancelled(election.win()).await else { return Ok(()) };
    let context = context(options, client, metrics.clone(), leadership, &identity, shutdown);
    let ended = tokio::select! {
        ended = control(context) => ended,
        // Whatever is under way is dropped: it may not write.
        () = election.hold(lease) => Err(RunError::LeaseLost),
    };
    if ended.is_ok() {
        election.release().await;
    }
    ended
}

fn context(
    options: &Options,
    client: Client,
    metrics: Arc<Metrics>,
    leadership: Leadership,
    identity: &str,
    shutdown: CancellationToken,
) -> Arc<Context> {
    let settings = Settings {
        vmcp_image: options.vmcp_image.clone(),
        bridge_image: options.bridge_image.clone().unwrap_or_else(|| options.vmcp_image.clone()),
        cluster_domain: options.cluster_domain.clone(),
    };
    let scope = Scope::parse(&options.watch_namespace);
    Context::new(client, settings, scope, metrics, leadership, identity, shutdown)
}

/// Runs all controllers; at the end, what is under way may come to its end.
async fn control(context: Arc<Context>) -> Result<(), RunError> {
    let shutdown = context.shutdown.clone();
    // Made before anything is watched, so that no change is missed.
    let mut controllers: FuturesUnordered<_> =
        crate::controllers(&context).into_iter().map(tokio::spawn).collect();
    let watching = context.clone();
    let watches = tokio::spawn(async move { watching.watch().await });
    tokio::select! {
        () = shutdown.cancelled() => {}
        _ = controllers.next() => if !shutdown.is_cancelled() { return Err(RunError::Ended) },
        _ = watches => if !shutdown.is_cancelled() { return Err(RunError::Ended) },
    }
    if tokio::time::timeout(DRAIN, controllers.collect::<Vec<_>>()).await.is_err() {
        tracing::warn!("reconciles that took longer than {} s were given up", DRAIN.as_secs());
    }
    Ok(())
}

/// Two processes never have the same, not even one pod before and after a restart of its container.
fn identity(options: &Options) -> String {
    let name = options.identity.clone().unwrap_or_else(|| OPERATOR.to_owned());
    let mut random = [0; 4];
    // Without randomness, the process id has to do.
    if getrandom::fill(&mut random).is_err() {
        random = std::process::id().to_be_bytes();
    }
    format!("{name}_{:08x}", u32::from_be_bytes(random))
}

fn log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube=warn"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Only tests have a subscriber already.
    let _ = match format {
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
        LogFormat::Text => builder.try_init(),
    };
}

fn cancel_on_signal(shutdown: CancellationToken) -> Result<impl Future<Output = ()>, RunError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(RunError::Signal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(RunError::Signal)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("ending");
        shutdown.cancel();
    })
}

/// Health says that the process runs. A replica that waits for the lease is ready: it is there to take over.
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
