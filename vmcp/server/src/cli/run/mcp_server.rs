//! `vmcp mcp-server`: MCP on standard input and output for one client, carried to the one server that all
//! clients of a configuration file share, or to a VirtualMCPServer of a cluster. It starts the server of a
//! file if none runs.
//!
//! | module | holds |
//! |---|---|
//! | `relay` | the lines between client and server, the end and the next server |
//! | `shared_server`, `server_link` | joining or starting the server, the connection to it |
//! | `cluster_link`, `http_carrier` | the connection to a pod, over HTTP |
//! | `client_session`, `unanswered` | messages that the next server must hear |
//! | `own_tools`, `own_call` | the tools of the proxy itself |
//! | `own_commands`, `project` | their work |
//! | `local_answers` | answers while no server runs |

mod client_session;
mod cluster_link;
mod http_carrier;
mod local_answers;
mod own_call;
mod own_commands;
mod own_tools;
mod project;
mod relay;
mod server_link;
mod shared_server;
mod unanswered;

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;
use parking_lot::Mutex;
use tokio::io::BufReader;
use vmcp_backend::SERVED_VARIABLE;
use vmcp_config::Secret;

use self::cluster_link::ClusterLink;
use self::own_commands::OwnCommands;
use self::shared_server::{LocalServer, ServerPlace, SharedServer};
use super::serve::served;
use crate::cli::completions::candidates;
use crate::cli::connection::duration;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::installed_program::installed_program;
use crate::cli::kubernetes::cluster_server::ClusterServerArguments;
use crate::cli::options::GlobalOptions;
use crate::cli::process::block_on;

/// Serve one client on standard input and output by the server that all clients share
///
/// Joins the running server of the configuration file, or starts one. Adds the tools start, stop, restart,
/// status and init_project, which also work while no server runs. `vmcp connect` writes this command into a
/// client's file. With --kubernetes, it joins a ready pod of a VirtualMCPServer by `kubectl port-forward`,
/// and the tools start, stop, restart and status act on that resource.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  claude mcp add --transport stdio vmcp -- vmcp mcp-server
  vmcp mcp-server --config /path/to/vmcp.yaml --profile work
  vmcp mcp-server --kubernetes team-tools --namespace team")]
pub(in crate::cli) struct Arguments {
    /// Show the client only this part, one of `profiles` of the configuration file
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(candidates::profiles))]
    profile: Option<String>,
    /// End a server that this command starts once it has had no client for this long
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "15m",
        env = "VMCP_END_AFTER_IDLE",
        value_parser = duration
    )]
    end_after_idle: Duration,
    #[command(flatten)]
    cluster: ClusterServerArguments,
    /// Key or token for the MCP endpoint of the cluster, where its `incomingAuth` wants one
    #[arg(
        long,
        value_name = "TOKEN",
        env = "VMCP_TOKEN",
        hide_env_values = true,
        help_heading = "In a Kubernetes cluster"
    )]
    token: Option<Secret>,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { profile, end_after_idle, cluster, token } = arguments;
    if let Some(server) = cluster.server()? {
        // Each request would fail with it, which looks like a server that is gone.
        if token.as_ref().is_some_and(|token| http::HeaderValue::from_str(token.expose()).is_err()) {
            let message = "--token (VMCP_TOKEN) has a character that no HTTP header can have";
            let failure = CommandFailure::new(message).exit(Exit::Usage);
            return Err(failure.remedy("give the token alone, without a line break"));
        }
        global.start_logs()?;
        let commands = OwnCommands::of_cluster(installed_program()?, server.options());
        let link = ClusterLink { server, profile, token, absent: Mutex::default() };
        return carry(SharedServer { place: ServerPlace::Cluster(link), commands });
    }
    let config = std::path::absolute(global.config_or_running()?)?;
    served::refuse_loop(&served::digest_of(&config), std::env::var(SERVED_VARIABLE).ok().as_deref())?;
    global.start_logs()?;
    let options = global.serve_options()?;
    let commands = OwnCommands::new(installed_program()?, &config, options, end_after_idle);
    carry(SharedServer { place: ServerPlace::Local(LocalServer { config, profile }), commands })
}

/// Carries the messages of the client on standard input and output.
fn carry(server: SharedServer) -> Result<Exit, CommandFailure> {
    block_on(async {
        let input = BufReader::new(tokio::io::stdin());
        let carried = relay::run(server, input, tokio::io::stdout()).await;
        carried.map_err(|error| CommandFailure::of_pipe("standard input or output", &error))
    })?;
    Ok(Exit::Done)
}
