//! `vmcp stop`: ends the server that runs with the configuration file.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::{cluster, report, status};
use crate::cli::connection::{self, Connection, ServerOptions, duration};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output::OutputFormat;
use crate::cli::console::{notes, progress};
use crate::cli::kubernetes::cluster_server::ClusterServerArguments;
use crate::cli::options::GlobalOptions;
use crate::cli::running_server::start_lock::StartLock;

/// Interval at which an ending process is looked at.
const END_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Stop the running server gracefully: calls in flight may end
///
/// Clients that share it (`vmcp mcp-server`) do not start it again; `vmcp start`, their tool `start`, or the
/// next client does. With --kubernetes, suspends a VirtualMCPServer: its pods end, everything else stays.
#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    /// Time to wait for its end
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    timeout: Duration,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    server_options: ServerOptions,
    #[command(flatten)]
    cluster: ClusterServerArguments,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { timeout, output, server_options, cluster } = arguments;
    if let Some(server) = cluster.server()? {
        return cluster::stop(&server, timeout, output, global);
    }
    let lock = lock(global)?;
    let config = global.config_or_running().ok().filter(|_| !server_options.names_server());
    let outcome = connection::with_server_if_any(global, &server_options, async |connection| {
        let pid = match connection {
            Some(connection) => pid(connection, config.as_deref()).await?,
            None => silent_pid(config.as_deref()),
        };
        let Some(pid) = pid else {
            let report = json!({ "success": false, "not_running": true, "message": "Daemon is not running" });
            return Ok((report, Exit::Unreachable));
        };
        // A server named by its address may be another one than that of the configuration file.
        if let Some(lock) = lock.as_ref().filter(|_| config.is_some()) {
            lock.mark_stopped()?;
        }
        let pid = end_process(pid, timeout).await?;
        let report = json!({ "success": true, "message": "Daemon stopped successfully", "pid": pid });
        Ok((report, Exit::Done))
    });
    report::print(output, outcome, describe)
}

fn describe(report: &Value) {
    if report["not_running"] == true {
        notes::note("no vmcp runs with this configuration");
    } else {
        notes::note(&format!("stopped (process {})", report["pid"]));
    }
}

/// Waits for the lock of the configuration file; `None` without a file, for a server named by its address.
fn lock(global: &GlobalOptions) -> Result<Option<StartLock>, CommandFailure> {
    let config = global.config_or_running().ok().filter(|config| config.exists());
    config.map(|config| StartLock::wait(&config)).transpose()
}

/// True while a process runs. In a container whose first process reaps nothing, an ended one stays a zombie.
fn is_alive(process: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    let is_zombie = stat.is_ok_and(|text| {
        text.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with('Z'))
    });
    kill(process, None).is_ok() && !is_zombie
}

/// Returns the process of a server, also of a silent one, for it still holds its ports. `None`
/// if it has ended since it was found. `config`: the file whose server is meant.
async fn pid(connection: &Connection, config: Option<&Path>) -> Result<Option<u32>, CommandFailure> {
    match connection.status().await {
        Ok(status) if connection.is_of_client() => {
            Err(CommandFailure::new(format!("a client started this server (process {})", status.pid))
                .remedy("quit the client, or disconnect vmcp in it"))
        }
        Ok(status) => Ok(Some(status.pid)),
        Err(failure) if config.is_none() || connection.is_of_client() => Err(failure),
        Err(_) => Ok(silent_pid(config)),
    }
}

fn silent_pid(config: Option<&Path>) -> Option<u32> {
    config.and_then(status::silent_server).map(|running| running.pid)
}

/// Ends a process by SIGTERM and waits until it is gone. Returns its id.
pub(super) async fn end_process(pid: u32, timeout: Duration) -> Result<u32, CommandFailure> {
    let process = i32::try_from(pid).map(Pid::from_raw).map_err(|_| CommandFailure::new("no process id"))?;
    kill(process, Signal::SIGTERM)
        .map_err(|error| CommandFailure::new(format!("cannot signal process {pid}: {error}")))?;
    let spinner = progress::spinner("waiting for calls in flight");
    let started = Instant::now();
    while is_alive(process) && started.elapsed() < timeout {
        tokio::time::sleep(END_POLL_INTERVAL).await;
    }
    spinner.finish_and_clear();
    if is_alive(process) {
        return Err(CommandFailure::new(format!("process {pid} is still ending"))
            .remedy(format!("wait, or end it at once: kill {pid} (kill -9 {pid} if it hangs)")));
    }
    Ok(pid)
}
