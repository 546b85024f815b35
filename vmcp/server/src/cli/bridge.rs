//! `vmcp bridge`: one program that speaks MCP on its standard streams, served over HTTP in its own words.

mod install;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tokio_util::task::AbortOnDropHandle;
use vmcp_model::config::{self, Backend, Config, Transport, normalize_name};

use super::connection::duration;
use super::failure::{Exit, Failure};
use super::first_process;
use super::options::Global;
use super::serve::{BACKEND_GRACE, Stop, THREAD_GRACE, announce_backends, serve_ports};
use crate::edge::admin::Admin;
use crate::edge::serve::Ports;
use crate::edge::{Edge, Listeners};
use crate::engine::{Engine, Options, Storage};

/// What is fixed: names stay as they are, nothing is added, nothing is stored. How long a call may take, and when to leave
/// the program alone, is for those who call it to decide.
const SETTINGS: &str = "
aggregation: { conflictResolution: passthrough }
optimizer: { enabled: false }
proxy: { toolTimeout: 24h, maxToolTimeout: 24h, refreshInterval: 1m, connectionTimeout: 2m }
operational: { failureHandling: { circuitBreaker: { enabled: false } } }
";
const CLIENT_PORT: u16 = 8080;
const ADMIN_PORT: u16 = 9090;

/// Serve a program that speaks MCP on its standard streams over HTTP
///
/// The program is served at http://ADDR:PORT/mcp in both eras of MCP, whichever it speaks itself, with its own name,
/// instructions and definitions. It gets the whole environment of this process; what it writes to standard error goes to
/// standard error. When it ends it is started again, later and later; meanwhile calls fail at once, and /readyz of the
/// admin port answers 503 and says why.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Serve clients at this port of every address [default: port 8080 of 127.0.0.1]
    #[arg(long)]
    port: Option<u16>,
    /// Serve clients at this address instead
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "port")]
    listen: Option<SocketAddr>,
    /// Where health, readiness, metrics and status are [default: port 9090 of the address that clients are served at]
    #[arg(long, value_name = "ADDR:PORT")]
    admin_listen: Option<SocketAddr>,
    /// What the program is called in logs and status [default: as its command]
    #[arg(long)]
    name: Option<String>,
    /// How long after SIGTERM connections are still taken while /readyz already says 503
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    shutdown_delay: Duration,
    /// How long calls in flight may then take to end
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    drain_timeout: Duration,
    /// Copy this executable to DIR/vmcp and exit, for an init container whose image has no shell
    #[arg(long, value_name = "DIR", exclusive = true)]
    install: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "install")]
    command: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  vmcp bridge -- uvx mcp-server-time
  vmcp bridge --port 8080 --admin-listen 0.0.0.0:9090 -- npx -y @modelcontextprotocol/server-everything
  vmcp bridge --install /shared";

/// Runs the command.
pub(super) fn run(arguments: Arguments, global: &Global) -> Result<Exit, Failure> {
    if let Some(folder) = &arguments.install {
        install::into(folder)?;
        return Ok(Exit::Done);
    }
    first_process::leave_to_child()?;
    let config = configuration(arguments)?;
    let telemetry = global.start_telemetry(&config)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let outcome = runtime.block_on(serve(config));
    runtime.shutdown_timeout(THREAD_GRACE);
    telemetry.flush();
    outcome.map(|()| Exit::Done)
}

fn configuration(arguments: Arguments) -> Result<Config, Failure> {
    let Arguments { port, listen, admin_listen, name, shutdown_delay, drain_timeout, command, .. } =
        arguments;
    let mut command = command.into_iter();
    let program = command.next().unwrap_or_default();
    let mut config = config::load(SETTINGS, "vmcp bridge", &|_| None)?.config;
    let name = name.unwrap_or_else(|| {
        let stem = Path::new(&program).file_stem().unwrap_or_default().to_string_lossy();
        normalize_name(&stem).unwrap_or_else(|| "server".to_owned())
    });
    let server = &mut config.server;
    server.listen = listen.unwrap_or_else(|| match port {
        Some(port) => (Ipv4Addr::UNSPECIFIED, port).into(),
        None => (Ipv4Addr::LOCALHOST, CLIENT_PORT).into(),
    });
    server.admin_listen = admin_listen.unwrap_or_else(|| SocketAddr::new(server.listen.ip(), ADMIN_PORT));
    (server.shutdown_delay, server.drain_timeout) = (shutdown_delay, drain_timeout);
    // There is nothing else to do than to go on trying.
    config.proxy.max_connection_retries = u32::MAX;
    config.backends.push(Backend {
        name: name.into(),
        transport: Transport::Stdio {
            command: program,
            args: command.collect(),
            // It has ours: `Options::bridge`.
            env: BTreeMap::new(),
            cwd: None,
        },
        enabled: true,
        timeout: None,
        connection_timeout: None,
        preconnect: true,
    });
    Ok(config)
}

async fn serve(config: Config) -> Result<(), Failure> {
    let server = config.server.clone();
    let mut options =
        Options { storage: Storage::Memory, embed: false, cached: false, bridge: true, ..Options::default() };
    let listeners = Listeners::new(&options.metrics);
    options.downstream = Some(listeners.clone());
    let engine = Engine::start(config, options).await?;
    let edge = Edge::new(engine.clone(), listeners)?;
    let admin = Admin::new(engine.clone(), None);
    let _announcer = AbortOnDropHandle::new(tokio::spawn(announce_backends(engine.clone())));
    let announce = |ports: &Ports| {
        let (mcp, admin) = (format!("http://{}/mcp", ports.client), format!("http://{}", ports.admin));
        tracing::info!(mcp, admin, version = env!("CARGO_PKG_VERSION"), "serving");
    };
    let outcome = serve_ports(edge, &admin, &server, Stop::listen()?, announce).await;
    engine.shutdown(BACKEND_GRACE).await;
    tracing::info!("stopped");
    outcome
}
