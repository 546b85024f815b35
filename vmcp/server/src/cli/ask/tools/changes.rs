//! `vmcp tools diff` and `vmcp tools approve`: changed definitions of tools.

use std::fmt::Write as _;

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde::{Deserialize, Serialize};
use url::form_urlencoded;
use vmcp_config::sanitize::{self, shell_word};

use crate::cli::completions::candidates;
use crate::cli::connection::{self, ServerOptions};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::console::prompt;
use crate::cli::options::GlobalOptions;
use vmcp_engine::engine::ChangedTool;
use vmcp_model::definition_diff::MAX_FIELDS;

/// State of a change that waits for an approval.
const PENDING: &str = "pending";
/// Fewest characters of a hash that name a definition.
const MIN_HASH_CHARS: usize = 12;
/// Characters of a hash in the command that approves it.
const SHOWN_HASH_CHARS: usize = 16;

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
#[command(after_help = "\
At a terminal and without --hash or --yes, the change is shown, and you are asked. A server may change a
definition once more while you read: `vmcp tools diff` prints the command that approves what it shows.")]
pub(in crate::cli) struct ApproveArguments {
    /// Tool to approve, its backend's own name
    tool: String,
    /// Backend that has it; needed if several have a changed tool of this name
    #[arg(short, long, value_name = "NAME", add = ArgValueCandidates::new(candidates::backends))]
    backend: Option<String>,
    /// Approve this definition and no other: the begin of its hash, 12 characters at least
    #[arg(long, value_name = "HASH")]
    hash: Option<String>,
    /// Approve the present definition without a question
    #[arg(short, long, conflicts_with = "hash")]
    yes: bool,
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
    let ChangedTool { server, tool, state, at, fields, hash } = change;
    let mut lines = vec![format!("{} of {server}: {state}, changed {at}", seen(tool))];
    for field in fields {
        lines.push(format!("  {}", seen(&field.field)));
        lines.extend(field.before.iter().flat_map(|before| marked('-', before)));
        lines.extend(field.after.iter().flat_map(|after| marked('+', after)));
    }
    if fields.len() >= MAX_FIELDS {
        lines.push(format!("  Only {MAX_FIELDS} fields are shown: more may differ."));
    }
    if state == PENDING && !hash.is_empty() {
        let hash = hash.get(..SHOWN_HASH_CHARS).unwrap_or(hash);
        let tool = shell_word(tool);
        lines.push(format!("  To approve it: vmcp tools approve -b {server} --hash {hash} -- {tool}"));
    }
    lines.join("\n")
}

/// Returns the lines of a value, each behind a mark: no text of a server begins a line of its own, which
/// could pass for another field or tool.
fn marked(mark: char, value: &str) -> impl Iterator<Item = String> {
    value.split('\n').map(move |line| format!("  {mark} {}", seen(line)))
}

/// Writes characters that a person does not see as `\u{…}`: a model reads them.
fn seen(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\t' && (sanitize::is_invisible(c) || sanitize::is_unseen(c)) {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// Runs `vmcp tools approve`.
pub(super) fn approve(arguments: &ApproveArguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    connection::with_server(global, &arguments.server_options, async |connection| {
        let found: Changes = connection.admin("admin/tools/changes").await?;
        let pending: Vec<_> = found
            .changes
            .iter()
            .filter(|change| change.state == PENDING && change.tool == arguments.tool)
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
        match &arguments.hash {
            Some(hash) => check_hash(change, hash)?,
            None if !arguments.yes && prompt::is_possible() => {
                notes::note(&human_text(change));
                if !matches!(prompt::ask("Approve this definition? [y/N]")?.as_str(), "y" | "yes") {
                    return Err(CommandFailure::new("not approved: you declined"));
                }
            }
            None => {}
        }
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("backend", &change.server).append_pair("tool", &change.tool);
        // The server may have got another definition since: that one is not approved.
        if !change.hash.is_empty() {
            query.append_pair("hash", &change.hash);
        }
        connection.post(&format!("admin/tools/approve?{}", query.finish())).await?;
        notes::note(&format!("approved: {} of {}", change.tool, change.server));
        Ok(Exit::Done)
    })
}

/// Fails unless the definition that waits has this hash.
fn check_hash(change: &ChangedTool, hash: &str) -> Result<(), CommandFailure> {
    if hash.len() < MIN_HASH_CHARS {
        let failure = format!("`{hash}` is too short for a hash: give {MIN_HASH_CHARS} characters at least");
        return Err(CommandFailure::new(failure)
            .exit(Exit::Usage)
            .remedy("`vmcp tools diff` shows the command with the hash"));
    }
    if !change.hash.starts_with(hash) {
        let failure = format!(
            "not approved: the definition of `{}` changed again, its hash is {} now",
            change.tool, change.hash
        );
        return Err(CommandFailure::new(failure).remedy("`vmcp tools diff` shows it as it is now"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use vmcp_model::definition_diff::FieldChange;

    use super::*;

    fn change(after: &str) -> ChangedTool {
        let field = FieldChange {
            field: "description".to_owned(),
            before: Some("Adds.".to_owned()),
            after: Some(after.to_owned()),
        };
        ChangedTool {
            server: "s".to_owned(),
            tool: "add $(id)".to_owned(),
            state: PENDING.to_owned(),
            at: "today".to_owned(),
            hash: "0123456789abcdef0123".to_owned(),
            fields: vec![field],
        }
    }

    #[test]
    fn text_of_a_server_begins_no_line_of_a_difference_and_hides_nothing() {
        let hostile = "Adds.\n\nsub of s: accepted\r\u{1b}[2K\u{200b}\u{e0041}";
        assert_eq!(
            human_text(&change(hostile)).lines().collect::<Vec<_>>(),
            [
                "add $(id) of s: pending, changed today",
                "  description",
                "  - Adds.",
                "  + Adds.",
                "  + ",
                "  + sub of s: accepted\\u{d}\\u{1b}[2K\\u{200b}\\u{e0041}",
                "  To approve it: vmcp tools approve -b s --hash 0123456789abcdef -- 'add $(id)'",
            ]
        );
    }

    #[test]
    fn an_approval_is_for_the_definition_with_its_hash() {
        let change = change("Adds more.");
        assert!(check_hash(&change, "0123456789ab").is_ok());
        for other in ["0123456789ac", "0123456789abcdef01234", "0123", ""] {
            assert!(check_hash(&change, other).is_err(), "{other}");
        }
    }
}
