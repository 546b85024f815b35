//! `vmcp bridge`: serves one program that speaks MCP on its standard streams over HTTP, with its own names;
//! or stands as a guard before one HTTP server.

mod guards;
mod install;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value, json};
use tokio_util::task::AbortOnDropHandle;
use vmcp_config::{Backend, Config, Credentials, Isolation, KnownSecrets, Transport, normalize_name};

use super::serve::{THREAD_GRACE, announce_backends, follow_audit_settings, send_and_shut_down, serve_ports};
use crate::cli::connection::duration;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::options::{GlobalOptions, listen_address};
use crate::cli::process::{StopSignals, pid1_reaper};
use crate::config_file::file_content;
use crate::config_file::reference_lookup::ReferenceLookup;
use vmcp_edge::port::admin::Admin;
use vmcp_edge::port::serve::Ports;
use vmcp_edge::{DownstreamRouter, Edge};
use vmcp_engine::engine::{Engine, Options, Storage};
use vmcp_engine::telemetry::audit::{AuditTrail, ConsoleStream};
use vmcp_engine::telemetry::metrics::Metrics;
use vmcp_engine::telemetry::otlp::push::MetricsPush;

/// Fixed part of the configuration: names stay as they are, nothing is added, nothing is stored. Timeouts are
/// long and the circuit breaker is off, because the callers of the bridge have their own.
const BRIDGE_CONFIG: &str = "
aggregation: { conflictResolution: passthrough }
optimizer: { enabled: false }
proxy: { toolTimeout: 24h, maxToolTimeout: 24h, refreshInterval: 1m, connectionTimeout: 2m }
operational: { failureHandling: { circuitBreaker: { enabled: false } } }
";
const CLIENT_PORT: u16 = 8080;
/// Interval at which the files of token and guards are polled.
const FILES_POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Serve a program that speaks MCP on its standard streams over HTTP
///
/// The program is served at http://ADDR:PORT/mcp in both eras of MCP, whichever it speaks itself, with its
/// own name, instructions and definitions. It gets the whole environment of this process; its standard error
/// is passed on. When it ends it is restarted with exponential backoff; meanwhile calls fail at once, /readyz
/// of the admin port answers 503, and /admin/status says why. With --url, an HTTP server stands in place of
/// the program.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Arguments {
    /// Serve clients at this port of every address [default: port 8080 of 127.0.0.1]
    #[arg(long)]
    port: Option<u16>,
    /// Serve clients at this address instead
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "port", value_parser = listen_address)]
    listen: Option<SocketAddr>,
    /// Address of health, readiness, metrics and status
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9090", value_parser = listen_address)]
    admin_listen: SocketAddr,
    /// File with the bearer token for status; it may be replaced while the bridge runs. Without it, status is
    /// served at loopback addresses only, because it shows the last lines that the program printed
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
    /// File with guards of the endpoint: the blocks `incomingAuth`, `authServer`, `audit`, `rateLimiting`,
    /// `sessionStorage` and `telemetry` of `vmcp.yaml`, and `server.sessionKeys`. Edits apply while the
    /// bridge runs, but for `telemetry`. An edit with a mistake, or an edit that stops asking for
    /// credentials, leaves the guards before it in force
    #[arg(long, value_name = "FILE")]
    guards: Option<PathBuf>,
    /// Serve the MCP server at this URL in place of a program
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// Transport of the server at --url
    #[arg(long, requires = "url", value_name = "streamable-http|sse", value_parser = ["streamable-http", "sse"])]
    transport: Option<String>,
    /// Name of the program in logs and status [default: the name of its command]
    #[arg(long)]
    name: Option<String>,
    /// Time after SIGTERM during which connections are still taken while /readyz already answers 503
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    shutdown_delay: Duration,
    /// Time that calls in flight then have to end
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    drain_timeout: Duration,
    /// Copy this executable to DIR/vmcp and exit, for an init container whose image has no shell
    #[arg(long, value_name = "DIR", exclusive = true)]
    install: Option<PathBuf>,
    /// Clients that share a process of the program [default: session if it speaks the older era of MCP]
    #[arg(long, value_name = "shared|principal|session", value_parser = isolation)]
    isolation: Option<Isolation>,
    /// Processes that clients may have for themselves; one more ends the longest idle one [default: 64]
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "url",
        value_parser = clap::value_parser!(u32).range(1..=100_000)
    )]
    max_sessions: Option<u32>,
    /// Processes kept ready for the next clients while sessions are opened one after the other
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "url",
        default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=16)
    )]
    warm_sessions: u32,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present_any = ["install", "url"])]
    command: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  vmcp bridge -- uvx mcp-server-time
  vmcp bridge --port 8080 --admin-listen 0.0.0.0:9090 -- npx -y @modelcontextprotocol/server-everything
  vmcp bridge --guards guards.yaml --url http://127.0.0.1:3000/mcp
  vmcp bridge --install /shared";

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    if let Some(folder) = &arguments.install {
        install::into(folder)?;
        return Ok(Exit::Done);
    }
    pid1_reaper::run_as_child()?;
    let lookup = global.reference_lookup();
    let (config, warnings) = configuration(&arguments, &lookup)?;
    let telemetry = global.start_telemetry(&config)?;
    log_warnings(&warnings);
    let runtime = tokio::runtime::Runtime::new()?;
    let outcome = runtime.block_on(serve(arguments, config, lookup));
    runtime.shutdown_timeout(THREAD_GRACE);
    telemetry.flush();
    outcome.map(|()| Exit::Done)
}

fn isolation(text: &str) -> Result<Isolation, String> {
    match text {
        "shared" => Ok(Isolation::Shared),
        "principal" => Ok(Isolation::Principal),
        "session" => Ok(Isolation::Session),
        _ => Err("choose `shared`, `principal` or `session`".to_owned()),
    }
}

fn log_warnings(warnings: &[String]) {
    for warning in warnings {
        tracing::warn!("{warning}");
    }
}

/// Returns the configuration: the fixed part, the program or the URL, and the guards; and the warnings about
/// the guards.
fn configuration(
    arguments: &Arguments,
    lookup: &ReferenceLookup,
) -> Result<(Config, Vec<String>), CommandFailure> {
    let Arguments { port, listen, admin_listen, admin_token_file, name, command, guards, url, .. } =
        arguments;
    let Arguments { isolation, max_sessions, warm_sessions, .. } = arguments;
    let (program, args) = command.split_first().map_or(("", &[][..]), |(program, args)| (program, args));
    let name = name.clone().unwrap_or_else(|| {
        let stem = Path::new(program).file_stem().unwrap_or_default().to_string_lossy();
        normalize_name(&stem).unwrap_or_else(|| "server".to_owned())
    });
    let mut settings: Map<String, Value> = serde_saphyr::from_str(BRIDGE_CONFIG)
        .map_err(|error| CommandFailure::new(format!("the fixed settings of the bridge: {error}")))?;
    let tokens = admin_token_file.iter().map(|file| format!("${{file:{}}}", file.display()));
    settings.insert("server".to_owned(), json!({ "adminTokens": tokens.collect::<Vec<_>>() }));
    if let Some(url) = url {
        settings.insert("backends".to_owned(), json!([backend_at(&name, url, arguments)]));
    }
    let (mut config, warnings) = if let Some(path) = guards {
        guards::load(path, settings, lookup)?
    } else {
        let files = |path: &str| file_content::read_file(Path::new(path));
        let text = Value::from(settings).to_string();
        (vmcp_config::load_with_files(&text, "vmcp bridge", &|_| None, &files)?.config, Vec::new())
    };
    let server = &mut config.server;
    server.listen = listen.unwrap_or_else(|| match port {
        Some(port) => (Ipv6Addr::UNSPECIFIED, *port).into(),
        None => (Ipv4Addr::LOCALHOST, CLIENT_PORT).into(),
    });
    server.admin_listen = *admin_listen;
    server.shutdown_delay = arguments.shutdown_delay;
    server.drain_timeout = arguments.drain_timeout;
    // The program is all there is to serve, so restarting it never ends.
    config.proxy.max_connection_retries = u32::MAX;
    if url.is_some() {
        return Ok((config, warnings));
    }
    let transport = Transport::Stdio {
        command: program.to_owned(),
        args: args.to_vec(),
        // `Options::bridge` passes the whole environment on.
        env: BTreeMap::new(),
        cwd: None,
        inherit_env: Vec::new(),
        // The bridge is ready while its program is.
        idle_timeout: Some(Duration::ZERO),
    };
    config.backends.push(Backend {
        name: name.into(),
        known_secrets: KnownSecrets::of(&transport, KnownSecrets::of_environment()),
        transport,
        enabled: true,
        timeout: None,
        connection_timeout: None,
        ca_bundle_path: None,
        addresses: vmcp_config::addresses::ReachableAddresses::Any,
        preconnect: true,
        isolation: *isolation,
        protocol_era: vmcp_config::ProtocolEra::Auto,
        max_sessions: *max_sessions,
        warm_sessions: *warm_sessions,
        credentials: Credentials::None,
        passthrough_headers: BTreeSet::new(),
        codex: None,
    });
    Ok((config, warnings))
}

/// Returns the entry of the server at a URL.
fn backend_at(name: &str, url: &str, arguments: &Arguments) -> Value {
    let mut backend = Map::new();
    backend.insert("name".to_owned(), name.into());
    // The URL stays as it is, also with the signs of a reference.
    backend.insert("url".to_owned(), url.replace('$', "$$").into());
    let transport = arguments.transport.as_deref().unwrap_or("streamable-http");
    backend.insert("transport".to_owned(), transport.into());
    if let Some(isolation) = arguments.isolation {
        backend.insert("isolation".to_owned(), json!(isolation));
    }
    backend.into()
}

/// Applies a replaced token of the admin port, and edited guards. Files with a mistake, and guards that no
/// longer ask for credentials, are logged once, and the configuration before them stays in force.
async fn follow_files(arguments: Arguments, mut in_force: Config, lookup: ReferenceLookup, engine: Engine) {
    let arguments = Arc::new(arguments);
    // Reason of the last refusal, which the log has already.
    let mut reported: Option<String> = None;
    while arguments.admin_token_file.is_some() || arguments.guards.is_some() {
        tokio::time::sleep(FILES_POLL_INTERVAL).await;
        let (options, lookup) = (Arc::clone(&arguments), lookup.clone());
        // Policies of some size take a while to parse.
        let read = tokio::task::spawn_blocking(move || configuration(&options, &lookup));
        let refusal = match read.await {
            Ok(Ok((config, _))) if config == in_force => None,
            Ok(Ok((config, _))) if guards::opens(&in_force, &config) => Some(
                "the edited guards let every client in; those before them stay in force, which ask for \
                 credentials; restart the bridge if the endpoint is to be open"
                    .to_owned(),
            ),
            Ok(Ok((config, warnings))) => {
                log_warnings(&warnings);
                engine.apply(config.clone()).await;
                in_force = config;
                tracing::info!("the token of the admin port, or the guards, were replaced");
                None
            }
            Ok(Err(failure)) => Some(failure.message().to_owned()),
            Err(error) => Some(format!("the files of token and guards could not be read: {error}")),
        };
        if refusal != reported
            && let Some(reason) = &refusal
        {
            tracing::warn!("{reason}");
        }
        reported = refusal;
    }
}

async fn serve(arguments: Arguments, config: Config, lookup: ReferenceLookup) -> Result<(), CommandFailure> {
    let server = config.server.clone();
    let metrics = Arc::<Metrics>::default();
    let audit = Arc::new(AuditTrail::new(ConsoleStream::Stdout, Arc::clone(&metrics)));
    audit.apply(config.audit.as_ref());
    let mut options = Options {
        storage: Storage::Memory,
        embed: false,
        cached: false,
        bridge: true,
        observers: vec![Arc::clone(&audit) as _],
        metrics,
        ..Options::default()
    };
    let router = DownstreamRouter::new(&options.metrics);
    options.downstream = Some(router.clone());
    let engine = Engine::start(config.clone(), options).await?;
    audit.set_policy_version(&engine.snapshot().policy.version());
    let rendered = engine.clone();
    let metrics_push = MetricsPush::start(&config.telemetry, move || rendered.render_metrics())?;
    let _audit =
        AbortOnDropHandle::new(tokio::spawn(follow_audit_settings(engine.clone(), Arc::clone(&audit))));
    let edge = Edge::new(engine.clone(), router);
    let admin = Admin::new(engine.clone(), None);
    let _follower =
        AbortOnDropHandle::new(tokio::spawn(follow_files(arguments, config, lookup, engine.clone())));
    let _announcer = AbortOnDropHandle::new(tokio::spawn(announce_backends(engine.clone())));
    let announce = |ports: &Ports| {
        let (mcp, admin) = (format!("http://{}/mcp", ports.client), format!("http://{}", ports.admin));
        tracing::info!(mcp, admin, version = env!("CARGO_PKG_VERSION"), "serving");
    };
    let stop = StopSignals::listen()?.wait();
    let outcome = serve_ports(edge, &admin, &server, stop, announce, |(), _| std::future::ready(())).await;
    send_and_shut_down(&engine, metrics_push).await;
    audit.apply(None);
    tracing::info!("stopped");
    outcome
}
