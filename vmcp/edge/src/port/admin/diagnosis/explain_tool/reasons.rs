//! Reasons in words, with the setting that decides: why a backend is silent, a rule hides a tool, a list
//! leaves it out.

use std::fmt::Write as _;

use vmcp_backend::{BackendState, BackendStatus};
use vmcp_config::rules::{Aggregation, Strategy, Visibility};
use vmcp_config::sanitize::shell_word;
use vmcp_config::{Config, Exposure};
use vmcp_model::catalog::CatalogTool;
use vmcp_model::issue::IssueReason;
use vmcp_model::names::COMPOSITE;

use vmcp_engine::access::policy::Explanation;
use vmcp_engine::engine::{Snapshot, View};

/// Returns the state of a tool's backend, and true if calls reach it.
pub(super) fn backend(status: &BackendStatus) -> (bool, String) {
    let name = &status.name;
    match (status.state, &status.last_error) {
        (BackendState::Connected, None) => (true, format!("{name} is connected")),
        (BackendState::Connected, Some(error)) => {
            (true, format!("{name} is connected; its last error: {error}"))
        }
        (BackendState::Configured, _) => (true, format!("{name} is idle and starts when it is called")),
        (BackendState::Connecting, None) => (true, format!("{name} is connecting")),
        (BackendState::Connecting, Some(error)) => {
            (false, format!("{name} is connecting again, after: {error}"))
        }
        (BackendState::Failed, error) => {
            let error = error.as_deref().unwrap_or("no reason given");
            (false, format!("{name} does not answer: {error}; `vmcp doctor {name}` says what to do"))
        }
    }
}

/// Returns why the tools of backends are unknown: a backend is switched off, or has listed nothing.
pub(super) fn silent_backends(statuses: &[BackendStatus], config: &Config) -> Vec<String> {
    let unavailable =
        |name: &str| config.unavailable.get(name).map(|why| format!("{name} is switched off: {why}"));
    let off = |name: &str| {
        let off = config.backends.iter().any(|backend| &*backend.name == name && !backend.enabled);
        off.then(|| format!("{name} is switched off (`vmcp enable {name}`)"))
    };
    let silent = statuses.iter().filter(|status| status.tools.is_none());
    silent
        .map(|status| {
            let name = status.name.as_str();
            unavailable(name)
                .or_else(|| off(name))
                .unwrap_or_else(|| format!("{name} has listed no tools so far: {}", backend(status).1))
        })
        .collect()
}

/// Returns how the tool got its name.
pub(super) fn name(tool: &CatalogTool, rules: &Aggregation) -> String {
    let CatalogTool { name, own_name, definition, backend, .. } = tool;
    let mut parts = Vec::new();
    let change = rules.per_backend.get(backend).and_then(|rules| rules.overrides.get(&definition.name));
    if *own_name != definition.name {
        parts.push(format!("an override (aggregation.tools) renames it to `{own_name}`"));
    } else if change.is_some() {
        parts.push("an override (aggregation.tools) changes its definition".to_owned());
    }
    if name != own_name {
        let strategy = match &rules.strategy {
            Strategy::Prefix { .. } => "prefix",
            Strategy::Priority { .. } => "priority",
            Strategy::Manual => "manual",
            Strategy::Passthrough => "passthrough",
        };
        parts.push(format!("the strategy `{strategy}` (aggregation.conflictResolution) makes it `{name}`"));
    }
    if parts.is_empty() { "it keeps its name".to_owned() } else { parts.join("; ") }
}

/// Returns the rule that hides a tool from all clients; `None` if it is not hidden.
pub(super) fn hidden(snapshot: &Snapshot, tool: &CatalogTool) -> Option<String> {
    if tool.listed {
        return None;
    }
    let (backend, rules) = (&*tool.backend, &snapshot.config.aggregation);
    if snapshot.is_quarantined(tool) {
        return Some(quarantined(backend, &tool.definition.name));
    }
    // A backend's tool may have the name of a composite tool.
    if backend == COMPOSITE {
        return Some("a step of this composite tool calls a tool that no backend offers now".to_owned());
    }
    Some(hiding_rule(rules, backend, tool))
}

/// Returns the reason of a tool in quarantine, with a command that a person may paste: its server chose the
/// name.
fn quarantined(backend: &str, original: &str) -> String {
    let of_tool = format!("-b {backend} -- {}", shell_word(original));
    format!(
        "its definition changed, and it is in quarantine (onToolChange); `vmcp tools diff {of_tool}` shows the \
         change, and the command that trusts it"
    )
}

fn hiding_rule(rules: &Aggregation, backend: &str, tool: &CatalogTool) -> String {
    let own_name = tool.own_name.as_str();
    if rules.exclude_all_tools {
        return "aggregation.excludeAllTools hides every tool".to_owned();
    }
    let place = format!("aggregation.tools of {backend}");
    match rules.per_backend.get(backend) {
        None if rules.default_visibility == Visibility::Deny => {
            return format!(
                "aggregation.defaultToolVisibility is `deny`, and aggregation.tools has no entry of {backend}"
            );
        }
        Some(own) if own.exclude_all => return format!("{place}: excludeAll hides all its tools"),
        Some(own) => {
            if let Some(pattern) = own.exclude.iter().find(|pattern| pattern.matches(own_name)) {
                return format!("{place}: exclude has `{}`", pattern.as_str());
            }
            if !own.filter.is_empty() && !own.filter.iter().any(|pattern| pattern.matches(own_name)) {
                return format!("{place}: filter has no pattern for `{own_name}`");
            }
        }
        None => {}
    }
    if rules.read_only.contains(backend) {
        return format!("backends: {backend} is `readOnly`, and the tool does not declare readOnlyHint");
    }
    "a rule of the configuration hides it".to_owned()
}

/// Returns the decision of the policies in words.
pub(in crate::port) fn policy(explanation: &Explanation) -> String {
    let Explanation { allowed, policy, could_allow, errors, shadow } = explanation;
    let mut text = match (allowed, could_allow) {
        (true, _) => format!("allowed by `{policy}`"),
        (false, true) => {
            format!("denied by `{policy}` without arguments; with other arguments a call could be allowed")
        }
        (false, false) => format!("denied by `{policy}`"),
    };
    if let Some(shadow) = shadow {
        // Writing to a string cannot fail.
        let _ = write!(text, "; `{shadow}`, which is only tried out, would decide otherwise");
    }
    for error in errors {
        let _ = write!(text, "; not evaluated: {error}");
    }
    text
}

/// Returns the rule by which the client's `tools/list` has a tool, or has it not.
pub(super) fn listed(
    snapshot: &Snapshot,
    view: &View,
    tool: &CatalogTool,
    is_visible: bool,
    is_listed: bool,
) -> String {
    let optimizer = &snapshot.config.optimizer;
    if !is_visible {
        return "lists have only tools that no filter hides and some call of which a policy could allow"
            .to_owned();
    }
    if !tool.in_lists {
        let issues = &snapshot.unfiltered().issues;
        let own = issues.iter().find(|issue| {
            issue.reason == IssueReason::UnlistedDefinition
                && issue.backend == tool.backend
                && issue.name == tool.definition.name
        });
        return own
            .map_or_else(|| "clients would refuse a list with it".to_owned(), |issue| issue.message.clone());
    }
    if !optimizer.enabled {
        return "without the optimizer (optimizer.enabled: false), lists have every tool".to_owned();
    }
    if optimizer.pinned_tools.contains(&tool.name) {
        return "optimizer.pinnedTools names it".to_owned();
    }
    let tokens = view.baseline_tokens.saturating_add(view.optimizer_tokens);
    let budget = optimizer.auto_token_budget;
    match view.exposure() {
        Exposure::All => "optimizer.exposure is `All`".to_owned(),
        Exposure::MetaOnly => "optimizer.exposure is `MetaOnly`, and pinnedTools does not name it".to_owned(),
        Exposure::Contextual if is_listed => {
            "until set_context, lists have every tool (optimizer.exposure, contextual.noContext)".to_owned()
        }
        Exposure::Contextual => {
            "lists have it when it fits the client's context (optimizer.exposure: Contextual)".to_owned()
        }
        Exposure::Auto if is_listed => {
            format!("all tools cost about {tokens} tokens, within optimizer.autoTokenBudget ({budget})")
        }
        Exposure::Auto => format!(
            "all tools cost about {tokens} tokens, more than optimizer.autoTokenBudget ({budget}); optimizer.pinnedTools \
             would list it"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_server_runs_nothing_in_the_shell_of_a_reader() {
        assert!(quarantined("jira", "create_note").contains("`vmcp tools diff -b jira -- create_note`"));
        let hostile = quarantined("jira", "--admin-url=http://evil; $(id)\u{202e}");
        assert!(
            hostile.contains("`vmcp tools diff -b jira -- '--admin-url=http://evil; $(id)'`"),
            "{hostile}"
        );
    }
}
