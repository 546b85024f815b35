//! `vmcp restart`: ends the server and starts it again with the same options; with a name, one backend of it.

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde_json::Value;

use super::process_end::{EndLimits, ProcessEnd, end_process};
use super::{cluster, report, restart_backend, start, status};
use crate::cli::completions::candidates;
use crate::cli::connection::{ServerOptions, duration};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::OutputFormat;
use crate::cli::kubernetes::cluster_server::ClusterServerArguments;
use crate::cli::options::GlobalOptions;
use crate::cli::process::block_on;
use crate::cli::running_server::RunningServer;
use crate::cli::running_server::serve_options::ServeOptions;
use crate::cli::running_server::start_lock::StartLock;

/// Restart the server, or one backend of it
///
/// Without a name, the server ends gracefully and starts again in the background, with the options that it
/// had; a server that still runs when its drain must be over is stuck, and is killed. With a name, the
/// program of that backend is started again; calls under way at it fail. With --kubernetes, the pods of a
/// VirtualMCPServer are replaced, one after the other.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vmcp restart             # the server
  vmcp restart github      # one backend
  vmcp restart --kubernetes team-tools")]
pub(in crate::cli) struct Arguments {
    /// Name of a backend
    #[arg(add = ArgValueCandidates::new(candidates::backends), conflicts_with = "kubernetes")]
    backend: Option<String>,
    /// Time to wait for the end of the server; a time before the end of the drain kills nothing [default:
    /// until the drain (server.drainTimeout) must be over]
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "backend")]
    timeout: Option<Duration>,
    /// Without a server: end the new one once it has had no client for this long, and take free ports
    #[arg(long, value_name = "DURATION", value_parser = duration, hide = true)]
    end_after_idle: Option<Duration>,
    /// Format of the result for the server
    #[arg(short, long, value_name = "FORMAT", default_value = "table", conflicts_with = "backend")]
    output: OutputFormat,
    #[command(flatten)]
    server_options: ServerOptions,
    #[command(flatten)]
    cluster: ClusterServerArguments,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { backend, timeout, end_after_idle, output, server_options, cluster } = arguments;
    if let Some(server) = cluster.server()? {
        return cluster::restart(&server, timeout, output, global);
    }
    match backend {
        Some(backend) => restart_backend::run(&backend, &server_options, global),
        None => report::print(output, restart(global, timeout, end_after_idle), |report: &Value| {
            if report["killed"] == true {
                notes::note(report["message"].as_str().unwrap_or_default());
            }
            notes::note(&format!("vmcp runs again (process {})", report["pid"]));
        }),
    }
}

/// Restarts the server, or starts one if none runs. `end_after_idle` is for a server that is started for a
/// client, which takes a free port where its own is taken.
fn restart(
    global: &GlobalOptions,
    timeout: Option<Duration>,
    end_after_idle: Option<Duration>,
) -> Result<(Value, Exit), CommandFailure> {
    // A file with mistakes would end the server and start none.
    let file = global.load_file(&global.config_or_running()?)?;
    let config = std::path::absolute(&file.path)?;
    global.start_logs()?;
    let lock = StartLock::wait(&config)?;
    lock.unmark();
    let options = match RunningServer::find(&config) {
        Some(running) => running.options,
        None if end_after_idle.is_some() => {
            let options = ServeOptions { end_after_idle, ..global.serve_options()? };
            start::with_free_ports(options, &file.config.server)
        }
        None => global.serve_options()?,
    };
    // Also a server that does not answer: it still holds its ports.
    let end = match status::state_of(global, &config)?.pid() {
        Some(pid) => block_on(end_process(pid, EndLimits::new(timeout, Some(&file.config.server))))?,
        None => ProcessEnd::Drained,
    };
    let state = start::bring_up(global, &config, &options)?;
    let mut report = start::started(&config, &state, &end.message("restarted"));
    if let Some(report) = report.as_object_mut() {
        report.insert("killed".to_owned(), end.is_killed().into());
    }
    Ok((report, Exit::Done))
}
