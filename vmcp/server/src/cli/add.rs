//! `vmcp add`: adds a backend to the configuration file.

use clap::Args;
use vmcp_config::is_backend_name;

use super::config_edit;
use super::console::failure::{CommandFailure, Exit};
use super::console::notes;
use super::options::GlobalOptions;
use super::server_arguments::ServerArguments;

/// Add a backend to the configuration file
///
/// Comments in the file stay. Secrets in the arguments go to `.env` beside the file. A running server takes
/// the backend at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vmcp add time -- uvx mcp-server-time
  vmcp add github https://api.githubcopilot.com/mcp/ --header \"Authorization: Bearer $TOKEN\"
  vmcp add db --env DATABASE_URI=postgresql://me:secret@localhost/x -- npx -y some-server")]
pub(super) struct Arguments {
    /// Name of the backend, which is also the prefix of its tools
    name: String,
    #[command(flatten)]
    server: ServerArguments,
}

/// Runs the command.
pub(super) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { name, server } = arguments;
    if !is_backend_name(&name) {
        return Err(CommandFailure::new(format!("`{name}` is not a backend name"))
            .exit(Exit::Usage)
            .remedy("use lower-case letters, digits, `-`, `_` and `.`, at most 63"));
    }
    let path = global.config_path()?;
    let imported = server.import(&name)?;
    config_edit::append(&path, &imported)?;
    config_edit::keep_secrets(&path, &imported)?;
    notes::note(&format!("added {name} to {}; `vmcp backends` shows its state", path.display()));
    Ok(Exit::Done)
}
