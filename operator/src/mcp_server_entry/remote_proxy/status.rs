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

    fn status(spec: &serde_json::Value, annotations: &serde_json::Value) -> MCPRemoteProxyStatus {
        let proxy: MCPRemoteProxy = serde_json::from_value(json!({
            "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": "MCPRemoteProxy",
            "metadata": { "name": "context7", "namespace": "n", "generation": 2, "annotations": annotations },
            "spec": spec,
        }))
        .unwrap();
        let validated = validate(&proxy.as_entry(), &ReferencedSecrets::default(), &CaBundle::default());
        compute(&proxy, &validated, Some(true))
    }

    fn message(status: &MCPRemoteProxyStatus, kind: &str) -> String {
        let found = status.conditions.iter().find(|condition| condition.type_ == kind);
        found.map(|condition| condition.message.clone()).unwrap_or_default()
    }

    const URL: &str = "https://mcp.example.com/mcp";

    #[test]
    fn fields_of_the_proxy_are_named_and_the_server_is_used() {
        let used = status(
            &json!({ "remoteUrl": URL, "proxyPort": 9090, "sessionAffinity": "ClientIP" }),
            &json!({}),
        );
        assert_eq!((used.phase, &used.message), (Some(MCPRemoteProxyPhase::Ready), &None));
        let pending = message(&used, "FieldsPending");
        assert!(pending.contains("spec.proxyPort") && !pending.contains("sessionAffinity"), "{pending}");
        assert!(message(&used, "ServiceAvailable").contains("no Service"));
        let refused = status(&json!({ "remoteUrl": "http://169.254.169.254/mcp" }), &json!({}));
        assert_eq!(refused.phase, Some(MCPRemoteProxyPhase::Failed));
        assert!(refused.message.unwrap().contains("link-local"));
    }

    #[test]
    fn a_guard_of_the_proxy_refuses_it_whatever_the_annotation_says() {
        let ignore = json!({ "toolhive.stacklok.com/unfollowed-fields": "ignore" });
        let guarded = json!({ "remoteUrl": URL, "oidcConfigRef": { "name": "idp", "audience": "a" } });
        let shaped = json!({ "remoteUrl": URL, "serviceAccount": "a" });
        for (spec, annotations, phase) in [
            (&guarded, json!({}), MCPRemoteProxyPhase::Failed),
            (&guarded, ignore.clone(), MCPRemoteProxyPhase::Failed),
            (&shaped, json!({}), MCPRemoteProxyPhase::Failed),
            (&shaped, ignore, MCPRemoteProxyPhase::Ready),
        ] {
            let status = status(spec, &annotations);
            assert_eq!(status.phase, Some(phase), "{spec} {annotations}: {:?}", status.message);
        }
    }
}
