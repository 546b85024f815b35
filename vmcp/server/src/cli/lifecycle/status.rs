//! `vmcp status`: the server that runs with the configuration file, in a few lines.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use vmcp_config::status::{BackendState, StatusReport};

use super::cluster;
use super::report::{ServerState, count};
use crate::cli::connection::{self, Connection, ServerOptions};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::kubernetes::cluster_server::ClusterServerArguments;
use crate::cli::options::GlobalOptions;
use crate::cli::process::block_on;
use crate::cli::running_server::{RunningServer, client_socket, local_socket};

/// Show the running server in a few lines
///
/// With --kubernetes, shows a VirtualMCPServer: phase, URL, pods and conditions.
#[derive(Debug, Args)]
#[command(
    after_help = "`vmcp backends` shows each backend. For scripts: `vmcp status -o json` has `running` and `healthy`."
)]
pub(in crate::cli) struct Arguments {
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
    let Arguments { output: format, server_options, cluster } = arguments;
    if let Some(server) = cluster.server()? {
        return cluster::status(&server, format, global);
    }
    connection::with_server_if_any(global, &server_options, async |connection| {
        let config = global.config_or_running().ok();
        let status = match connection {
            Some(connection) => match connection.status().await {
                Ok(status) => Some((status, connection)),
                Err(failure) if server_options.names_server() => return Err(failure),
                // It has ended since it was found.
                Err(_) => None,
            },
            None => None,
        };
        let Some((status, connection)) = status else {
            let state = ServerState { running: config.as_deref().and_then(silent_server), status: None };
            output::print(format, &state.to_json(), || not_answering(&state))?;
            return Ok(Exit::Done);
        };
        let running = config.as_deref().and_then(RunningServer::find);
        let running = running.filter(|running| running.pid == status.pid);
        let text = human_text(&status, connection);
        let state = ServerState { running, status: Some(status) };
        output::print(format, &state.to_json(), || text)?;
        Ok(Exit::Done)
    })
}

/// Returns the state of the server of `config`.
pub(super) fn state_of(global: &GlobalOptions, config: &Path) -> Result<ServerState, CommandFailure> {
    block_on(async {
        let connection = Connection::recorded(global, None, config).await;
        // A server that a client started has no ports, and others cannot use it.
        let status = match connection.filter(|connection| !connection.is_of_client()) {
            Some(connection) => connection.status().await.ok(),
            None => None,
        };
        let running = match &status {
            Some(_) => RunningServer::find(config),
            None => silent_server(config),
        };
        Ok(ServerState { running, status })
    })
}

/// Returns the recorded server of `config` whose process takes clients, whether it answers or not. Another
/// program may have the process id of a server that was killed.
pub(super) fn silent_server(config: &Path) -> Option<RunningServer> {
    RunningServer::find(config).filter(|running| takes_clients(config, running.pid))
}

/// Returns true if the server's socket for clients is open.
fn takes_clients(config: &Path, pid: u32) -> bool {
    let address =
        client_socket::socket_of(config, pid).and_then(|socket| local_socket::address(&socket).ok());
    address.is_some_and(|address| UnixStream::connect(address).is_ok())
}

fn not_answering(state: &ServerState) -> String {
    match state.pid() {
        None => "no vmcp runs with this configuration; `vmcp start` starts one".to_owned(),
        Some(pid) => {
            format!("process {pid} does not answer; `vmcp logs` shows its log, `kill {pid}` ends it")
        }
    }
}

fn human_text(status: &StatusReport, connection: &Connection) -> String {
    let StatusReport { version, pid, uptime_seconds, connections, tools, embeddings, .. } = status;
    let uptime = humantime::format_duration(Duration::from_secs(*uptime_seconds));
    let Connection::Server { mcp, admin } = connection else { return String::new() };
    let mcp =
        mcp.as_ref().map_or_else(|| "standard input and output".to_owned(), |port| port.url.to_string());
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
