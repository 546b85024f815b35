//! `vmcp tools`: lists the tools of all backends, or shows one of them.

mod changes;
mod contexts;
mod one_tool;
mod refresh;
mod usage;

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;

use crate::cli::completions::candidates;
use crate::cli::connection::tool_report::ToolReport;
use crate::cli::connection::{self, Readiness, ServerOptions};
use crate::cli::console::brief::brief;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::options::GlobalOptions;

/// List the tools of all backends, or show one tool with its schema and an example
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  vmcp tools
  vmcp tools time_get_current_time
  vmcp tools --backend github -o json | jq '.tools[].name'"
)]
pub(in crate::cli) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// Tool to show
    #[arg(conflicts_with_all = ["backend", "all"], add = ArgValueCandidates::new(candidates::tools))]
    name: Option<String>,
    /// List only the tools of this backend
    #[arg(short, long, value_name = "NAME", add = ArgValueCandidates::new(candidates::backends))]
    backend: Option<String>,
    /// Also list tools that the configuration hides from clients
    #[arg(short, long)]
    all: bool,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    server_options: ServerOptions,
}

/// Actions on definitions that change, and on messages.
#[derive(Debug, Subcommand)]
enum Action {
    Diff(changes::DiffArguments),
    Approve(changes::ApproveArguments),
    Refresh(refresh::RefreshArguments),
    Contexts(contexts::ContextsArguments),
    Metrics(usage::UsageArguments),
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    match &arguments.action {
        Some(Action::Diff(arguments)) => return changes::diff(arguments, global),
        Some(Action::Approve(arguments)) => return changes::approve(arguments, global),
        Some(Action::Contexts(arguments)) => return contexts::run(arguments, global),
        Some(Action::Metrics(arguments)) => return usage::run(arguments, global),
        Some(Action::Refresh(arguments)) => return refresh::run(arguments, global),
        None => {}
    }
    let Arguments { action: _, name, backend, all, output: format, server_options } = arguments;
    if let Some(name) = name {
        return connection::with_connection(
            global,
            &server_options,
            &Readiness::Tool(&name),
            async |connection| one_tool::show(connection, &name, format).await,
        );
    }
    connection::with_connection(global, &server_options, &Readiness::Backends, async |connection| {
        let mut tools: ToolReport = connection.admin("admin/tools").await?;
        tools.tools.retain(|tool| {
            (all || tool.listed) && backend.as_ref().is_none_or(|backend| *backend == tool.backend)
        });
        output::print(format, &tools, || {
            let rows = tools.tools.iter().map(|tool| {
                let hidden = if tool.listed { "" } else { "(hidden) " };
                [tool.name.clone(), tool.backend.clone(), format!("{hidden}{}", brief(&tool.description))]
            });
            if tools.tools.is_empty() {
                String::new()
            } else {
                output::table(["NAME", "BACKEND", "DESCRIPTION"], rows)
            }
        })?;
        if !tools.tools.is_empty() {
            return Ok(Exit::Done);
        }
        let status = connection.status().await?;
        let known: Vec<_> = status.backends.iter().map(|backend| backend.name.as_str()).collect();
        notes::note(&match backend {
            Some(backend) if !known.contains(&backend.as_str()) => {
                format!("no backend is called `{backend}`; there are: {}", known.join(", "))
            }
            _ => "no tools; `vmcp backends` says how the backends are doing".to_owned(),
        });
        Ok(Exit::NothingFound)
    })
}
