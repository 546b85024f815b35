//! `DefinitionsListed`: definitions that clients miss, or see otherwise than the backends have them.

use std::collections::BTreeSet;

use vmcp_config::status::PINNED_TOOL_MISSING;

use super::Degradations;
use crate::runtime::Conditions;
use crate::virtual_mcp_server::status::ObservedVirtualMCPServer;

/// Reasons of issues, the gravest first. Clients miss a definition or a whole list over them.
const FAULTS: [&str; 7] = [
    "UnresolvedConflict",
    "IncompleteList",
    "RejectedDefinition",
    "ReservedToolName",
    "DuplicateDefinition",
    "UnlistedDefinition",
    PINNED_TOOL,
];
/// Reason of a pinned tool that no server has.
const PINNED_TOOL: &str = "PinnedToolMissing";
/// Issues that a message quotes; it counts the others.
const MAX_QUOTED: usize = 3;
/// Characters of a quoted issue, which has words of the backend; a longer one is cut.
const MAX_ISSUE_CHARS: usize = 300;

/// Sets `DefinitionsListed` by the issues of all pods. A conflict that only a change of the configuration
/// resolves is a degradation.
pub(super) fn definitions(
    observed: &ObservedVirtualMCPServer<'_>,
    conditions: &mut Conditions,
    degradations: &mut Degradations,
) {
    const KIND: &str = "DefinitionsListed";
    if observed.reports().next().is_none() {
        if observed.ready() > 0 {
            return conditions.keep(KIND);
        }
        return conditions.unknown(KIND, "NoPods", "no pod is ready");
    }
    let rank = |reason: &str| FAULTS.iter().position(|fault| *fault == reason).unwrap_or(FAULTS.len());
    let issues = observed.reports().flat_map(|report| &report.issues);
    let issues: BTreeSet<_> = issues.filter_map(|issue| parse(issue)).map(|(r, m)| (rank(r), r, m)).collect();
    let Some((worst, reason, _)) = issues.first().copied() else {
        let message = "clients see every definition as its backend has it";
        return conditions.set(KIND, true, "DefinitionsListed", message);
    };
    let quoted = issues.iter().take(MAX_QUOTED).map(|(_, reason, issue)| {
        let (reason, issue): (_, String) = (reason, issue.chars().take(MAX_ISSUE_CHARS).collect());
        format!("{reason}: {issue}")
    });
    let more = match issues.len().saturating_sub(MAX_QUOTED) {
        0 => String::new(),
        more => format!(" (and {more} more; `issues` of /admin/status lists them)"),
    };
    let message = format!("{}{more}", quoted.collect::<Vec<_>>().join(" | "));
    conditions.set(KIND, worst == FAULTS.len(), reason, message.clone());
    if worst == 0 {
        degradations.push(("UnresolvedConflict", message));
    }
}

/// Reasons of definitions that clients miss over their names.
const OF_NAMES: [&str; 2] = ["UnresolvedConflict", "ReservedToolName"];

/// Returns the first definition that clients miss over its name, and the number of the others; `None` if they
/// miss none.
pub(super) fn missed_names(observed: &ObservedVirtualMCPServer<'_>) -> Option<String> {
    let issues = observed.reports().flat_map(|report| &report.issues);
    let is_of_name = |issue: &&String| parse(issue).is_some_and(|(reason, _)| OF_NAMES.contains(&reason));
    let issues: BTreeSet<_> = issues.filter(is_of_name).collect();
    let first: String = issues.first()?.chars().take(MAX_ISSUE_CHARS).collect();
    let more = match issues.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(format!("{first}{more}"))
}

/// Splits an issue into its reason and what happened; `None` for other lines, such as one about a cache.
fn parse(issue: &str) -> Option<(&str, &str)> {
    if issue.ends_with(PINNED_TOOL_MISSING) {
        return Some((PINNED_TOOL, issue));
    }
    let (reason, message) = issue.split_once(": ")?;
    let is_reason = reason.starts_with(|c: char| c.is_ascii_uppercase())
        && reason.chars().all(|c| c.is_ascii_alphabetic());
    is_reason.then_some((reason, message))
}
