//! `vmcp status`, `vmcp stop`, `vmcp restart`: the server that runs with the configuration file.

use std::time::{Duration, Instant};

use clap::Args;
use clap_complete::ArgValueCandidates;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use vmcp_config::status::{BackendState, StatusReport};

use crate::cli::completions::candidates;
use crate::cli::connection::{self, Connection, ServerOptions, duration};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::console::{notes, progress};
use crate::cli::options::GlobalOptions;

/// Interval at which an ending process is looked at.
const END_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time that a restarted backend has to come up before the command ends without it.
const RESTART_TIMEOUT: Duration = Duration::from_mins(1);

/// Show the running server in a few lines
#[derive(Debug, Args)]
#[command(after_help = "Exits with 4 if no server runs. `vmcp backends` shows each backend.")]
pub(in crate::cli) struct StatusArguments {
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    server_options: ServerOptions,
}

/// Stop the running server gracefully: calls in flight may end
#[derive(Debug, Args)]
pub(in crate::cli) struct StopArguments {
    /// Time to wait for its end
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    server_options: ServerOptions,
}

/// Restart one backend of the running server
///
/// Its program is started again; calls under way at it fail.
#[derive(Debug, Args)]
pub(in crate::cli) struct RestartArguments {
    /// Name of the backend
    #[arg(add = ArgValueCandidates::new(candidates::backends))]
    backend: String,
    #[command(flatten)]
    server_options: ServerOptions,
}

/// Runs `vmcp status`.
pub(in crate::cli) fn status(
    arguments: StatusArguments,
    global: &GlobalOptions,
) -> Result<Exit, CommandFailure> {
    let StatusArguments { output: format, server_options } = arguments;
    connection::with_server(global, &server_options, async |connection| {
        let status = connection.status().await?;
        let up = count(&status, BackendState::Connected);
        let report = json!({
            "pid": status.pid, "version": status.version, "uptimeSeconds": status.uptime_seconds,
            "connections": status.connections, "tools": status.tools, "connectedBackends": up,
            "backends": status.backends.len(), "embeddings": status.embeddings,
            "configurationRefused": status.configuration.refused.is_some(),
        });
        output::print(format, &report, || human_text(&status, connection))?;
        Ok(Exit::Done)
    })
}

fn count(status: &StatusReport, state: BackendState) -> usize {
    status.backends.iter().filter(|backend| backend.state == state).count()
}

fn human_text(status: &StatusReport, connection: &Connection) -> String {
    let StatusReport { version, pid, uptime_seconds, connections, tools, embeddings, .. } = status;
    let uptime = humantime::format_duration(Duration::from_secs(*uptime_seconds));
    let Connection::Server { mcp, admin } = connection else { return String::new() };
    let mcp = mcp.as_ref().map_or_else(|| "standard input and output".to_owned(), ToString::to_string);
    let admin = admin.as_ref().filter(|_| !connection.is_of_client());
    let admin = admin.map_or_else(|| "a socket of this user".to_owned(), |admin| admin.url.to_string());
    let words = [
        (BackendState::Connected, "connected"),
        (BackendState::Connecting, "connecting"),
        (BackendState::Configured, "idle"),
        (BackendState::Failed, "failed"),
    ];
    let counts = words.map(|(state, word)| format!("{} {word}", count(status, state))).join(", ");
    let refused = if status.configuration.refused.is_some() {
        "\nconfiguration  the last edit is refused; `vmcp doctor` says why"
    } else {
        ""
    };
    format!(
        "vmcp {version}, process {pid}, up {uptime}\nMCP            {mcp}\nadmin          {admin}\n\
         backends       {counts}\ntools          {tools}\n\
         search         {}, {} of {} tools have a vector\nconnections    {connections}{refused}",
        embeddings.provider, embeddings.embedded, embeddings.wanted
    )
}

/// Runs `vmcp stop`.
pub(in crate::cli) fn stop(arguments: StopArguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let StopArguments { timeout, server_options } = arguments;
    connection::with_server(global, &server_options, async |connection| {
        let pid = connection.status().await?.pid;
        if connection.is_of_client() {
            return Err(CommandFailure::new(format!("a client started this server (process {pid})"))
                .remedy("quit the client, or disconnect vmcp in it"));
        }
        let process =
            i32::try_from(pid).map(Pid::from_raw).map_err(|_| CommandFailure::new("no process id"))?;
        kill(process, Signal::SIGTERM)
            .map_err(|error| CommandFailure::new(format!("cannot signal process {pid}: {error}")))?;
        let spinner = progress::spinner("waiting for calls in flight");
        let started = Instant::now();
        while kill(process, None).is_ok() && started.elapsed() < timeout {
            tokio::time::sleep(END_POLL_INTERVAL).await;
        }
        spinner.finish_and_clear();
        if kill(process, None).is_ok() {
            return Err(CommandFailure::new(format!("process {pid} is still ending"))
                .remedy(format!("wait, or end it at once: kill {pid}")));
        }
        notes::note(&format!("stopped (process {pid})"));
        Ok(Exit::Done)
    })
}

/// Runs `vmcp restart`.
pub(in crate::cli) fn restart(
    arguments: RestartArguments,
    global: &GlobalOptions,
) -> Result<Exit, CommandFailure> {
    let RestartArguments { backend, server_options } = arguments;
    connection::with_server(global, &server_options, async |connection| {
        let known = connection.status().await?.backends;
        if !known.iter().any(|one| one.name == backend) {
            let names: Vec<_> = known.iter().map(|one| one.name.as_str()).collect();
            return Err(CommandFailure::new(format!("no backend is called `{backend}`"))
                .exit(Exit::NothingFound)
                .remedy(format!("there are {}", names.join(", "))));
        }
        connection.post(&format!("admin/restart?backend={backend}")).await?;
        let spinner = progress::spinner(format!("restarting {backend}"));
        let started = Instant::now();
        let after = loop {
            tokio::time::sleep(END_POLL_INTERVAL * 4).await;
            let status = connection.status().await?;
            let found = status.backends.into_iter().find(|one| one.name == backend).unwrap_or_default();
            let settled = matches!(found.state, BackendState::Connected | BackendState::Failed);
            if settled || started.elapsed() > RESTART_TIMEOUT {
                break found;
            }
        };
        spinner.finish_and_clear();
        match after.state {
            BackendState::Connected => {
                notes::note(&format!("{backend} is connected again"));
                Ok(Exit::Done)
            }
            state => Err(CommandFailure::new(format!(
                "{backend} is {}: {}",
                state.as_str(),
                after.last_error.as_deref().unwrap_or("it does not answer")
            ))
            .exit(Exit::Unreachable)
            .remedy(format!("`vmcp doctor {backend}` says what to do"))),
        }
    })
}
