//! [`Policy`]: decides whether a principal may reach a target. Asked at one place, the call seam
//! (`route::call::authorize`), about the tool that will really run.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vmcp_access::policy::{CedarPolicy, ClaimsKey, DEFAULT_DENY, Kind};
use vmcp_config::Config;
use vmcp_model::catalog::{CatalogPrompt, CatalogTool};

use super::cedar::MeasuredPolicy;
use super::identity::Principal;
use super::profiles::ProfilePolicy;
use crate::metrics::Metrics;

/// One question to a policy: principal, action, resource, context.
#[derive(Debug, Clone, Copy)]
pub struct AccessRequest<'a> {
    /// The caller.
    pub principal: &'a Principal,
    /// The MCP method, e.g. `tools/call`.
    pub action: &'a str,
    /// The backend that the call would reach.
    pub backend: &'a str,
    /// The item of the backend that the call is about.
    pub item: Item<'a>,
    /// The arguments as JSON text, if the call has any.
    pub arguments: Option<&'a str>,
}

/// An item of a backend, in the catalog's spelling.
#[derive(Debug, Clone, Copy)]
pub enum Item<'a> {
    /// A tool, with its annotations and its schema hash.
    Tool(&'a Arc<CatalogTool>),
    /// A tool of vmcp's own, by its dotted name: of no backend.
    OwnTool(&'a str),
    /// A prompt.
    Prompt(&'a CatalogPrompt),
    /// A resource or a resource template, by URI.
    Resource(&'a str),
    /// A task of a backend.
    Task {
        /// The tool whose call became the task: its rights are those of the task.
        tool: &'a Arc<CatalogTool>,
        /// The backend's own id.
        id: &'a str,
    },
    /// The backend as a whole: a method of an extension.
    Backend,
}

impl<'a> Item<'a> {
    /// Returns the tool, if the item is one, or the task of one.
    pub fn tool(self) -> Option<&'a Arc<CatalogTool>> {
        match self {
            Item::Tool(tool) | Item::Task { tool, .. } => Some(tool),
            _ => None,
        }
    }

    /// Returns the kind, as policies name it; a task has that of its tool.
    pub fn kind(self) -> Kind {
        match self {
            Item::Tool(_) | Item::Task { .. } => Kind::Tool,
            Item::OwnTool(name) => Kind::of_own_tool(name),
            Item::Prompt(_) => Kind::Prompt,
            Item::Resource(_) => Kind::Resource,
            Item::Backend => Kind::Backend,
        }
    }

    /// Returns the name, as policies know it: the listed name of a tool or prompt, the URI of a resource, or
    /// the name of `backend`.
    pub fn name(self, backend: &'a str) -> &'a str {
        match self {
            Item::Tool(tool) | Item::Task { tool, .. } => &tool.name,
            Item::Prompt(prompt) => &prompt.name,
            Item::OwnTool(name) | Item::Resource(name) => name,
            Item::Backend => backend,
        }
    }

    /// Returns the backend's own name of a tool or prompt.
    pub fn original_name(self) -> Option<&'a str> {
        match self {
            Item::Tool(tool) | Item::Task { tool, .. } => Some(&tool.definition.name),
            Item::Prompt(prompt) => Some(&prompt.definition.name),
            Item::OwnTool(_) | Item::Resource(_) | Item::Backend => None,
        }
    }
}

/// Names the policy that decided, for audit lines and for operators.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PolicyId(Arc<str>);

impl PolicyId {
    /// Makes the id of a policy.
    pub fn new(id: impl Into<Arc<str>>) -> PolicyId {
        PolicyId(id.into())
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PolicyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The answer of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The call may go on.
    Allow {
        /// The policy that decided.
        policy: PolicyId,
    },
    /// The call ends here. The caller reads the answer for an unknown item; operators read the policy's id.
    Deny {
        /// The policy that decided.
        policy: PolicyId,
    },
}

/// A decision, for operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// True if the call may go on.
    pub allowed: bool,
    /// The policy that decided.
    pub policy: String,
    /// True if some call of the item could be allowed, so that lists show it.
    pub could_allow: bool,
    /// Policies that were not evaluated, with the reason.
    pub errors: Vec<String>,
    /// A policy that is only tried out, and would decide otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<String>,
}

/// Decides about calls. Runs in the request path: must not block.
pub trait Policy: fmt::Debug + Send + Sync {
    /// Decides about one call.
    fn decide(&self, request: &AccessRequest<'_>) -> Decision;

    /// Explains the decision about one call, to operators.
    fn explain(&self, request: &AccessRequest<'_>) -> Explanation {
        let (allowed, policy) = match self.decide(request) {
            Decision::Allow { policy } => (true, policy),
            Decision::Deny { policy } => (false, policy),
        };
        let rights = self.listed_rights(request.principal);
        let could_allow = rights.could_allow(request.item, request.backend);
        Explanation {
            allowed,
            policy: policy.as_str().to_owned(),
            could_allow,
            errors: Vec::new(),
            shadow: None,
        }
    }

    /// True if the arguments of a call may matter to the decision about it: they must fit the tool's schema,
    /// so that the policy judges values of the types that the tool takes.
    fn reads_arguments(&self, _: &AccessRequest<'_>) -> bool {
        false
    }

    /// Returns the digest of the policies, for audit events; empty without any.
    fn version(&self) -> Arc<str> {
        Arc::default()
    }

    /// True if clients may have different rights.
    fn restricts_some(&self) -> bool {
        false
    }

    /// True if something may be denied to this client; all others share one view.
    fn restricts(&self, _: &Principal) -> bool {
        self.restricts_some()
    }

    /// Returns the key of a client's rights: clients with the same key have the same.
    fn key(&self, _: &Principal) -> ClaimsKey {
        ClaimsKey::default()
    }

    /// Returns the rights that lists show.
    fn listed_rights<'a>(&'a self, _: &Principal) -> Box<dyn ListedRights + 'a> {
        Box::new(Everything)
    }
}

/// Rights of one identity before a call is made, with arguments that are not known yet.
pub trait ListedRights {
    /// True if some call of the item could be allowed: lists show it.
    fn could_allow(&self, item: Item<'_>, backend: &str) -> bool;
}

/// Rights without a restriction.
struct Everything;

impl ListedRights for Everything {
    fn could_allow(&self, _: Item<'_>, _: &str) -> bool {
        true
    }
}

/// Returns the policy that a configuration asks for.
pub(crate) fn configured(config: &Config, metrics: &Metrics) -> Arc<dyn Policy> {
    let policy: Arc<dyn Policy> = match &config.authz {
        Some(authz) => {
            if let Some(policy) = CedarPolicy::new(authz) {
                Arc::new(MeasuredPolicy::new(policy, metrics))
            } else {
                tracing::error!("the policies have mistakes, so every call is denied; run `vmcp validate`");
                Arc::new(DenyAll)
            }
        }
        None if admin_needs_policy(config) => Arc::new(WithoutAdmin::default()),
        None => Arc::new(AllowAll::default()),
    };
    if config.profiles.is_empty() { policy } else { Arc::new(ProfilePolicy::new(&config.profiles, policy)) }
}

/// Allows every call: the policy while no other is configured.
#[derive(Debug)]
pub struct AllowAll(PolicyId);

impl Default for AllowAll {
    fn default() -> AllowAll {
        AllowAll(PolicyId::new("allow-all"))
    }
}

impl Policy for AllowAll {
    fn decide(&self, _: &AccessRequest<'_>) -> Decision {
        Decision::Allow { policy: self.0.clone() }
    }
}

/// True if tools that change servers need a policy: they are listed, and clients have identities.
fn admin_needs_policy(config: &Config) -> bool {
    !config.incoming_auth.is_anonymous() && config.optimizer.tools.iter().any(|tool| tool.is_of_admin())
}

/// Allows every call but changes of servers.
#[derive(Debug, Default)]
struct WithoutAdmin(AllowAll);

impl Policy for WithoutAdmin {
    fn decide(&self, request: &AccessRequest<'_>) -> Decision {
        if is_admin(request.item) {
            return Decision::Deny { policy: PolicyId::new(DEFAULT_DENY) };
        }
        self.0.decide(request)
    }

    fn restricts_some(&self) -> bool {
        true
    }

    fn listed_rights<'a>(&'a self, _: &Principal) -> Box<dyn ListedRights + 'a> {
        Box::new(EverythingButAdmin)
    }
}

/// Rights to everything but changes of servers.
struct EverythingButAdmin;

impl ListedRights for EverythingButAdmin {
    fn could_allow(&self, item: Item<'_>, _: &str) -> bool {
        !is_admin(item)
    }
}

fn is_admin(item: Item<'_>) -> bool {
    item.kind() == Kind::Admin
}

/// Denies every call: the policy in place of policies with mistakes, which the check of a configuration
/// refuses.
#[derive(Debug)]
struct DenyAll;

impl Policy for DenyAll {
    fn decide(&self, _: &AccessRequest<'_>) -> Decision {
        Decision::Deny { policy: PolicyId::new(DEFAULT_DENY) }
    }

    fn restricts_some(&self) -> bool {
        true
    }

    fn listed_rights<'a>(&'a self, _: &Principal) -> Box<dyn ListedRights + 'a> {
        Box::new(Nothing)
    }
}

/// Rights to nothing.
struct Nothing;

impl ListedRights for Nothing {
    fn could_allow(&self, _: Item<'_>, _: &str) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decides about a call of add_mcp_server; also returns whether lists show it.
    fn may_add(yaml: &str, principal: &Principal) -> (bool, bool) {
        let config = crate::testing::config(yaml);
        let policy = configured(&config, &Metrics::default());
        let item = Item::OwnTool("optim.add_mcp_server");
        let request = AccessRequest { principal, action: "tools/call", backend: "", item, arguments: None };
        let allowed = matches!(policy.decide(&request), Decision::Allow { .. });
        (allowed, policy.listed_rights(principal).could_allow(item, ""))
    }

    #[test]
    fn changes_of_servers_need_a_policy_once_clients_have_identities() {
        let tools = "optimizer: { tools: [find_tool, add_mcp_server] }\n";
        let keys = "type: apiKeys, apiKeys: [{ subject: ci, key: 'k-0123456789abcdef0123456789abcdef' }]";
        let anyone = Principal::default();
        assert_eq!(may_add(tools, &anyone), (true, true));
        assert_eq!(may_add(&format!("{tools}incomingAuth: {{ {keys} }}"), &anyone), (false, false));
        for (policy, allowed) in [
            ("permit(principal, action == Action::\"call_tool\", resource);", false),
            (
                "permit(principal, action == Action::\"admin\", resource == Tool::\"optim.remove_mcp_server\");",
                false,
            ),
            ("permit(principal, action == Action::\"admin\", resource == Tool::\"add_mcp_server\");", true),
            ("permit(principal, action == Action::\"admin\", resource);", true),
        ] {
            let authz = format!("{tools}incomingAuth: {{ authz: {{ policies: ['{policy}'] }} }}");
            assert_eq!(may_add(&authz, &anyone), (allowed, allowed), "{policy}");
        }
    }

    #[test]
    fn a_client_of_a_profile_changes_no_server() {
        let yaml =
            "optimizer: { tools: [find_tool, add_mcp_server] }\nprofiles: { reader: { readOnly: true } }";
        let reader = Principal { profile: Some("reader".into()), ..Principal::default() };
        assert_eq!(may_add(yaml, &reader), (false, false));
        assert_eq!(may_add(yaml, &Principal::default()), (true, true));
    }

    #[test]
    fn policies_with_mistakes_deny_everything() {
        let config = crate::testing::config("incomingAuth: { authz: { policies: ['permit('] } }");
        let policy = configured(&config, &Metrics::default());
        let principal = Principal::default();
        let request = AccessRequest {
            principal: &principal,
            action: "tools/call",
            backend: "jira",
            item: Item::OwnTool("optim.find_tool"),
            arguments: None,
        };
        assert!(matches!(policy.decide(&request), Decision::Deny { .. }));
        assert!(!policy.listed_rights(&principal).could_allow(request.item, "jira"));
    }
}
