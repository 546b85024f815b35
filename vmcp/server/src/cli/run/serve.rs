//! `vmcp serve`: runs the server until a signal, or until standard input ends.

mod cached_registry;
mod console_login;
mod kept_calls;
mod local_clients;
pub(super) mod served;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;
use tokio_util::task::AbortOnDropHandle;
use vmcp_backend::{BackendState, BackendStatus, SERVED_VARIABLE};
use vmcp_cluster_servers::KubernetesRegistrar;
use vmcp_config::status::digest;
use vmcp_config::{Config, Server};
use vmcp_egress::Proxies;

use self::cached_registry::CachedRegistry;
use self::kept_calls::KeptCalls;
use self::local_clients::LocalClients;
use crate::cli::clients::connect::needs_key;
use crate::cli::clients::connect::snippets::snippets;
use crate::cli::completions::candidates;
use crate::cli::connection::duration;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::{notes, output};
use crate::cli::installed_program::installed_program;
use crate::cli::lifecycle::process_end::BACKEND_GRACE;
use crate::cli::lifecycle::{background, start};
use crate::cli::operate::doctor::remedies;
use crate::cli::options::{ConfigFile, GlobalOptions, listen_address, profile_of};
use crate::cli::process::{self, StopSignals, orphan_reaper, pid1_reaper};
use crate::cli::running_server::local_socket::{self, LocalSocket};
use crate::cli::running_server::serve_options::ServeOptions;
use crate::cli::running_server::{RunningServer, StateFile};
use crate::config_file::file_registrar::FileRegistrar;
use crate::config_file::reference_lookup::ReferenceLookup;
use crate::config_file::source::is_in_cluster;
use crate::config_file::watch::ConfigWatch;
use vmcp_edge::port::admin::Admin;
use vmcp_edge::port::admin::port::AdminPort;
use vmcp_edge::port::admin::routes;
use vmcp_edge::port::console::sources::ConsoleSources;
use vmcp_edge::port::serve::{Ports, dual_stack};
use vmcp_edge::transport::stdio;
use vmcp_edge::{DownstreamRouter, Edge};
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::{Engine, OpeningDatabases, Options, Storage};
use vmcp_engine::server_registrar::ServerRegistrar;
use vmcp_engine::telemetry::audit::{AuditTrail, ConsoleStream};
use vmcp_engine::telemetry::calls::{Action, CallObserver};
use vmcp_engine::telemetry::metrics::Metrics;
use vmcp_engine::telemetry::otlp::push::MetricsPush;
use vmcp_engine::telemetry::recent::RecentCalls;
use vmcp_script_job::JobLauncher;

/// Time that blocked threads have to end, such as a read of standard input; they hold nothing that matters.
pub(in crate::cli) const THREAD_GRACE: Duration = Duration::from_millis(100);
/// Interval at which backends are polled until all have settled.
const BACKEND_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Serve all backends at one URL
///
/// Clients reach MCP at http://ADDR:PORT/mcp, in both of its eras. Health, readiness, metrics and status are
/// on the admin port. Edits to the configuration file apply while it runs. The first SIGTERM or SIGINT shuts
/// down gracefully: requests in flight may end; a second one ends the process at once.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Arguments {
    /// Address for clients; overrides server.listen
    #[arg(long, value_name = "ADDR:PORT", env = "VMCP_LISTEN", value_parser = listen_address)]
    listen: Option<SocketAddr>,
    /// Address for operators; overrides server.adminListen
    #[arg(long, value_name = "ADDR:PORT", env = "VMCP_ADMIN_LISTEN", value_parser = listen_address)]
    admin_listen: Option<SocketAddr>,
    /// Serve one client on standard input and output instead of a port
    #[arg(long, conflicts_with = "listen")]
    stdio: bool,
    /// Serve only this part of the configuration, one of `profiles`, to the client on standard input
    #[arg(long, value_name = "NAME", requires = "stdio", add = ArgValueCandidates::new(candidates::profiles))]
    profile: Option<String>,
    /// End once there has been no client for this long: no connection, no `vmcp mcp-server`
    #[arg(long, value_name = "DURATION", conflicts_with = "stdio", value_parser = duration)]
    end_after_idle: Option<Duration>,
    /// Serve in the background, as `vmcp start` does; the log goes to a file
    #[arg(long, conflicts_with_all = ["stdio", "print_config"])]
    detach: bool,
    /// Print the configuration in force, with defaults filled in and secrets masked, and exit
    #[arg(long)]
    print_config: bool,
}

const EXAMPLES: &str = "\
Examples:
  vmcp serve
  vmcp serve --config team.yaml --listen 127.0.0.1:8000
  claude mcp add --transport http vmcp http://127.0.0.1:8080/mcp
  claude mcp add vmcp -- vmcp serve --stdio --config /path/to/vmcp.yaml";

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    pid1_reaper::run_as_child()?;
    let own_options = arguments.options(global)?;
    if arguments.detach {
        return start::run_detached(global, own_options);
    }
    let file = global.load()?;
    background::leave_terminal();
    if arguments.print_config {
        output::result(file.config.effective_yaml())?;
        return Ok(Exit::Done);
    }
    let telemetry = global.start_telemetry(&file.config)?;
    // The databases open while the runtime starts. The log comes first, because opening may warn.
    let databases = OpeningDatabases::begin(&file.config, &Storage::Configured);
    let runtime = tokio::runtime::Runtime::new()?;
    let lookup = global.reference_lookup();
    let people = global.person_reads_logs();
    let outcome = runtime.block_on(serve(arguments, own_options, file, databases, lookup, people));
    // A thread that is blocked on standard input would keep the process alive.
    runtime.shutdown_timeout(THREAD_GRACE);
    telemetry.flush();
    outcome.map(|()| Exit::Done)
}

impl Arguments {
    /// Returns the options that a restart repeats.
    fn options(&self, global: &GlobalOptions) -> Result<ServeOptions, CommandFailure> {
        let Arguments { listen, admin_listen, end_after_idle, .. } = *self;
        Ok(ServeOptions { listen, admin_listen, end_after_idle, ..global.serve_options()? })
    }
}

/// Logs the proxies of outgoing requests, without credentials.
fn log_proxies(proxies: &Proxies) {
    for (scheme, proxy) in proxies.shown() {
        tracing::info!(scheme, proxy, "outgoing requests go through a proxy, but for hosts of NO_PROXY");
    }
    for variable in proxies.unusable() {
        tracing::warn!(variable, "not the URL of a proxy (http, https, socks5), and ignored");
    }
}

/// Returns the keeper of the servers that clients change: the configuration file, or in a cluster the
/// resources, where the operator gives the pod the right.
fn server_registrar(file: &FileRegistrar) -> Option<Arc<dyn ServerRegistrar>> {
    if is_in_cluster() {
        KubernetesRegistrar::from_environment().map(|resources| Arc::new(resources) as _)
    } else {
        Some(Arc::new(file.clone()))
    }
}

/// Names the process that holds a port of `server` already, if it serves the same file.
fn name_running(failure: CommandFailure, path: &Path, server: &Server) -> CommandFailure {
    let holds_port = |it: &RunningServer| it.mcp == server.listen || it.admin == server.admin_listen;
    match RunningServer::find(path).filter(holds_port) {
        Some(running) => failure.remedy(format!(
            "process {} serves this configuration already: `vmcp status` shows it, `vmcp stop` ends it",
            running.pid
        )),
        None => failure,
    }
}

async fn serve(
    arguments: Arguments,
    options_of_start: ServeOptions,
    file: ConfigFile,
    databases: OpeningDatabases,
    lookup: ReferenceLookup,
    people: bool,
) -> Result<(), CommandFailure> {
    let Arguments { listen, admin_listen, stdio, profile, end_after_idle, detach: _, print_config: _ } =
        arguments;
    let ConfigFile { path, source, config, warnings } = file;
    for warning in warnings {
        tracing::warn!("{}", warning.render(&path.display().to_string()));
    }
    log_proxies(&Proxies::of_environment());
    let profile = profile.map(|name| profile_of(&config, &name)).transpose()?;
    let mut server = config.server.clone();
    server.listen = listen.unwrap_or(server.listen);
    server.admin_listen = admin_listen.unwrap_or(server.admin_listen);

    let own_digest = served::digest_of(&path);
    served::refuse_loop(&own_digest, std::env::var(SERVED_VARIABLE).ok().as_deref())?;
    let calls = Arc::new(RecentCalls::default());
    // In a pod, the audit trail is the history.
    let kept_calls = (!is_in_cluster()).then(|| KeptCalls::open(&config, &own_digest, &calls)).flatten();
    let metrics = Arc::<Metrics>::default();
    let console = if stdio { ConsoleStream::Stderr } else { ConsoleStream::Stdout };
    let audit = Arc::new(AuditTrail::new(console, Arc::clone(&metrics)));
    audit.apply(config.audit.as_ref());
    let file_registrar = FileRegistrar::new(path.clone(), lookup.clone());
    let registrar = server_registrar(&file_registrar);
    let observers: Vec<Arc<dyn CallObserver>> = vec![Arc::clone(&calls) as _, Arc::clone(&audit) as _];
    let mut options = Options {
        orphan_guard: orphan_reaper::guard(),
        script_worker: process::script_worker(),
        script_jobs: JobLauncher::from_environment().map(|jobs| Arc::new(jobs) as _),
        // A pod that adds no server has no use for a registry.
        registry: registrar.is_some().then(|| Arc::<CachedRegistry>::default() as _),
        registrar,
        served: Some(own_digest.into()),
        observers,
        metrics,
        ..Options::default()
    };
    let router = DownstreamRouter::new(&options.metrics);
    options.downstream = Some(router.clone());
    let engine = Engine::start_with(databases, config.clone(), options).await?;
    audit.set_policy_version(&engine.snapshot().policy.version());
    let process = Principal::default();
    engine.call_observers().acted(&Action {
        target: Some(&digest(&source.text)),
        result: env!("CARGO_PKG_VERSION"),
        ..Action::of_process("server.start", &process)
    });
    let _writer = kept_calls.as_ref().map(KeptCalls::write_regularly);
    let rendered = engine.clone();
    let metrics_push = MetricsPush::start(&config.telemetry, move || rendered.render_metrics())?;
    let edge = Edge::new(engine.clone(), router);
    let watch = ConfigWatch::start(path.clone(), source, lookup, engine.clone(), file_registrar.written());
    let console = console_sources(&path, &config, &options_of_start.env_files)?;
    let admin = Admin::with_calls(engine.clone(), Some(watch.status()), calls, console);
    let _audit =
        AbortOnDropHandle::new(tokio::spawn(follow_audit_settings(engine.clone(), Arc::clone(&audit))));
    let _announcer = AbortOnDropHandle::new(tokio::spawn(announce_backends(engine.clone())));
    let stop = StopSignals::listen()?;
    let outcome = if stdio {
        tracing::info!(config = %path.display(), "serving MCP on standard input and output");
        let _local = serve_locally(&path, admin.clone());
        let client = Principal { profile, ..Principal::default() };
        serve_stdio(&edge, client, &admin, admin_listen, stop).await
    } else {
        let mut state = None;
        let locals = LocalClients::start(&path, &edge);
        let config = std::path::absolute(&path)?;
        let announce = |ports: &Ports| {
            let tls = server.tls.is_some();
            let (mcp, admin, events) = (ports.client, ports.admin, ports.events);
            let (pid, options) = (std::process::id(), options_of_start);
            let running = RunningServer { pid, mcp, tls, admin, events, config, options };
            state = StateFile::write(&path, &running);
            announce_ports(&running, &path.display().to_string(), people);
        };
        let metrics = Arc::clone(engine.metrics());
        let over_http = move || usize::try_from(metrics.client_connections.get()).unwrap_or_default();
        let until = async move {
            tokio::select! {
                () = stop.wait() => {}
                () = locals.until_idle(end_after_idle, over_http) => {}
            }
            locals.refuse_more();
            locals
        };
        let outcome = serve_ports(edge, &admin, &server, until, announce, LocalClients::drain).await;
        drop(state);
        outcome.map_err(|failure| name_running(failure, &path, &server))
    };
    send_and_shut_down(&engine, metrics_push).await;
    engine.call_observers().acted(&Action::of_process("server.stop", &process));
    audit.apply(None);
    keep(kept_calls).await;
    tracing::info!("stopped");
    outcome
}

/// Waits until the last metrics are sent, then stops the backends. After the stop, the metrics would say that
/// every backend is down.
pub(super) async fn send_and_shut_down(engine: &Engine, metrics: Option<MetricsPush>) {
    if let Some(metrics) = metrics {
        let _ = tokio::task::spawn_blocking(move || metrics.finish()).await;
    }
    engine.shutdown(BACKEND_GRACE).await;
}

/// Writes the latest calls.
async fn keep(calls: Option<KeptCalls>) {
    if let Some(calls) = calls {
        calls.write().await;
    }
}

/// Returns what the web console shows of other rooms: remedies, and entries for the files of clients.
fn console_sources(
    path: &Path,
    config: &Config,
    env_files: &[PathBuf],
) -> Result<ConsoleSources, CommandFailure> {
    let (path, wants_key) = (std::path::absolute(path)?, needs_key(config));
    // Taken once: after an upgrade, the path of this process is that of a deleted file.
    let program = installed_program().unwrap_or_else(|_| "vmcp".into());
    // Behind a forwarded port of a pod, a browser on loopback is on another machine.
    let login = (!is_in_cluster()).then(|| console_login::source(program.clone(), path.clone(), env_files));
    Ok(ConsoleSources {
        remedy: Some(remedies::for_error),
        login,
        snippets: Some(Arc::new(move |url| snippets(&program, &path, url, wants_key))),
    })
}

/// Keeps the audit trail to the configuration in force.
pub(super) async fn follow_audit_settings(engine: Engine, audit: Arc<AuditTrail>) {
    let mut configurations = engine.configurations();
    while configurations.changed().await.is_ok() {
        let snapshot = engine.snapshot();
        audit.set_policy_version(&snapshot.policy.version());
        let (config, audit) = (Arc::clone(&snapshot.config), Arc::clone(&audit));
        // Waits until the file before is written.
        let _ = tokio::task::spawn_blocking(move || audit.apply(config.audit.as_ref())).await;
    }
}

/// Serves until `stop` is over; then drains: requests in flight have `server.drainTimeout` to end. Those of
/// further ways in, which `stop` returns, end by `drain_others` in the same time.
pub(in crate::cli) async fn serve_ports<Others, Drained: Future<Output = ()>>(
    edge: Arc<Edge>,
    admin: &Admin,
    server: &Server,
    stop: impl Future<Output = Others>,
    announce: impl FnOnce(&Ports),
    drain_others: impl FnOnce(Others, Duration) -> Drained,
) -> Result<(), CommandFailure> {
    let engine = edge.engine().clone();
    let ports = Ports::open(edge, admin.clone(), server).await.map_err(|error| {
        CommandFailure::new(error.to_string())
            .remedy("stop whatever listens there, or choose another port with --listen and --admin-listen")
    })?;
    announce(&ports);
    let others = stop.await;
    admin.draining();
    // For `shutdownDelay`, new connections are still served: load balancers notice later than this process
    // that it is not ready any more.
    tokio::time::sleep(engine.snapshot().config.server.shutdown_delay).await;
    let grace = drain_timeout(&engine);
    let (is_drained, ()) = tokio::join!(ports.drain(grace), drain_others(others, grace));
    if !is_drained {
        tracing::warn!("some requests did not end in time (server.drainTimeout)");
    }
    Ok(())
}

/// Serves one client on standard streams until standard input ends, or until a signal.
async fn serve_stdio(
    edge: &Arc<Edge>,
    client: Principal,
    admin: &Admin,
    admin_listen: Option<SocketAddr>,
    stop: StopSignals,
) -> Result<(), CommandFailure> {
    let _operators = match admin_listen {
        Some(address) => Some(serve_admin(address, admin.clone(), edge.engine()).await?),
        None => None,
    };
    let serving = stdio::serve(Arc::clone(edge), client, tokio::io::stdin(), tokio::io::stdout());
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        ended = &mut serving => {
            return ended.map_err(|error| CommandFailure::of_pipe("standard input or output", &error));
        }
        () = stop.wait() => {}
    }
    admin.draining();
    edge.close();
    if tokio::time::timeout(drain_timeout(edge.engine()), serving).await.is_err() {
        tracing::warn!("some requests did not end in time (server.drainTimeout)");
    }
    Ok(())
}

fn drain_timeout(engine: &Engine) -> Duration {
    engine.snapshot().config.server.drain_timeout
}

/// Serves commands of this user at a socket, until the returned values are dropped.
fn serve_locally(config: &Path, admin: Admin) -> Option<(LocalSocket, AbortOnDropHandle<()>)> {
    let (listener, socket) = local_socket::listen(config)?;
    Some((socket, AbortOnDropHandle::new(routes::serve_locally(listener, admin))))
}

/// Serves the admin port alone, until the result is dropped.
async fn serve_admin(
    address: SocketAddr,
    admin: Admin,
    engine: &Engine,
) -> Result<AdminPort, CommandFailure> {
    let failed = |error: std::io::Error| {
        CommandFailure::new(format!("cannot listen on {address}: {error}"))
            .remedy("choose another port with --admin-listen")
    };
    let listener = dual_stack::bind(address).await.map_err(failed)?;
    AdminPort::start(listener, address, admin, &engine.snapshot().config.server).map_err(failed)
}

fn announce_ports(running: &RunningServer, config: &str, people: bool) {
    let (mcp, admin) = (running.url(), format!("http://{}", running.admin));
    if people {
        notes::note(&format!(
            "\n  vmcp {}\n  MCP            {mcp}\n  admin          {admin}/admin/status\n  configuration  {config} (edits apply while it runs, but for a few settings)\n  \
             Claude Code    claude mcp add --transport http vmcp {mcp}\n",
            env!("CARGO_PKG_VERSION"),
        ));
    } else {
        tracing::info!(mcp, admin, config, version = env!("CARGO_PKG_VERSION"), "serving");
    }
}

/// Logs once for each backend that it is up, down or known from the cache, until all have settled.
pub(in crate::cli) async fn announce_backends(engine: Engine) {
    let mut said: Vec<String> = Vec::new();
    loop {
        // Asked before the states are read, so that the last round sees the final states.
        let settled = tokio::time::timeout(BACKEND_POLL_INTERVAL, engine.settled()).await.is_ok();
        for status in engine.backend_status() {
            if !said.contains(&status.name) && announce(&status, settled) {
                said.push(status.name);
            }
        }
        if settled {
            break;
        }
        tokio::time::sleep(BACKEND_POLL_INTERVAL).await;
    }
}

/// Logs the state of a backend; returns true if the state was worth a line.
fn announce(status: &BackendStatus, settled: bool) -> bool {
    let BackendStatus { name, transport, state, revision, tools, last_error, .. } = status;
    match state {
        BackendState::Connected => {
            let revision = revision.as_deref().unwrap_or_default();
            tracing::info!(backend = name, transport, revision, tools, "backend is up");
        }
        BackendState::Failed => {
            let error = last_error.as_deref().unwrap_or("no reason given");
            tracing::warn!(backend = name, transport, error, "backend is down; the others are served");
        }
        BackendState::Configured if settled && tools.is_some_and(|tools| tools > 0) => {
            tracing::info!(
                backend = name,
                transport,
                tools,
                "backend is known from the cache; it is listed again soon"
            );
        }
        BackendState::Configured | BackendState::Connecting => return false,
    }
    true
}
