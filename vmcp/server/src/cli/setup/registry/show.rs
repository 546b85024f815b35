//! `vmcp registry show`: one entry, the command that adding it would run, and its inputs.

use vmcp_registry::entry::{EntryStatus, ServerEntry};
use vmcp_registry::plan::{Draft, InstallMethod, PlanError, Question};
use vmcp_registry::report::{self, MAX_VERSIONS, runs};

use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output::{self, OutputFormat};

/// Prints an entry; `versions` are the known ones, the latest first.
pub(super) fn run(
    entry: &ServerEntry,
    versions: &[ServerEntry],
    format: OutputFormat,
) -> Result<Exit, CommandFailure> {
    let drafts = report::drafts(entry);
    let names: Vec<_> = versions.iter().take(MAX_VERSIONS).map(|entry| entry.version.as_str()).collect();
    let shown = report::detail(entry, versions, &drafts);
    output::print(format, &shown, || human_text(entry, &names, &drafts))?;
    Ok(Exit::Done)
}

fn human_text(
    entry: &ServerEntry,
    versions: &[&str],
    drafts: &[(InstallMethod, Result<Draft, PlanError>)],
) -> String {
    let mut lines = vec![format!("{} {}", entry.name, entry.version)];
    lines.extend(entry.title.clone());
    lines.extend((!entry.description.is_empty()).then(|| entry.description.clone()));
    if entry.status == EntryStatus::Deprecated {
        let reason = entry.status_message.as_deref().unwrap_or("no reason is given");
        lines.push(format!("deprecated: {reason}"));
    }
    lines.extend(entry.website.iter().map(|url| format!("website: {url}")));
    lines.extend(entry.repository.iter().map(|url| format!("source: {url}")));
    lines.extend((versions.len() > 1).then(|| format!("versions: {}", versions.join(", "))));
    for (way, draft) in drafts {
        lines.push(String::new());
        match draft {
            Err(refusal) => lines.push(format!("{}: refused: {refusal}", way.name())),
            Ok(draft) => {
                lines.push(format!("{}: {}", way.name(), runs(draft)));
                lines.extend(draft.notes.iter().map(|note| format!("  note: {note}")));
                lines.extend((!draft.questions.is_empty()).then(|| inputs(&draft.questions)));
            }
        }
    }
    if drafts.is_empty() {
        let types = entry.packages.iter().map(|package| package.registry_type.as_str());
        let types: Vec<_> = types.collect();
        lines.push(format!("it cannot be added: its packages are of type {}", types.join(", ")));
    }
    lines.extend(entry.findings.iter().map(|finding| format!("not read: {finding}")));
    lines.join("\n")
}

fn inputs(questions: &[Question]) -> String {
    let rows = questions.iter().map(|Question { label, is_secret, input }| {
        let kind = match (input.is_required, is_secret) {
            (true, true) => "required, secret",
            (true, false) => "required",
            (false, true) => "secret",
            (false, false) => "",
        };
        let default = input.default.as_deref().filter(|_| !is_secret).unwrap_or_default();
        let description = input.description.clone().unwrap_or_default();
        [format!("  {label}"), kind.to_owned(), default.to_owned(), description]
    });
    output::table(["  INPUT", "KIND", "DEFAULT", "DESCRIPTION"], rows)
}
