//! `vmcp console`: the address of the running server's web console, opened in a browser.

use std::time::Duration;

use clap::Args;

use super::forwarded_console;
use crate::cli::clients::login::has_display;
use crate::cli::connection::{self, Connection, ServerOptions};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::{notes, output};
use crate::cli::kubernetes::cluster_server::ClusterServerArguments;
use crate::cli::options::GlobalOptions;

/// Time that the admin port has to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Open the web console of the running server in a browser
///
/// Prints its address, and opens it where there is a display. With server.adminTokens, the page asks for one
/// of them. With --kubernetes, forwards the admin port of a ready pod to this machine until Ctrl-C.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  vmcp console\n  vmcp console --no-open\n  vmcp console --kubernetes team-tools"
)]
pub(in crate::cli) struct Arguments {
    /// Print the address alone
    #[arg(long)]
    no_open: bool,
    #[command(flatten)]
    server_options: ServerOptions,
    #[command(flatten)]
    cluster: ClusterServerArguments,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: &Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { no_open, server_options, cluster } = arguments;
    if let Some(server) = cluster.server()? {
        return forwarded_console::run(&server, *no_open, global);
    }
    connection::with_server(global, server_options, async |connection| {
        let port = match connection {
            Connection::Server { admin: Some(admin), .. } if admin.socket.is_none() => admin,
            _ => {
                return Err(CommandFailure::new("this server has no admin port, and so no web console")
                    .remedy(
                        "start a server with ports: `vmcp start`, or give `serve --stdio` an --admin-listen",
                    ));
            }
        };
        let address = port.console_url(TIMEOUT).await?;
        output::result(&address)?;
        if !no_open && has_display() && open::that_detached(&address).is_ok() {
            notes::note("a browser opens; if it does not, open this address");
        }
        Ok(Exit::Done)
    })
}
