//! `vmcp stop`: ends the server that runs with the configuration file.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::process_end::{EndLimits, end_process};
use super::{cluster, report, status};
use crate::cli::connection::{self, Connection, ServerOptions, duration};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::OutputFormat;
use crate::cli::kubernetes::cluster_server::ClusterServerArguments;
use crate::cli::options::GlobalOptions;
use crate::cli::running_server::start_lock::StartLock;

/// Stop the running server gracefully: calls in flight may end
///
/// Clients that share it (`vmcp mcp-server`) do not start it again; `vmcp start`, their tool `start`, or the
/// next client does. A server that still runs when its drain must be over is stuck, and is killed. With
/// --kubernetes, suspends a VirtualMCPServer: its pods end, everything else stays.
#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    /// Time to wait for its end; a time before the end of the drain kills nothing [default: until the drain
    /// (server.drainTimeout) must be over]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
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
    let settings = config.as_deref().and_then(|config| global.load_file(config).ok());
    let limits = EndLimits::new(timeout, settings.as_ref().map(|file| &file.config.server));
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
        let end = end_process(pid, limits).await?;
        let report = json!({
            "success": true, "message": end.message("stopped"), "pid": pid, "killed": end.is_killed(),
        });
        Ok((report, Exit::Done))
    });
    report::print(output, outcome, describe)
}

fn describe(report: &Value) {
    if report["not_running"] == true {
        notes::note("no vmcp runs with this configuration");
    } else if report["killed"] == true {
        let words = report["message"].as_str().unwrap_or_default();
        notes::note(&format!("{words} (process {})", report["pid"]));
    } else {
        notes::note(&format!("stopped (process {})", report["pid"]));
    }
}

/// Waits for the lock of the configuration file; `None` without a file, for a server named by its address.
fn lock(global: &GlobalOptions) -> Result<Option<StartLock>, CommandFailure> {
    let config = global.config_or_running().ok().filter(|config| config.exists());
    config.map(|config| StartLock::wait(&config)).transpose()
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
