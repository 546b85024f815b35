//! Parses the texts of policies: every mistake with its text's number, line and column.

use std::collections::HashSet;

use cedar_policy::{ActionConstraint, Policy, PolicyId, PolicySet};
use miette::Diagnostic;

use crate::problems::nearest::nearest;
use crate::problems::{self, Report};

/// Actions that calls ask about: entities `Action::"…"`.
const ACTIONS: [&str; 4] = ["call_tool", "get_prompt", "read_resource", "use_backend"];

/// Parses all texts; `None` if one has a mistake, after all mistakes were reported.
pub(super) fn parse(texts: &[String], path: &str, report: &mut Report) -> Option<PolicySet> {
    let (mut all, mut ids, mut failed) = (PolicySet::new(), HashSet::new(), false);
    for (number, text) in texts.iter().enumerate() {
        let path = problems::item(path, number);
        if report.is_dropped(&path) {
            continue;
        }
        for policy in policies(text, number, &path, report).unwrap_or_else(|| {
            failed = true;
            Vec::new()
        }) {
            warn_of_actions(&policy, &path, report);
            if policy.annotation("enforce").is_some_and(|enforce| !["true", "false"].contains(&enforce)) {
                report.problem(&path, "`@enforce` is neither \"true\" nor \"false\"", "write one of the two");
                failed = true;
            }
            let id = policy.id().to_string();
            if !ids.insert(id.clone()) || all.add(policy).is_err() {
                report.problem(&path, format!("the id `{id}` is taken"), "give each policy its own `@id`");
                failed = true;
            }
        }
    }
    (!failed).then_some(all)
}

/// Parses one text; reports why it cannot be used.
fn policies(text: &str, number: usize, path: &str, report: &mut Report) -> Option<Vec<Policy>> {
    let set: PolicySet = match text.parse() {
        Ok(set) => set,
        Err(error) => {
            let error: &dyn Diagnostic = &error;
            let (message, remedy) = (located(error, text), error.help().map(|help| help.to_string()));
            let usual = "see https://docs.cedarpolicy.com/policies/syntax-policy.html";
            report.problem(path, message, remedy.as_deref().unwrap_or(usual));
            return None;
        }
    };
    if set.templates().next().is_some() {
        report.problem(path, "is a template, which nothing links", "write the entity in place of the slot");
        return None;
    }
    let mut policies: Vec<Policy> = set.policies().cloned().collect();
    if policies.is_empty() {
        report.problem(path, "holds no policy", "remove it, or write one");
        return None;
    }
    // Cedar numbers them in the order of the text: `policy0`, `policy1`, …
    policies.sort_by_key(|policy| position(policy.id()));
    let rename = |(position, policy): (usize, &Policy)| {
        let id = match (policy.annotation("id"), position) {
            (Some(id), _) if !id.is_empty() => id.to_owned(),
            (_, 0) => format!("policy{number}"),
            (_, position) => format!("policy{number}.{position}"),
        };
        policy.new_id(PolicyId::new(id))
    };
    Some(policies.iter().enumerate().map(rename).collect())
}

/// Returns the number in an id that Cedar gave.
fn position(id: &PolicyId) -> usize {
    let id: &str = id.as_ref();
    id.trim_start_matches("policy").parse().unwrap_or_default()
}

/// Writes a syntax error with its place in the text.
fn located(error: &dyn Diagnostic, text: &str) -> String {
    let label = error.labels().and_then(|mut labels| labels.next());
    let Some(label) = label else { return error.to_string() };
    let before = text.get(..label.offset()).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, column {column}: {error}")
}

/// Warns of actions that no call has: the policy would say nothing, and by default all is denied.
fn warn_of_actions(policy: &Policy, path: &str, report: &mut Report) {
    let actions = match policy.action_constraint() {
        ActionConstraint::Any => return,
        ActionConstraint::Eq(action) => vec![action],
        ActionConstraint::In(actions) => actions,
    };
    let known = |name: &str| ACTIONS.contains(&name);
    for action in actions {
        let (kind, name) = (action.type_name().to_string(), action.id().unescaped().to_owned());
        // Lists have no action here: they show what may be called, so a policy about them is not needed.
        if (kind == "Action" && known(&name)) || name.starts_with("list_") {
            continue;
        }
        let remedy = match nearest(&name, ACTIONS) {
            Some(near) => format!("write `Action::\"{near}\"`"),
            None => format!("actions are {}", ACTIONS.map(|name| format!("`Action::\"{name}\"`")).join(", ")),
        };
        report.warn(path, format!("`{action}` matches no call"), remedy);
    }
}
