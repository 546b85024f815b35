//! `vmcp registry show`: one entry, the command that adding it would run, and its inputs.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vmcp_registry::entry::{EntryStatus, ServerEntry};
use vmcp_registry::plan::{Draft, PlanError, Question, Target, Way};

use super::summary;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output::{self, OutputFormat};

/// Versions that are named at most.
const MAX_VERSIONS: usize = 20;

/// Prints an entry; `versions` are the known ones, the latest first.
pub(super) fn run(
    entry: &ServerEntry,
    versions: &[ServerEntry],
    format: OutputFormat,
) -> Result<Exit, CommandFailure> {
    let drafts: Vec<_> = [Way::Remote, Way::Npm, Way::Pypi, Way::Oci]
        .into_iter()
        .map(|way| (way, Draft::new(entry, Some(way), &BTreeMap::new())))
        .filter(|(_, draft)| !matches!(draft, Err(PlanError::NoWay { .. })))
        .collect();
    let versions: Vec<_> = versions.iter().take(MAX_VERSIONS).map(|entry| entry.version.as_str()).collect();
    let mut report = summary(entry);
    if let Some(report) = report.as_object_mut() {
        report.insert("versions".to_owned(), json!(versions));
        report.insert("website".to_owned(), json!(entry.website));
        report.insert("repository".to_owned(), json!(entry.repository));
        let ways = drafts.iter().map(|(way, draft)| way_report(*way, draft));
        report.insert("ways".to_owned(), ways.collect());
        let findings = entry.findings.iter().map(ToString::to_string);
        report.insert("findings".to_owned(), findings.collect());
    }
    output::print(format, &report, || human_text(entry, &versions, &drafts))?;
    Ok(Exit::Done)
}

fn way_report(way: Way, draft: &Result<Draft, PlanError>) -> Value {
    match draft {
        Err(refusal) => json!({ "type": way.name(), "refused": refusal.to_string() }),
        Ok(draft) => json!({
            "type": way.name(),
            "origin": draft.origin,
            "runs": runs(draft),
            "inputs": draft.questions.iter().map(input).collect::<Vec<_>>(),
            "notes": draft.notes,
        }),
    }
}

fn input(question: &Question) -> Value {
    let Question { label, is_secret, input } = question;
    json!({
        "name": label, "required": input.is_required, "secret": is_secret, "default": input.default,
        "choices": input.choices, "description": input.description,
    })
}

/// Returns the command or the address, with names in place of secrets.
fn runs(draft: &Draft) -> String {
    let shown = |label: &str| label.to_owned();
    match &draft.target {
        Target::Program { command, .. } => {
            let words: Vec<_> = command.iter().map(|word| word.in_config(&shown)).collect();
            words.join(" ")
        }
        Target::Remote { url, .. } if url.0.is_empty() => draft.origin.clone(),
        Target::Remote { url, .. } => url.in_config(&shown),
    }
}

fn human_text(entry: &ServerEntry, versions: &[&str], drafts: &[(Way, Result<Draft, PlanError>)]) -> String {
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
