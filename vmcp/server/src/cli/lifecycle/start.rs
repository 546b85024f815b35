//! `vmcp start`: a server in the background, unless one runs already.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Args;
use serde_json::{Value, json};
use vmcp_config::Server;

use super::report::{self, ServerState};
use super::{background, cluster, status};
use crate::cli::connection::duration;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::OutputFormat;
use crate::cli::kubernetes::cluster_server::ClusterServerArguments;
use crate::cli::options::{GlobalOptions, listen_address};
use crate::cli::running_server::serve_options::ServeOptions;
use crate::cli::running_server::start_lock::{self, StartLock};
use crate::cli::running_server::{self, RunningServer};

/// Most questions to a new server for its health.
const HEALTH_POLLS: u32 = 10;
/// Pause between two of them.
const HEALTH_INTERVAL: Duration = Duration::from_secs(1);
/// Any free port of this machine's own address.
const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Start the server in the background, unless it runs already
///
/// Waits until it serves. If it does not come up, the last lines of its log say why. Its working folder is
/// that of the configuration file. With --kubernetes, ends the suspension of a VirtualMCPServer.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vmcp start
  vmcp start --listen 127.0.0.1:8765
  vmcp status && vmcp stop
  vmcp start --kubernetes team-tools --namespace team")]
pub(in crate::cli) struct Arguments {
    /// Address for clients; overrides server.listen
    #[arg(long, value_name = "ADDR:PORT", env = "VMCP_LISTEN", value_parser = listen_address)]
    listen: Option<SocketAddr>,
    /// Address for operators; overrides server.adminListen
    #[arg(long, value_name = "ADDR:PORT", env = "VMCP_ADMIN_LISTEN", value_parser = listen_address)]
    admin_listen: Option<SocketAddr>,
    /// Take a free port of 127.0.0.1 if another program has the configured one
    #[arg(long, conflicts_with = "kubernetes")]
    any_port: bool,
    /// End the server once it has had no client for this long
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "kubernetes")]
    end_after_idle: Option<Duration>,
    /// Start nothing if the server was stopped on purpose
    #[arg(long, hide = true)]
    unless_stopped: bool,
    /// Start nothing if the server is stopped on purpose while this waits for the lock
    #[arg(long, hide = true)]
    unless_stopped_meanwhile: bool,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    cluster: ClusterServerArguments,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: &Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { listen, admin_listen, any_port, end_after_idle, output, ref cluster, .. } = *arguments;
    if let Some(server) = cluster.server()? {
        return cluster::start(&server, output, global);
    }
    let options = ServeOptions { listen, admin_listen, end_after_idle, ..global.serve_options()? };
    report::print(output, start(global, options, any_port, arguments.yields()), describe)
}

impl Arguments {
    fn yields(&self) -> YieldsTo {
        match (self.unless_stopped, self.unless_stopped_meanwhile) {
            (true, _) => YieldsTo::AnyStop,
            (false, true) => YieldsTo::StopMeanwhile,
            (false, false) => YieldsTo::NoStop,
        }
    }
}

/// Stops on purpose that a start does not undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum YieldsTo {
    /// None: a person or an agent asks for the start.
    NoStop,
    /// A stop while the start waits for the lock: a new client starts a server, and the stop came after it.
    StopMeanwhile,
    /// Any, also one before: a client that was there already goes on without a server.
    AnyStop,
}

impl YieldsTo {
    /// Decides by the times of the last stop, before and after the wait for the lock.
    fn leaves_stopped(self, before: Option<SystemTime>, after: Option<SystemTime>) -> bool {
        match self {
            YieldsTo::NoStop => false,
            YieldsTo::StopMeanwhile => after.is_some() && after != before,
            YieldsTo::AnyStop => after.is_some(),
        }
    }
}

/// Runs `vmcp serve --detach`, which refuses to start a second server.
pub(in crate::cli) fn run_detached(
    global: &GlobalOptions,
    options: ServeOptions,
) -> Result<Exit, CommandFailure> {
    let (report, exit) = start(global, options, false, YieldsTo::NoStop)?;
    if report.get("already_running").is_some() {
        let pid = report.get("pid").unwrap_or(&Value::Null);
        let message = format!("process {pid} serves this configuration already");
        return Err(CommandFailure::new(message).remedy("`vmcp status` shows it, `vmcp stop` ends it"));
    }
    describe(&report);
    Ok(exit)
}

/// Tells people about a start.
fn describe(report: &Value) {
    let text = |key: &str| report[key].as_str().unwrap_or_default().to_owned();
    if report["stopped"] == true {
        return notes::note("vmcp was stopped on purpose; `vmcp start` starts it");
    }
    if report["already_running"] == true {
        return notes::note(&format!(
            "process {} serves this configuration already; `vmcp status` shows it, `vmcp stop` ends it",
            report["pid"]
        ));
    }
    notes::note(&format!(
        "vmcp serves {} in the background (process {}); its log is {}\n\
         `vmcp status`, `vmcp logs -f` and `vmcp stop` are for it",
        text("url"),
        report["pid"],
        text("log")
    ));
}

/// Starts a server, unless one runs, and returns the report. `any_port`: a port that is taken is replaced.
fn start(
    global: &GlobalOptions,
    options: ServeOptions,
    any_port: bool,
    yields: YieldsTo,
) -> Result<(Value, Exit), CommandFailure> {
    // Mistakes of the file are told here, not by the log.
    let file = global.load()?;
    let config = std::path::absolute(&file.path)?;
    let stopped_before = start_lock::stopped_at(&config);
    let lock = StartLock::wait(&config)?;
    if yields.leaves_stopped(stopped_before, start_lock::stopped_at(&config)) {
        let report = json!({ "success": false, "stopped": true, "message": "Daemon was stopped on purpose" });
        return Ok((report, Exit::Unreachable));
    }
    lock.unmark();
    let known = status::state_of(global, &config)?;
    if known.pid().is_some() {
        let report = json!({
            "success": false, "already_running": true, "message": "Daemon is already running", "pid": known.pid(),
            "healthy": known.status.is_some(), "url": known.running.as_ref().map(RunningServer::url),
            "formatted_message": known.banner(),
        });
        return Ok((report, Exit::Done));
    }
    let options = if any_port { with_free_ports(options, &file.config.server) } else { options };
    let state = bring_up(global, &config, &options)?;
    Ok((started(&config, &state, "Daemon started successfully"), Exit::Done))
}

/// Starts a server and returns its state once it is healthy, or after [`HEALTH_POLLS`]. The caller holds the
/// lock.
#[expect(clippy::disallowed_methods, reason = "no runtime is running")]
pub(super) fn bring_up(
    global: &GlobalOptions,
    config: &Path,
    options: &ServeOptions,
) -> Result<ServerState, CommandFailure> {
    let running = background::start(config, options)?;
    let mut state = status::state_of(global, config)?;
    for _ in 1..HEALTH_POLLS {
        if state.status.is_some() {
            break;
        }
        std::thread::sleep(HEALTH_INTERVAL);
        state = status::state_of(global, config)?;
    }
    Ok(ServerState { running: Some(running), ..state })
}

/// Writes the report of a start or restart.
pub(super) fn started(config: &Path, state: &ServerState, message: &str) -> Value {
    let log = running_server::log_path(config).map(|log: PathBuf| log.display().to_string());
    json!({
        "success": true, "message": message, "pid": state.pid(), "healthy": state.status.is_some(),
        "url": state.running.as_ref().map(RunningServer::url), "log": log, "formatted_message": state.banner(),
    })
}

/// Replaces addresses that another program listens at.
pub(super) fn with_free_ports(options: ServeOptions, server: &Server) -> ServeOptions {
    let free = |given: Option<SocketAddr>, configured| match TcpListener::bind(given.unwrap_or(configured)) {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => Some(ANY_PORT),
        _ => given,
    };
    let listen = free(options.listen, server.listen);
    ServeOptions { listen, admin_listen: free(options.admin_listen, server.admin_listen), ..options }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_undone_only_by_a_start_that_came_after_it() {
        let [first, second] = [1, 2].map(|second| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(second)));
        for (before, after, meanwhile, any) in [
            (None, None, false, false),
            (first, None, false, false),
            (first, first, false, true),
            (None, first, true, true),
            (first, second, true, true),
        ] {
            assert_eq!(
                YieldsTo::StopMeanwhile.leaves_stopped(before, after),
                meanwhile,
                "{before:?} {after:?}"
            );
            assert_eq!(YieldsTo::AnyStop.leaves_stopped(before, after), any, "{before:?} {after:?}");
            assert!(!YieldsTo::NoStop.leaves_stopped(before, after));
        }
    }

    #[test]
    fn a_port_that_is_taken_is_replaced_by_any_free_one() {
        let holder = TcpListener::bind(ANY_PORT).unwrap();
        let config = vmcp_config::load("backends: []", "vmcp.yaml", &|_: &str| None).unwrap().config;
        let server = Server { listen: holder.local_addr().unwrap(), admin_listen: ANY_PORT, ..config.server };
        let free = with_free_ports(ServeOptions::default(), &server);
        assert_eq!((free.listen, free.admin_listen), (Some(ANY_PORT), None));
    }
}
