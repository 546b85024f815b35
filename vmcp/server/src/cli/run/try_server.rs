//! `vmcp try`: starts one server, shows what it offers, and stops it again.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use vmcp_config::status::{BackendState, BackendStatus};

use crate::cli::connection::tool_report::ToolReport;
use crate::cli::connection::{self, Readiness, duration};
use crate::cli::console::brief::brief;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::operate::doctor::remedies;
use crate::cli::options::{GlobalOptions, environment};
use crate::cli::setup::server_arguments::{self, ServerArguments};

/// Name of the server while it is tried.
const NAME: &str = "try";
/// Settings beside the server: no search.
const SETTINGS: &str = "optimizer: { enabled: false }\n";

/// Start a server, show its tools, and stop it again
///
/// Needs no configuration file and changes none.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vmcp try -- npx -y @modelcontextprotocol/server-everything
  vmcp try --env API_KEY=$KEY -- uvx some-server
  vmcp try https://mcp.example.com/mcp")]
pub(in crate::cli) struct Arguments {
    #[command(flatten)]
    server: ServerArguments,
    /// Time to wait for the server; a first `npx` or `uvx` downloads it
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    wait: Duration,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { server, wait, output: format } = arguments;
    let imported = server_arguments::import_servers(&server.normalized().servers(Some(NAME))?, None)?;
    let variables = |name: &str| {
        imported.variables.get(name).map(|value| value.expose().to_owned()).or_else(|| environment(name))
    };
    let text = format!("{}{SETTINGS}", imported.yaml);
    let config = vmcp_config::load(&text, "the command line", &variables)?.config;
    let transport = config.backends.first().map(|backend| backend.transport.clone());
    let absent = config.unavailable.values().next().cloned();
    connection::with_engine(global, config, &Readiness::Backends, wait, async |connection| {
        let status = connection.status().await?;
        let tools: ToolReport = connection.admin("admin/tools").await?;
        let backend = status.backends.into_iter().next().unwrap_or_default();
        let report = json!({ "server": backend, "tools": tools.tools });
        let error = absent.or_else(|| backend.last_error.clone());
        if backend.state != BackendState::Connected || error.is_some() {
            let error = error.unwrap_or_else(|| "it does not answer".to_owned());
            let remedy = remedies::remedy_for(&backend.name, &error, transport.as_ref());
            return Err(CommandFailure::new(error).exit(Exit::Unreachable).remedy(remedy));
        }
        output::print(format, &report, || human_text(&backend, &tools))?;
        notes::note("`vmcp add NAME …` with the same words adds it to the configuration");
        Ok(Exit::Done)
    })
}

fn human_text(backend: &BackendStatus, tools: &ToolReport) -> String {
    let BackendStatus { server_name, server_version, revision, resources, prompts, .. } = backend;
    let or = |text: &Option<String>, other: &str| text.clone().unwrap_or_else(|| other.to_owned());
    let head = format!(
        "{} {} speaks {}: {} tools, {resources} resources, {prompts} prompts",
        or(server_name, "the server"),
        or(server_version, ""),
        or(revision, "an unknown protocol"),
        tools.tools.len()
    );
    let rows = tools.tools.iter().map(|tool| [tool.original.clone(), brief(&tool.description)]);
    format!("{head}\n\n{}", output::table(["TOOL", "DESCRIPTION"], rows))
}
