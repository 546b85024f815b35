//! [`CaseFile`]: expectations about policies, which `vmcp authz test` checks without any backend.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::question::{Attribute, Kind, Question};
use super::{CedarPolicy, Verdict};
use crate::identity::Identity;

/// Hints of a tool that a case may set.
const HINTS: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

/// The cases of one file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseFile {
    /// The cases.
    pub cases: Vec<Case>,
}

/// One call, and the decision that is expected about it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Case {
    /// Name of the case, for the report.
    pub name: Option<String>,
    /// Claims of the client's token, with `sub` and perhaps `iss`; absent: a client without credentials.
    pub client: Option<Map<String, Value>>,
    /// Listed name of a tool.
    pub tool: Option<String>,
    /// Listed name of a prompt.
    pub prompt: Option<String>,
    /// URI of a resource.
    pub resource: Option<String>,
    /// Backend of the item. Default: the configured backend whose name, with `_`, begins the item's.
    pub backend: Option<String>,
    /// Hints of the tool.
    pub hints: Map<String, Value>,
    /// Arguments of the call: an object, or its JSON as a text, which keeps each digit.
    pub arguments: Option<Value>,
    /// The decision.
    pub expect: Option<Expected>,
    /// Id of the policy that decides.
    pub policy: Option<String>,
    /// True if lists show the item.
    pub listed: Option<bool>,
}

/// An expected decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Expected {
    /// The call may go on.
    Allow,
    /// The call is refused.
    Deny,
}

/// The decision about a case, and how it differs from the expected one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseResult {
    /// The decision in force.
    pub verdict: Verdict,
    /// Differences; none if the case holds.
    pub differences: Vec<String>,
}

impl Case {
    /// Returns the name of the case, or the item that it is about.
    pub fn title(&self) -> String {
        let item = || self.tool.as_ref().or(self.prompt.as_ref()).or(self.resource.as_ref());
        self.name.as_ref().or_else(item).cloned().unwrap_or_default()
    }

    /// Decides about the case. `backends`: names of the configured backends. The error says what the case
    /// lacks.
    pub fn run<'a>(
        &self,
        policy: &CedarPolicy,
        backends: impl Iterator<Item = &'a str>,
    ) -> Result<CaseResult, String> {
        let (kind, name) = self.item()?;
        let expect = self.expect.ok_or("write `expect: allow` or `expect: deny`")?;
        let is_own = kind == Kind::Tool && (name.starts_with("optim.") || name.starts_with("optim_"));
        let backend = match &self.backend {
            _ if is_own => None,
            Some(backend) => Some(backend.as_str()),
            None => {
                let owns =
                    |backend: &&str| name.strip_prefix(*backend).is_some_and(|rest| rest.starts_with('_'));
                let owner = backends.filter(owns).max_by_key(|backend| backend.len());
                Some(owner.ok_or("no configured backend has an item of this name: write `backend: NAME`")?)
            }
        };
        let mut attributes = Vec::new();
        for (hint, value) in &self.hints {
            let known = HINTS.iter().find(|known| *known == hint);
            match (known, value.as_bool()) {
                (Some(hint), Some(flag)) => attributes.push((*hint, Attribute::Flag(flag))),
                _ => return Err(format!("`hints` has {}, each true or false", HINTS.join(", "))),
            }
        }
        let arguments = self.arguments.as_ref().map(|arguments| match arguments {
            Value::String(json) => json.clone(),
            other => other.to_string(),
        });
        let name =
            if is_own { &name.replacen('_', ".", usize::from(name.starts_with("optim_"))) } else { name };
        let kind = if is_own { Kind::of_own_tool(name) } else { kind };
        let question = Question { kind, name, backend, attributes, arguments: arguments.as_deref() };
        let subject = policy.subject(&self.identity()?);
        let verdict = policy.decide(&subject, &question);
        let mut differences = Vec::new();
        if verdict.allowed != (expect == Expected::Allow) {
            let (wanted, is) = if verdict.allowed { ("denied", "allowed") } else { ("allowed", "denied") };
            differences.push(format!("expected to be {wanted}, is {is} by `{}`", verdict.policy));
        }
        if let Some(wanted) = self.policy.as_ref().filter(|wanted| **wanted != verdict.policy) {
            differences.push(format!("expected to be decided by `{wanted}`, is by `{}`", verdict.policy));
        }
        let listed = policy.could_allow(&subject, &question);
        if let Some(wanted) = self.listed.filter(|wanted| *wanted != listed) {
            let word = |listed| if listed { "listed" } else { "not listed" };
            differences.push(format!("expected to be {}, is {}", word(wanted), word(listed)));
        }
        Ok(CaseResult { verdict, differences })
    }

    fn item(&self) -> Result<(Kind, &String), String> {
        let items =
            [(Kind::Tool, &self.tool), (Kind::Prompt, &self.prompt), (Kind::Resource, &self.resource)];
        let mut named = items.into_iter().filter_map(|(kind, name)| Some((kind, name.as_ref()?)));
        match (named.next(), named.next()) {
            (Some(item), None) => Ok(item),
            _ => Err("write one of `tool`, `prompt` and `resource`".to_owned()),
        }
    }

    fn identity(&self) -> Result<Identity, String> {
        let Some(claims) = &self.client else { return Ok(Identity::Anonymous) };
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let subject = text("sub").ok_or("`client` has no `sub`, which names the client")?;
        Ok(Identity::known(text("iss").unwrap_or_default(), subject, claims.clone(), None))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use std::sync::Arc;
    use vmcp_config::load;

    use super::*;

    fn run(case: Value) -> Result<CaseResult, String> {
        let config = json!({"incomingAuth": {"authz": {"policies": [
            r#"@id("reads") permit(principal in THVGroup::"dev", action, resource in Backend::"fs") when { resource has readOnlyHint && resource.readOnlyHint };"#,
            r#"@id("small") permit(principal, action, resource == Tool::"pay_send") when { context.arg_n_long < 3 };"#,
            r#"@id("no-calls") forbid(principal == Client::"eve", action, resource == Tool::"call_tool");"#,
        ]}}});
        let loaded = load(&config.to_string(), "vmcp.yaml", &|_| None).unwrap();
        let policy = CedarPolicy::new(&Arc::new((*loaded.config.authz.unwrap()).clone())).unwrap();
        let case: Case = serde_json::from_value(case).map_err(|error| error.to_string())?;
        case.run(&policy, ["fs", "pay"].into_iter())
    }

    #[test]
    fn a_case_holds_or_tells_the_difference() {
        let dev = json!({"sub": "ann", "groups": ["dev"]});
        for case in [
            json!({"client": dev, "tool": "fs_read", "hints": {"readOnlyHint": true}, "expect": "allow", "policy": "reads", "listed": true}),
            json!({"client": dev, "tool": "fs_write", "expect": "deny", "policy": "default-deny", "listed": false}),
            json!({"tool": "pay_send", "arguments": {"n": 2}, "expect": "allow"}),
            json!({"tool": "pay_send", "arguments": "{\"n\": 9223372036854775807}", "expect": "deny", "listed": true}),
            json!({"client": {"sub": "eve"}, "tool": "optim_call_tool", "expect": "deny", "policy": "no-calls"}),
            json!({"client": dev, "tool": "optim.find_tool", "expect": "allow"}),
            json!({"resource": "file:///x", "backend": "fs", "expect": "deny"}),
        ] {
            assert_eq!(run(case.clone()).map(|result| result.differences), Ok(Vec::new()), "{case}");
        }
        let wrong = run(json!({"tool": "pay_send", "expect": "allow", "listed": false})).unwrap();
        assert_eq!(wrong.differences.len(), 2, "{wrong:?}");
        for (case, message) in [
            (json!({"tool": "pay_send"}), "expect"),
            (json!({"expect": "deny"}), "write one of"),
            (json!({"tool": "a", "prompt": "b", "expect": "deny"}), "write one of"),
            (json!({"tool": "other_x", "expect": "deny"}), "backend: NAME"),
            (json!({"tool": "fs_x", "client": {}, "expect": "deny"}), "no `sub`"),
            (json!({"tool": "fs_x", "hints": {"x": true}, "expect": "deny"}), "readOnlyHint"),
            (json!({"tool": "fs_x", "expects": "deny"}), "unknown field"),
        ] {
            assert!(run(case.clone()).unwrap_err().contains(message), "{case}");
        }
    }
}
