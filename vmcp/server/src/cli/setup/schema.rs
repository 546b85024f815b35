//! `vmcp schema`: prints the JSON schema of the configuration file.

use clap::Args;

use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output;

/// Print the JSON schema of the configuration file, for editors
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vmcp schema > vmcp.schema.json     # beside vmcp.yaml, which refers to it by
                                     #   # yaml-language-server: $schema=vmcp.schema.json")]
pub(in crate::cli) struct Arguments {
    /// Print the settings as Markdown tables instead
    #[arg(long)]
    markdown: bool,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: &Arguments) -> Result<Exit, CommandFailure> {
    let Arguments { markdown } = arguments;
    let text = if *markdown {
        vmcp_config::reference_markdown()
    } else {
        serde_json::to_string_pretty(&vmcp_config::json_schema())?
    };
    output::result(&text)?;
    Ok(Exit::Done)
}
