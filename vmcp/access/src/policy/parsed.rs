//! Parses the texts of policies and entities: every mistake with its text's number, line and column.

use std::collections::HashSet;
use std::sync::Arc;

use cedar_policy::{ActionConstraint, Entities, EntityTypeName, Policy, PolicyId, PolicySet};
use miette::Diagnostic;
use vmcp_config::{Authz, Finding, Problem, nearest};

/// Path of the section.
const PATH: &str = "incomingAuth.authz";
/// Entity type of clients.
const CLIENT_TYPE: &str = "Client";
/// Actions that calls ask about: entities `Action::"…"`.
const ACTIONS: [&str; 5] = ["call_tool", "get_prompt", "read_resource", "use_backend", "admin"];

/// Policies and entities, parsed, with their settings.
#[derive(Debug)]
pub(super) struct ParsedPolicies {
    /// The settings.
    pub settings: Arc<Authz>,
    /// The policies, by id: `policy0` for the first text, `policy0.1` for the second policy in it.
    pub policies: PolicySet,
    /// Entities that policies refer to, such as a hierarchy of groups.
    pub entities: Entities,
    /// Entity type of clients.
    pub client_type: EntityTypeName,
    /// Entity type of groups and roles.
    pub group_type: EntityTypeName,
}

impl ParsedPolicies {
    /// Parses everything; `None` if something has a mistake. Adds each mistake and warning to the findings.
    pub(super) fn parse(authz: &Arc<Authz>, findings: &mut Vec<Finding>) -> Option<ParsedPolicies> {
        let policies = policy_set(&authz.policies, findings);
        let entities = Entities::from_json_str(&authz.entities_json, None).map_err(|error| {
            let message = format!("not readable as Cedar entities: {error}");
            let remedy = r#"write a list like `[{"uid": {"type": "THVGroup", "id": "dev"}, "attrs": {}, "parents": []}]`"#;
            findings.push(mistake(format!("{PATH}.entitiesJson"), message, remedy));
        });
        let group_type = authz.group_entity_type.parse().map_err(|_| {
            let path = format!("{PATH}.groupEntityType");
            let problem = Problem::new(path, "is no Cedar entity type", "write a word such as `THVGroup`");
            findings.push(Finding::Value(problem));
        });
        Some(ParsedPolicies {
            policies: policies?,
            entities: entities.ok()?,
            settings: Arc::clone(authz),
            client_type: CLIENT_TYPE.parse().ok()?,
            group_type: group_type.ok()?,
        })
    }
}

/// Returns the mistakes of policies, and warnings about them, by their path in `vmcp.yaml`.
pub fn findings(authz: &Authz) -> Vec<Finding> {
    let mut findings = Vec::new();
    ParsedPolicies::parse(&Arc::new(authz.clone()), &mut findings);
    findings
}

fn mistake(path: impl Into<String>, message: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding::Mistake(Problem::new(path, message, remedy))
}

/// Parses all texts; `None` if one has a mistake.
fn policy_set(texts: &[String], findings: &mut Vec<Finding>) -> Option<PolicySet> {
    let (mut all, mut ids, mut failed) = (PolicySet::new(), HashSet::new(), false);
    for (number, text) in texts.iter().enumerate() {
        let path = format!("{PATH}.policies[{number}]");
        for policy in policies(text, number, &path).unwrap_or_else(|finding| {
            findings.push(finding);
            failed = true;
            Vec::new()
        }) {
            findings.extend(warnings_of_actions(&policy, &path));
            if policy.annotation("enforce").is_some_and(|enforce| !["true", "false"].contains(&enforce)) {
                findings.push(mistake(
                    &path,
                    "`@enforce` is neither \"true\" nor \"false\"",
                    "write one of the two",
                ));
                failed = true;
            }
            let id = policy.id().to_string();
            if !ids.insert(id.clone()) || all.add(policy).is_err() {
                findings.push(mistake(
                    &path,
                    format!("the id `{id}` is taken"),
                    "give each policy its own `@id`",
                ));
                failed = true;
            }
        }
    }
    (!failed).then_some(all)
}

/// Parses one text; the error says why it cannot be used.
fn policies(text: &str, number: usize, path: &str) -> Result<Vec<Policy>, Finding> {
    let set: PolicySet = match text.parse() {
        Ok(set) => set,
        Err(error) => {
            let error: &dyn Diagnostic = &error;
            let (message, remedy) = (located(error, text), error.help().map(|help| help.to_string()));
            let usual = "see https://docs.cedarpolicy.com/policies/syntax-policy.html";
            return Err(mistake(path, message, remedy.as_deref().unwrap_or(usual)));
        }
    };
    if set.templates().next().is_some() {
        return Err(mistake(
            path,
            "is a template, which nothing links",
            "write the entity in place of the slot",
        ));
    }
    let mut policies: Vec<Policy> = set.policies().cloned().collect();
    if policies.is_empty() {
        return Err(mistake(path, "holds no policy", "remove it, or write one"));
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
    Ok(policies.iter().enumerate().map(rename).collect())
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

/// Returns a warning for each action that no call has: the policy would say nothing, and by default all is
/// denied.
fn warnings_of_actions(policy: &Policy, path: &str) -> Vec<Finding> {
    let actions = match policy.action_constraint() {
        ActionConstraint::Any => Vec::new(),
        ActionConstraint::Eq(action) => vec![action],
        ActionConstraint::In(actions) => actions,
    };
    let known = |name: &str| ACTIONS.contains(&name);
    let warning = |action: cedar_policy::EntityUid| {
        let (kind, name) = (action.type_name().to_string(), action.id().unescaped().to_owned());
        // Lists have no action here: they show what may be called, so a policy about them is not needed.
        if (kind == "Action" && known(&name)) || name.starts_with("list_") {
            return None;
        }
        let remedy = match nearest(&name, ACTIONS) {
            Some(near) => format!("write `Action::\"{near}\"`"),
            None => format!("actions are {}", ACTIONS.map(|name| format!("`Action::\"{name}\"`")).join(", ")),
        };
        Some(Finding::Warning(Problem::new(path, format!("`{action}` matches no call"), remedy)))
    };
    actions.into_iter().filter_map(warning).collect()
}

#[cfg(test)]
mod tests {
    use vmcp_config::{Loaded, Problems, ReferenceSources, load_from};

    use super::*;

    fn with(authz: &str) -> Result<Loaded, Problems> {
        let text = format!("incomingAuth:\n  authz:\n{authz}\n");
        let none = &|_: &str| Ok(None);
        let sources =
            ReferenceSources { variables: &|_| None, settings: &|_| None, files: none, secrets: none };
        load_from(&text, "vmcp.yaml", sources, &crate::findings)
    }

    #[test]
    fn policies_are_numbered_and_named() {
        let loaded = with(
            "    policies:\n    - permit(principal, action, resource);\n    - |\n      @id(\"no-drop\")\n      forbid(principal, action, resource == Tool::\"db_drop\");\n      permit(principal, action, resource);",
        );
        let authz = loaded.unwrap().config.authz.unwrap();
        let parsed = ParsedPolicies::parse(&authz, &mut Vec::new()).unwrap();
        let mut ids: Vec<_> = parsed.policies.policies().map(|policy| policy.id().to_string()).collect();
        ids.sort_unstable();
        assert_eq!(ids, ["no-drop", "policy0", "policy1.1"]);
        assert_eq!(parsed.group_type.to_string(), "THVGroup");
    }

    #[test]
    fn a_policy_that_does_not_parse_is_told_by_number_line_and_column() {
        let problems = with(
            "    policies:\n    - permit(principal, action, resource);\n    - |\n      permit(principal, action, resource)\n      when { principal.claim_role = \"admin\" };",
        );
        let problems = problems.unwrap_err().to_string();
        let place = "vmcp.yaml:6: incomingAuth.authz.policies[1]: line 2, column 8: ";
        assert!(problems.starts_with(place), "{problems}");
        let twice = with(
            "    policies:\n    - '@id(\"a\") permit(principal, action, resource);'\n    - '@id(\"a\") forbid(principal, action, resource);'",
        );
        let twice = twice.unwrap_err().to_string();
        assert!(twice.contains("policies[1]: the id `a` is taken"), "{twice}");
        let slot = with("    policies: ['permit(principal == ?principal, action, resource);']");
        assert!(slot.unwrap_err().to_string().contains("template"));
        for (authz, message) in [
            (
                "    policies: ['permit(principal, action, resource);']\n    groupEntityType: 'a b'",
                "no Cedar entity type",
            ),
            (
                "    policies: ['permit(principal, action, resource);']\n    entitiesJson: '{'",
                "not readable as Cedar entities",
            ),
            ("    policies: [' ']", "policies[0]: holds no policy"),
        ] {
            let problems = with(authz).unwrap_err().to_string();
            assert!(problems.contains(message), "{authz}: {problems}");
        }
    }

    #[test]
    fn an_action_that_is_never_asked_about_is_warned_of() {
        let warned = |action: &str| {
            let authz =
                format!("    policies: ['permit(principal, action == Action::\"{action}\", resource);']");
            let warnings = with(&authz).unwrap().warnings;
            warnings.iter().any(|warning| warning.message.contains("matches no call"))
        };
        assert!(warned("tools/call"));
        assert!(!warned("call_tool"));
    }
}
