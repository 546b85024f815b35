//! `vmcp hooks`: writes hooks into a coding agent's configuration, and sends a hook to the running server.

mod handlers;
mod install;
mod send;

use clap::{Args, Subcommand, ValueEnum};
use url::{Host, Url};
use vmcp_hooks::native::NativeClient;

use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::options::GlobalOptions;
use crate::cli::running_server::{RunningServer, mcp_url};

/// Keep the sessions of a coding agent: summaries that the next session gets, titles, events
///
/// The server keeps them with optimizer.sessionHooks.enabled: true. A hook in a client is no gate: the client
/// goes on when the hook fails or is removed. Calls are refused by policies of the server.
#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Install(install::Arguments),
    Send(send::Arguments),
}

/// Coding agent whose hooks are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Client {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
}

impl Client {
    fn native(self) -> NativeClient {
        match self {
            Client::Claude => NativeClient::Claude,
            Client::Codex => NativeClient::Codex,
        }
    }
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    match arguments.command {
        Command::Install(arguments) => install::run(&arguments, global),
        Command::Send(arguments) => send::run(arguments, global),
    }
}

/// True for a URL of this machine.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

/// Returns the URL at which a server takes the hooks of a client. `base` is the server's URL, with or without
/// `/mcp`; without it, the running server of the configuration file counts, else its configured address.
fn hook_url(client: NativeClient, base: Option<&Url>, global: &GlobalOptions) -> Result<Url, CommandFailure> {
    let base = if let Some(base) = base {
        base.to_string()
    } else {
        let path = global.config_or_running()?;
        if let Some(server) = RunningServer::find(&path) {
            server.url()
        } else {
            let server = global.load_file(&path)?.config.server;
            mcp_url(server.listen, server.tls.is_some())
        }
    };
    let base = base.trim_end_matches('/');
    let url = format!("{}/hooks/{}", base.strip_suffix("/mcp").unwrap_or(base), client.name());
    Url::parse(&url).map_err(|error| CommandFailure::new(format!("{url}: {error}")))
}
