//! Arguments that describe one MCP server, for `vmcp add` and `vmcp try`.

use clap::Args;
use serde_json::{Map, Value, json};
use vmcp_config::import::{self, Imported};

use super::console::failure::{CommandFailure, Exit};

/// A program or an address.
#[derive(Debug, Args)]
pub(super) struct ServerArguments {
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

impl ServerArguments {
    /// Returns the server as the import of a client's file would: with its secrets apart.
    pub(super) fn import(self, name: &str) -> Result<Imported, CommandFailure> {
        let ServerArguments { address, env, header, command } = self;
        let object = |pairs: Vec<(String, String)>| {
            pairs.into_iter().map(|(name, value)| (name, Value::String(value))).collect::<Map<_, _>>()
        };
        let server = match (address, command.split_first()) {
            (Some(url), _) => json!({ "url": url, "headers": object(header) }),
            (None, Some((program, args))) => {
                json!({ "command": program, "args": args, "env": object(env) })
            }
            (None, None) => {
                return Err(CommandFailure::new("neither a command nor an address").exit(Exit::Usage));
            }
        };
        let file = json!({ "mcpServers": { name: server } }).to_string();
        let imported = import::import(&file, "the command line")?;
        if imported.backends.is_empty() {
            return Err(CommandFailure::new(imported.notes.join("; ")));
        }
        Ok(imported)
    }
}
