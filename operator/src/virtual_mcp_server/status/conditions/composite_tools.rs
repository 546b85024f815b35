//! `CompositeToolsListed`: composite tools that clients miss, because their steps call tools that no backend
//! has. VirtualMCPCompositeToolDefinitions read it from the servers that refer to them.

use std::collections::{BTreeMap, BTreeSet};

use crate::runtime::Conditions;
use crate::shared_settings::composite_tool_definition::missing_tools::{
    CALLS, KIND, SEPARATOR, TOOL_NOT_FOUND,
};
use crate::virtual_mcp_server::status::ObservedVirtualMCPServer;

/// Composite tools that a message names; it counts the others.
const MAX_NAMED: usize = 20;
/// Characters of the list of missing tools of one composite tool.
const MAX_TOOLS_CHARS: usize = 500;

/// Sets the condition by the issues of all pods, if the server has composite tools.
pub(super) fn composite_tools(observed: &ObservedVirtualMCPServer<'_>, conditions: &mut Conditions) {
    if !has_composite_tools(observed) {
        return;
    }
    if observed.reports().next().is_none() {
        if observed.ready() > 0 {
            return conditions.keep(KIND);
        }
        return conditions.unknown(KIND, "NoPods", "no pod is ready");
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for issue in observed.reports().flat_map(|report| &report.issues) {
        if let Some((name, tools)) = parse(issue) {
            missing.entry(name).or_default().extend(tools.split(", "));
        }
    }
    if missing.is_empty() {
        return conditions.set(KIND, true, KIND, "the backends have every tool that composite tools call");
    }
    let named = missing.iter().take(MAX_NAMED).map(|(name, tools)| {
        let tools = tools.iter().copied().collect::<Vec<_>>().join(", ");
        let tools: String = tools.chars().take(MAX_TOOLS_CHARS).collect();
        format!("{name}{CALLS}{tools}, which no backend has")
    });
    let named = named.collect::<Vec<_>>().join(SEPARATOR);
    let more = match missing.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" (and {more} more; `issues` of /admin/status lists them)"),
    };
    conditions.set(KIND, false, TOOL_NOT_FOUND, format!("{named}{more}"));
}

fn has_composite_tools(observed: &ObservedVirtualMCPServer<'_>) -> bool {
    let config = observed.server.spec.config.as_ref();
    config.is_some_and(|config| !config.composite_tool_refs.is_empty() || !config.composite_tools.is_empty())
}

/// Splits an issue of `/admin/status` into a composite tool and the tools that it misses.
fn parse(issue: &str) -> Option<(&str, &str)> {
    let rest = issue.strip_prefix("MissingStepTool: tool ")?;
    let (name, rest) = rest.split_once(" of backend composite: a step calls ")?;
    Some((name, rest.split_once(", which no backend").map_or(rest, |(tools, _)| tools)))
}
