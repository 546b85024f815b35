//! Trusted definitions of tools, which the server's Secret keeps for new pods: joined from the definitions
//! that it has, the reports of the pods, and the approvals in an annotation. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use vmcp_config::rules::OnToolChange;
use vmcp_config::rules::trusted_tools::{Fingerprint, ToolsOfBackend, TrustedTool, TrustedTools};
use vmcp_crds::GROUP;

use crate::virtual_mcp_server::validate::Plan;

/// Bytes of an entry of the document beside the tool's name: quotes, a colon, a comma, and a fingerprint.
const ENTRY_BYTES: usize = 6 + 32;
/// Bytes of the time of an approval: `@` and 13 digits until the year 2286.
const APPROVAL_BYTES: usize = 14;
/// Bytes of a backend's entry beside its name and its tools.
const BACKEND_BYTES: usize = 6;
/// Bytes of a document without entries.
const EMPTY_BYTES: usize = 16;

/// The trusted definitions to keep, and their state.
#[derive(Debug, Default)]
pub(in crate::virtual_mcp_server) struct KeptTrust {
    /// The document to mount: as it was found, if it cannot be read.
    pub text: String,
    /// Number of trusted definitions.
    pub tools: usize,
    /// True if the document that was found cannot be read, and no pod reports another.
    pub is_unreadable: bool,
    /// Number of definitions that do not fit, by backend.
    pub omitted: BTreeMap<String, usize>,
    /// Changed definitions that wait for an approval.
    pub pending: BTreeSet<PendingTool>,
    /// Approvals in the annotation.
    pub approvals: BTreeSet<String>,
}

/// A changed definition: its backend, the tool's own name there, and the fingerprint.
pub(in crate::virtual_mcp_server) type PendingTool = (String, String, Fingerprint);

/// Returns the name of the annotation that approves changed definitions.
pub(in crate::virtual_mcp_server) fn approval_annotation() -> String {
    format!("{GROUP}/approve-tools")
}

/// Returns the approval of a changed definition, as the annotation has it.
pub(in crate::virtual_mcp_server) fn approval((backend, tool, fingerprint): &PendingTool) -> String {
    format!("{backend}/{tool}@{fingerprint}")
}

/// Returns the backends whose trusted definitions are kept: those under `onToolChange: Quarantine`, and the
/// members that cannot be called now. `None` while the configuration is refused: then all are.
pub(in crate::virtual_mcp_server) fn quarantined(plan: &Plan) -> Option<BTreeSet<String>> {
    let config = &plan.configuration.as_ref().ok()?.lowered.config;
    let names = config.backends.iter().map(|backend| backend.name.to_string());
    let mut names: BTreeSet<_> =
        names.filter(|name| config.aggregation.on_tool_change(name) == OnToolChange::Quarantine).collect();
    // Settings about backends that are left out are left out too.
    names.extend(plan.unusable.keys().cloned());
    Some(names)
}

/// Joins the definitions that are kept so far with the reports of pods. A definition is replaced only by a
/// later approval: of a pod, or in the annotation, which approves a definition that a pod reports as pending.
/// Kept ones always stay; new ones are added while the document has at most `budget` bytes, to the backends
/// with the fewest first, and to each up to its share, so that a backend that lists ever new tools displaces
/// no other's, now or later.
pub(in crate::virtual_mcp_server) fn join(
    kept: Option<&[u8]>,
    reports: &[Arc<TrustedTools>],
    approvals: &str,
    backends: Option<&BTreeSet<String>>,
    (budget, now): (usize, i64),
) -> KeptTrust {
    let parsed = kept.map_or(Ok(TrustedTools::default()), |kept| {
        let text = std::str::from_utf8(kept).map_err(|error| error.to_string())?;
        TrustedTools::parse(text)
    });
    let mut document = match parsed {
        Ok(document) => document,
        // Each pod reports all that it trusts, the kept definitions included.
        Err(_) if !reports.is_empty() => TrustedTools::default(),
        Err(_) => {
            let text = String::from_utf8_lossy(kept.unwrap_or_default()).into_owned();
            return KeptTrust { text, is_unreadable: true, ..KeptTrust::default() };
        }
    };
    document.pending.clear();
    let is_wanted = |backend: &String| backends.is_none_or(|backends| backends.contains(backend));
    document.trusted.retain(|backend, _| is_wanted(backend));
    let mut new: BTreeMap<String, ToolsOfBackend<TrustedTool>> = BTreeMap::new();
    let reported = reports.iter().flat_map(|report| &report.trusted);
    for (backend, tools) in reported.filter(|(backend, _)| is_wanted(backend)) {
        for (tool, trusted) in tools {
            let kept = document.trusted.get_mut(backend).and_then(|tools| tools.get_mut(tool));
            match kept {
                Some(kept) if trusted.is_newer_than(kept) => kept.clone_from(trusted),
                Some(_) => {}
                None => add(&mut new, backend, tool, trusted),
            }
        }
    }
    let mut pending = pending(reports);
    pending.retain(|(backend, ..)| is_wanted(backend));
    let approved: BTreeSet<&str> =
        approvals.split(',').map(str::trim).filter(|approval| !approval.is_empty()).collect();
    for change in pending.iter().filter(|change| approved.contains(approval(change).as_str())) {
        let (backend, tool, fingerprint) = change;
        let of_backend = document.trusted.entry(backend.clone()).or_default();
        let before = of_backend.get(tool).map_or(0, |before| before.approved_at);
        if of_backend.get(tool).is_none_or(|before| before.fingerprint != *fingerprint) {
            let approved_at = now.max(before.saturating_add(1));
            let trusted = TrustedTool { fingerprint: fingerprint.clone(), approved_at };
            of_backend.insert(tool.clone(), trusted);
        }
    }
    pending.retain(|(backend, tool, fingerprint)| {
        document.tool(backend, tool).is_none_or(|trusted| trusted.fingerprint != *fingerprint)
    });
    document.trusted.retain(|_, tools| !tools.is_empty());
    let omitted = add_within(&mut document, new, budget);
    let tools = document.trusted.values().map(BTreeMap::len).sum();
    let approvals = approved.into_iter().map(str::to_owned).collect();
    KeptTrust { text: document.to_text(), tools, is_unreadable: false, omitted, pending, approvals }
}

/// Returns the changed definitions that wait for an approval in some pod.
fn pending(reports: &[Arc<TrustedTools>]) -> BTreeSet<PendingTool> {
    let all = reports.iter().flat_map(|report| &report.pending);
    let of_backend = |(backend, tools): (&String, &ToolsOfBackend<Fingerprint>)| {
        let changes =
            tools.iter().map(|(tool, fingerprint)| (backend.clone(), tool.clone(), fingerprint.clone()));
        changes.collect::<Vec<_>>()
    };
    all.flat_map(of_backend).collect()
}

/// Adds a definition that is not kept yet: of several pods' definitions the last approved, or the first.
fn add(
    new: &mut BTreeMap<String, ToolsOfBackend<TrustedTool>>,
    backend: &str,
    tool: &str,
    trusted: &TrustedTool,
) {
    let tools = new.entry(backend.to_owned()).or_default();
    if tools.get(tool).is_none_or(|before| trusted.is_newer_than(before)) {
        tools.insert(tool.to_owned(), trusted.clone());
    }
}

/// Adds new definitions while there is room; returns the number of the others, by backend. The share of a
/// backend is `budget / (backends + 1)` bytes, kept definitions included: room is left for a backend that
/// comes later.
fn add_within(
    document: &mut TrustedTools,
    new: BTreeMap<String, ToolsOfBackend<TrustedTool>>,
    budget: usize,
) -> BTreeMap<String, usize> {
    let mut size = EMPTY_BYTES + document.to_text().len();
    let backends = document.trusted.keys().chain(new.keys()).collect::<BTreeSet<_>>().len();
    let share = budget / (backends + 1);
    let number = |backend: &String| document.trusted.get(backend).map_or(0, BTreeMap::len);
    let mut by_number: Vec<_> = new.into_iter().collect();
    by_number.sort_by_key(|(backend, tools)| number(backend) + tools.len());
    let mut omitted = BTreeMap::new();
    for (backend, tools) in by_number {
        let mut taken = document.trusted.get(&backend).map_or(0, |kept| {
            let of_tools: usize = kept.iter().map(|(tool, trusted)| entry_bytes(tool, trusted)).sum();
            backend.len() + BACKEND_BYTES + of_tools
        });
        for (tool, trusted) in tools {
            if document.tool(&backend, &tool).is_some() {
                continue;
            }
            let of_backend =
                if document.trusted.contains_key(&backend) { 0 } else { backend.len() + BACKEND_BYTES };
            let bytes = of_backend + entry_bytes(&tool, &trusted);
            if size + bytes > budget || taken + bytes > share {
                *omitted.entry(backend.clone()).or_default() += 1;
                continue;
            }
            size += bytes;
            taken += bytes;
            document.trusted.entry(backend.clone()).or_default().insert(tool, trusted);
        }
    }
    omitted
}

/// Returns the most bytes of a tool's entry.
fn entry_bytes(tool: &str, trusted: &TrustedTool) -> usize {
    let of_approval = if trusted.approved_at == 0 { 0 } else { APPROVAL_BYTES };
    json_bytes(tool) + ENTRY_BYTES + of_approval
}

/// Returns the most bytes of a text in JSON, without its quotes.
fn json_bytes(text: &str) -> usize {
    let of_char = |c: char| if c.is_control() || c == '"' || c == '\\' { 6 } else { c.len_utf8() };
    text.chars().map(of_char).sum()
}

#[cfg(test)]
mod tests;
