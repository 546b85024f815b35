//! `incomingAuth.toolScopes`: OAuth scopes that calls of tools need.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::oidc::check_scopes;
use super::tool_filter::ToolFilter;
use crate::problems::{self, Report};
use crate::rules::RESERVED_NAMES;
use crate::sections::aggregation;

/// Path of the section.
const PATH: &str = "incomingAuth.toolScopes";
/// Most rules: each call is compared to all of them.
const MAX_RULES: usize = 1000;

/// Scopes that calls of tools need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolScopes(Vec<ToolScopeRule>);

/// Scopes that calls of some tools need.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ToolScopeRule {
    filter: ToolFilter,
    scopes: Vec<String>,
}

/// Scopes that calls of some tools need.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ToolScope")]
pub struct RawToolScope {
    /// Listed names of tools; `*` stands for any characters. With `backends`, also the names that the
    /// backends themselves use. Default: every tool of the backends.
    pub tools: Vec<String>,
    /// Backends whose tools are meant. Default: all. One of `tools` and `backends` is required.
    pub backends: Vec<String>,
    /// Required. Scopes that a token must have (claims `scope`, `scp`) for a call of one of these tools.
    pub scopes: Vec<String>,
}

impl ToolScopes {
    /// Returns true if no tool needs a scope.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the scopes that a call of a tool needs, each once: `name` is the listed name, `own_name` the
    /// backend's. The scopes of all rules that mean the tool add up.
    pub fn needed(&self, backend: &str, name: &str, own_name: &str) -> Vec<&str> {
        let mut needed = Vec::new();
        for rule in self.0.iter().filter(|rule| rule.filter.means(backend, name, own_name)) {
            add(&mut needed, &rule.scopes);
        }
        needed
    }

    /// Returns the scopes of all rules, each once.
    pub fn all(&self) -> Vec<&str> {
        let mut all = Vec::new();
        self.0.iter().for_each(|rule| add(&mut all, &rule.scopes));
        all
    }
}

fn add<'a>(all: &mut Vec<&'a str>, scopes: &'a [String]) {
    for scope in scopes {
        if !all.contains(&scope.as_str()) {
            all.push(scope);
        }
    }
}

/// `backends`: names of the configured backends; `has_tokens`: clients may present tokens.
pub(super) fn validate(
    rules: &[RawToolScope],
    backends: &BTreeSet<&str>,
    has_tokens: bool,
    report: &mut Report,
) -> ToolScopes {
    if rules.len() > MAX_RULES {
        let message = format!("{} rules, and at most {MAX_RULES} are compared to each call", rules.len());
        report.problem(PATH, message, "let one rule name several tools, or use patterns");
    }
    if !rules.is_empty() && !has_tokens {
        report.problem(
            PATH,
            "no client has scopes: tokens are not accepted",
            "set `incomingAuth.type: oidc` with an issuer, or remove the rules",
        );
    }
    let rule = |(index, raw): (usize, &RawToolScope)| {
        raw.check(&problems::item(PATH, index), backends, report);
        ToolScopeRule { filter: ToolFilter::new(&raw.tools, &raw.backends), scopes: raw.scopes.clone() }
    };
    ToolScopes(rules.iter().enumerate().map(rule).collect())
}

impl RawToolScope {
    fn check(&self, path: &str, backends: &BTreeSet<&str>, report: &mut Report) {
        let at = |key: &str| problems::key(path, key);
        if self.tools.is_empty() && self.backends.is_empty() {
            report.problem(path, "names no tool", "add `tools` or `backends`; `tools: ['*']` means all");
        }
        for (index, pattern) in self.tools.iter().enumerate() {
            let [own, _] = RESERVED_NAMES;
            let rest = pattern.strip_prefix(own).unwrap_or_default();
            if rest.starts_with(['.', '_']) {
                let message = format!("`{pattern}` is a tool of vmcp itself, which needs no scopes");
                let remedy = "name the tools that `call_tool` leads to: their scopes are asked about";
                report.problem(&problems::item(&at("tools"), index), message, remedy);
            }
        }
        for (index, name) in self.backends.iter().enumerate() {
            aggregation::check_backend(name, &problems::item(&at("backends"), index), backends, report);
        }
        if self.scopes.is_empty() {
            report.problem(&at("scopes"), "missing", "list the scopes that these tools need");
        }
        check_scopes(&self.scopes, &at("scopes"), report);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Loaded, Problems, load};

    fn with(rules: &str) -> Result<Loaded, Problems> {
        let text = format!(
            "backends: [{{ name: github, url: 'http://127.0.0.1:1/' }}, {{ name: jira, url: 'http://127.0.0.1:2/' }}]\n\
             incomingAuth:\n  type: oidc\n  oidc: {{ issuer: https://idp.example, audience: a }}\n  \
             toolScopes: {rules}\n"
        );
        load(&text, "vmcp.yaml", &|_| None)
    }

    #[test]
    fn scopes_of_all_rules_that_mean_a_tool_add_up() {
        let rules = "[{ tools: ['github_*', pay], scopes: [read] }, { backends: [jira], scopes: [jira] }, \
                     { backends: [jira, github], tools: ['delete_*'], scopes: [read, write] }]";
        let scopes = with(rules).unwrap().config.incoming_auth.tool_scopes;
        for (backend, name, own, needed) in [
            ("github", "github_search", "search", &["read"][..]),
            ("github", "github_delete_repo", "delete_repo", &["read", "write"]),
            ("jira", "jira_delete_issue", "delete_issue", &["jira", "read", "write"]),
            ("other", "delete_it", "delete_it", &[]),
            ("other", "pay", "charge", &["read"]),
            ("other", "charge", "pay", &[]),
        ] {
            assert_eq!(scopes.needed(backend, name, own), needed, "{name}");
        }
        assert_eq!(scopes.all(), ["read", "jira", "write"]);
    }

    #[test]
    fn a_rule_that_protects_nothing_is_a_mistake() {
        for (rules, message) in [
            ("[{ scopes: [a] }]", "toolScopes[0]: names no tool"),
            ("[{ tools: ['*'] }]", "scopes: missing"),
            ("[{ tools: ['*'], scopes: ['a b'] }]", "`a b` is not a scope"),
            ("[{ backends: [gitub], scopes: [a] }]", "no backend is named `gitub`"),
            ("[{ tools: ['optim.find_tool'], scopes: [a] }]", "is a tool of vmcp itself"),
        ] {
            let problems = with(rules).unwrap_err().to_string();
            assert!(problems.contains(message), "{rules}: {problems}");
        }
        let anonymous = "incomingAuth: { toolScopes: [{ tools: ['*'], scopes: [a] }] }";
        let problems = load(anonymous, "vmcp.yaml", &|_| None).unwrap_err().to_string();
        assert!(problems.contains("no client has scopes"), "{problems}");
    }
}
