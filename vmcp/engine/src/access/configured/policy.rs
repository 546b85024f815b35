//! The policy that a configuration asks for: Cedar's, one of all or nothing, within profiles.

use std::sync::Arc;

use vmcp_access::policy::{CedarPolicy, DEFAULT_DENY, Kind};
use vmcp_config::Config;

use crate::access::cedar::MeasuredPolicy;
use crate::access::identity::Principal;
use crate::access::policy::{AccessRequest, AllowAll, Decision, Item, ListedRights, Policy, PolicyId};
use crate::access::profiles::ProfilePolicy;
use crate::metrics::Metrics;

/// Returns the policy that a configuration asks for.
pub(crate) fn policy(config: &Config, metrics: &Metrics) -> Arc<dyn Policy> {
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
        may_use("optim.add_mcp_server", yaml, principal)
    }

    fn may_use(own: &str, yaml: &str, principal: &Principal) -> (bool, bool) {
        let config = crate::testing::config(yaml);
        let policy = policy(&config, &Metrics::default());
        let item = Item::OwnTool(own);
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
    fn a_client_of_a_profile_without_code_mode_runs_no_script() {
        let yaml = "optimizer: { tools: [find_tool, execute_code, execute_tool_script] }\n\
                    profiles: { own: { codeMode: false }, ours: { codeMode: true }, plain: {} }";
        let of = |name: &str| Principal { profile: Some(name.into()), ..Principal::default() };
        for tool in ["optim.execute_code", "optim.execute_tool_script"] {
            assert_eq!(may_use(tool, yaml, &of("own")), (false, false), "{tool}");
            for principal in [of("ours"), of("plain"), Principal::default()] {
                assert_eq!(may_use(tool, yaml, &principal), (true, true), "{tool} {principal:?}");
            }
        }
        assert_eq!(may_use("optim.find_tool", yaml, &of("own")), (true, true));
    }

    #[test]
    fn policies_with_mistakes_deny_everything() {
        let config = crate::testing::config("incomingAuth: { authz: { policies: ['permit('] } }");
        let policy = policy(&config, &Metrics::default());
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
