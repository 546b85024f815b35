//! `vmcp add`: adds a backend to the configuration file.

use clap::Args;
use serde_json::{Map, Value, json};
use vmcp_config::{import, is_backend_name};

use super::config_edit;
use super::console::failure::{CommandFailure, Exit};
use super::console::notes;
use super::options::GlobalOptions;

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
    /// Address of a remote server
    #[arg(required_unless_present = "command", conflicts_with = "command")]
    address: Option<String>,
    /// Environment variable of the program; repeatable
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Header of requests to the address; repeatable
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(String, String)>,
    /// Program to start and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it like NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write it like \"Authorization: Bearer …\"")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Runs the command.
pub(super) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { name, address, env, header, command } = arguments;
    if !is_backend_name(&name) {
        return Err(CommandFailure::new(format!("`{name}` is not a backend name"))
            .exit(Exit::Usage)
            .remedy("use lower-case letters, digits, `-`, `_` and `.`, at most 63"));
    }
    let path = global.config_path()?;
    let object = |pairs: Vec<(String, String)>| {
        pairs.into_iter().map(|(name, value)| (name, Value::String(value))).collect::<Map<_, _>>()
    };
    let server = match (address, command.split_first()) {
        (Some(url), _) => json!({ "url": url, "headers": object(header) }),
        (None, Some((program, args))) => json!({ "command": program, "args": args, "env": object(env) }),
        (None, None) => return Err(CommandFailure::new("neither a command nor an address").exit(Exit::Usage)),
    };
    let file = json!({ "mcpServers": { (name.as_str()): server } }).to_string();
    let imported = import::import(&file, "the command line")?;
    if imported.backends.is_empty() {
        return Err(CommandFailure::new(imported.notes.join("; ")));
    }
    config_edit::append(&path, &imported)?;
    config_edit::keep_secrets(&path, &imported)?;
    notes::note(&format!("added {name} to {}; `vmcp backends` shows its state", path.display()));
    Ok(Exit::Done)
}
