//! Entries as JSON, for programs and models: the line of a search, and everything that a person decides by.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::entry::{EntryStatus, ServerEntry};
use crate::plan::{Draft, InstallMethod, PlanError, Question, Target};

/// Versions that are named at most.
pub const MAX_VERSIONS: usize = 20;

/// A way of an entry with its draft; an error says why the way is refused.
pub type DraftedWay = (InstallMethod, Result<Draft, PlanError>);

/// Returns the line of a search.
pub fn summary(entry: &ServerEntry) -> Value {
    let status = match entry.status {
        EntryStatus::Active => "active",
        EntryStatus::Deprecated => "deprecated",
        EntryStatus::Deleted => "deleted",
    };
    json!({
        "name": entry.name, "title": entry.title, "version": entry.version, "status": status,
        "ways": ways(entry), "description": entry.description,
    })
}

/// Returns the types of the ways that an entry names.
pub fn ways(entry: &ServerEntry) -> Vec<&str> {
    let remote = entry.remotes.first().map(|_| "remote");
    let packages = entry.packages.iter().map(|package| package.registry_type.as_str());
    let mut ways: Vec<_> = remote.into_iter().chain(packages).collect();
    ways.dedup();
    ways
}

/// Drafts each way of an entry without answers.
pub fn drafts(entry: &ServerEntry) -> Vec<DraftedWay> {
    [InstallMethod::Remote, InstallMethod::Npm, InstallMethod::Pypi, InstallMethod::Oci]
        .into_iter()
        .map(|way| (way, Draft::new(entry, Some(way), &BTreeMap::new())))
        .filter(|(_, draft)| !matches!(draft, Err(PlanError::NoWay { .. })))
        .collect()
}

/// Returns an entry with its ways; `versions` are the known ones, the latest first.
pub fn detail(entry: &ServerEntry, versions: &[ServerEntry], drafts: &[DraftedWay]) -> Value {
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
    report
}

fn way_report(way: InstallMethod, draft: &Result<Draft, PlanError>) -> Value {
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
pub fn runs(draft: &Draft) -> String {
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
