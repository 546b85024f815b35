//! `vmcp tools contexts`: the contexts that a message means, as `GET /tools?message=` takes them.

use clap::Args;
use serde::Serialize;

use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::options::GlobalOptions;
use vmcp_engine::search::topics::topics;

/// Show the contexts that a message means
#[derive(Debug, Args)]
#[command(after_help = "Contexts of `optimizer.discovery.contexts` count where --config names a file.")]
pub(in crate::cli) struct ContextsArguments {
    /// Message, such as "I need to check PROJ-123 ticket comments"
    message: String,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
}

#[derive(Debug, Serialize)]
struct Detected<'a> {
    contexts: Vec<&'a str>,
}

/// Runs the command.
pub(super) fn run(arguments: &ContextsArguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let config = match &global.config {
        Some(_) => global.load()?.config,
        None => vmcp_config::load("backends: []", "defaults", &|_| None)?.config,
    };
    let servers = config.backends.iter().map(|backend| &*backend.name);
    let topics = topics(&config).with_servers(servers);
    let detected = Detected { contexts: topics.of_message(&arguments.message) };
    output::print(arguments.output, &detected, || detected.contexts.join("\n"))?;
    if detected.contexts.is_empty() {
        notes::note("the message means no context");
        return Ok(Exit::NothingFound);
    }
    Ok(Exit::Done)
}
