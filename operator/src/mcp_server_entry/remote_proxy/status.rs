//! Step 3 of a reconcile, status: the conditions of an MCPServerEntry, and a condition about the missing
//! proxy. Pure.

use vmcp_crds::mcp_remote_proxy::MCPRemoteProxyPhase;
use vmcp_crds::{MCPRemoteProxy, MCPRemoteProxyStatus};

use crate::mcp_server_entry::{ValidatedEntry, set_checks};
use crate::runtime::{Conditions, set_pending};

/// Computes the status. `group_exists` is `None` if no group is named.
pub(super) fn compute(
    proxy: &MCPRemoteProxy,
    validated: &ValidatedEntry,
    group_exists: Option<bool>,
) -> MCPRemoteProxyStatus {
    let generation = proxy.metadata.generation.unwrap_or_default();
    let before = proxy.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let mut conditions = Conditions::new(before, generation);
    let wrong = set_checks(&mut conditions, &proxy.spec.remote, validated, group_exists);
    let message = (!wrong.is_empty()).then(|| wrong.join(" | "));
    match &message {
        None => conditions.set(
            "Ready",
            true,
            "ConfigValid",
            "VirtualMCPServers can use it; their status says whether the server answers",
        ),
        Some(message) => {
            conditions.set("Ready", false, "ConfigInvalid", message.clone());
            conditions.set("Stalled", true, "ConfigInvalid", message.clone());
        }
    }
    conditions.set(
        "ServiceAvailable",
        false,
        "NoProxy",
        "no proxy is run and no Service is made: VirtualMCPServers connect to the server themselves, and clients connect to them",
    );
    set_pending(&mut conditions, proxy);
    MCPRemoteProxyStatus {
        phase: Some(if message.is_none() { MCPRemoteProxyPhase::Ready } else { MCPRemoteProxyPhase::Failed }),
        message,
        observed_generation: Some(generation),
        conditions: conditions.finish(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mcp_server_entry::validate;
    use crate::references::{CaBundle, ReferencedSecrets};

    #[test]
    fn fields_of_the_proxy_are_named_and_the_server_is_used() {
        let proxy = |url: &str| -> MCPRemoteProxy {
            serde_json::from_value(json!({
                "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": "MCPRemoteProxy",
                "metadata": { "name": "context7", "namespace": "n", "generation": 2 },
                "spec": { "remoteUrl": url, "proxyPort": 8080, "oidcConfigRef": { "name": "idp", "audience": "a" } },
            }))
            .unwrap()
        };
        let status = |url: &str| {
            let proxy = proxy(url);
            let validated = validate(&proxy.as_entry(), &ReferencedSecrets::default(), &CaBundle::default());
            compute(&proxy, &validated, Some(true))
        };
        let used = status("https://mcp.example.com/mcp");
        assert_eq!((used.phase, used.message), (Some(MCPRemoteProxyPhase::Ready), None));
        let message = |kind: &str| {
            let found = used.conditions.iter().find(|condition| condition.type_ == kind);
            found.map(|condition| condition.message.clone()).unwrap_or_default()
        };
        assert!(message("FieldsPending").contains("spec.proxyPort"), "{}", message("FieldsPending"));
        assert!(message("FieldsPending").contains("spec.oidcConfigRef"), "{}", message("FieldsPending"));
        assert!(message("ServiceAvailable").contains("no Service"), "{}", message("ServiceAvailable"));
        let refused = status("http://169.254.169.254/mcp");
        assert_eq!(refused.phase, Some(MCPRemoteProxyPhase::Failed));
        assert!(refused.message.unwrap().contains("link-local"));
    }
}
