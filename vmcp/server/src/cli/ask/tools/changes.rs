//! `vmcp tools diff` and `vmcp tools approve`: changed definitions of tools.

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde::{Deserialize, Serialize};
use url::form_urlencoded;

use crate::cli::completions::candidates;
use crate::cli::connection::{self, ServerOptions};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::options::GlobalOptions;
use vmcp_engine::engine::ChangedTool;
use vmcp_model::definition_diff::MAX_FIELDS;

/// Show how the definitions of tools changed
#[derive(Debug, Args)]
#[command(after_help = "A change that is `pending` is hidden from clients until `vmcp tools approve TOOL`.")]
pub(in crate::cli) struct DiffArguments {
    /// Only the tool with this name, its backend's own
    tool: Option<String>,
    /// Only tools of this backend
    #[arg(short, long, value_name = "NAME", add = ArgValueCandidates::new(candidates::backends))]
    backend: Option<String>,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    server_options: ServerOptions,
}

/// Approve the changed definition of a tool that is quarantined
#[derive(Debug, Args)]
pub(in crate::cli) struct ApproveArguments {
    /// Tool to approve, its backend's own name
    tool: String,
    /// Backend that has it; needed if several have a changed tool of this name
    #[arg(short, long, value_name = "NAME", add = ArgValueCandidates::new(candidates::backends))]
    backend: Option<String>,
    #[command(flatten)]
    server_options: ServerOptions,
}

/// The answer of `GET /admin/tools/changes`.
#[derive(Debug, Serialize, Deserialize)]
struct Changes {
    changes: Vec<ChangedTool>,
}

/// Runs `vmcp tools diff`.
pub(super) fn diff(arguments: &DiffArguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    connection::with_server(global, &arguments.server_options, async |connection| {
        let mut found: Changes = connection.admin("admin/tools/changes").await?;
        found.changes.retain(|change| {
            arguments.tool.as_ref().is_none_or(|tool| *tool == change.tool)
                && arguments.backend.as_ref().is_none_or(|backend| *backend == change.server)
        });
        output::print(arguments.output, &found, || {
            found.changes.iter().map(human_text).collect::<Vec<_>>().join("\n\n")
        })?;
        if found.changes.is_empty() {
            notes::note("no definition changed");
            return Ok(Exit::NothingFound);
        }
        Ok(Exit::Done)
    })
}

fn human_text(change: &ChangedTool) -> String {
    let ChangedTool { server, tool, state, at, fields, .. } = change;
    let mut lines = vec![format!("{tool} of {server}: {state}, changed {at}")];
    for field in fields {
        lines.push(format!("  {}", field.field));
        lines.extend(field.before.iter().map(|before| format!("  - {before}")));
        lines.extend(field.after.iter().map(|after| format!("  + {after}")));
    }
    if fields.len() >= MAX_FIELDS {
        lines.push(format!("  Only {MAX_FIELDS} fields are shown: more may differ."));
    }
    lines.join("\n")
}

/// Runs `vmcp tools approve`.
pub(super) fn approve(arguments: &ApproveArguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    connection::with_server(global, &arguments.server_options, async |connection| {
        let found: Changes = connection.admin("admin/tools/changes").await?;
        let pending: Vec<_> = found
            .changes
            .iter()
            .filter(|change| change.state == "pending" && change.tool == arguments.tool)
            .filter(|change| arguments.backend.as_ref().is_none_or(|backend| *backend == change.server))
            .collect();
        let change = match pending.as_slice() {
            [change] => change,
            [] => {
                let failure = format!("no changed definition of `{}` waits for approval", arguments.tool);
                return Err(CommandFailure::new(failure)
                    .exit(Exit::NothingFound)
                    .remedy("`vmcp tools diff` lists what changed"));
            }
            _ => {
                let failure = format!("several backends have a changed tool `{}`", arguments.tool);
                return Err(CommandFailure::new(failure).exit(Exit::Usage).remedy("add --backend NAME"));
            }
        };
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("backend", &change.server).append_pair("tool", &change.tool);
        connection.post(&format!("admin/tools/approve?{}", query.finish())).await?;
        notes::note(&format!("approved: {} of {}", change.tool, change.server));
        Ok(Exit::Done)
    })
}
