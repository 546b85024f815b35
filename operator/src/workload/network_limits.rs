//! NetworkPolicies of others that limit the connections of pods, by name.
//!
//! They are listed where connections fail: a dropped packet tells no cause. Of the operator's own policies,
//! none is in the way of its connections.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::ListParams;
use kube::core::{Selector, SelectorExt as _};
use kube::{Api, ResourceExt as _};
use vmcp_error_chain::error_chain;

use crate::runtime::{ChildKind, Context, OPERATOR_NAME, Verb};

/// The most NetworkPolicies of a namespace that are read.
const MAX_POLICIES: u32 = 200;
/// The most names that a message has; it counts the others.
const MAX_NAMED: usize = 3;
/// The label by which objects name their tool.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// NetworkPolicies that select pods, sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NetworkLimits {
    /// Policies that limit who may connect to the pods.
    pub ingress: Vec<String>,
    /// Policies that limit where the pods may connect to.
    pub egress: Vec<String>,
}

impl NetworkLimits {
    /// Lists the NetworkPolicies of others that select pods with these labels. Best effort: without an
    /// answer, none is named.
    pub(crate) async fn of_pods(
        context: &Context,
        namespace: &str,
        labels: &BTreeMap<String, String>,
    ) -> Self {
        let api: Api<NetworkPolicy> = Api::namespaced(context.client.clone(), namespace);
        let params = ListParams::default().limit(MAX_POLICIES);
        let listed = api.list(&params);
        match context.call(Verb::List, ChildKind::NetworkPolicy.as_str(), namespace, listed).await {
            Ok(found) => Self::among(found.items, labels),
            Err(error) => {
                tracing::debug!(namespace, error = error_chain(&error), "cannot list NetworkPolicies");
                Self::default()
            }
        }
    }

    fn among(policies: Vec<NetworkPolicy>, labels: &BTreeMap<String, String>) -> Self {
        let mut limits = Self::default();
        for policy in policies {
            let name = policy.name_any();
            let is_ours = policy.labels().get(MANAGED_BY).is_some_and(|tool| tool == OPERATOR_NAME);
            let spec = policy.spec.unwrap_or_default();
            let selector = Selector::try_from(spec.pod_selector.unwrap_or_default());
            if is_ours || !selector.is_ok_and(|selector| selector.matches(labels)) {
                continue;
            }
            // Without types, a policy is about incoming connections, and about outgoing ones if it has rules.
            let types = spec.policy_types.unwrap_or_default();
            let has =
                |kind: &str, default| types.iter().any(|of| of == kind) || (types.is_empty() && default);
            if has("Ingress", true) {
                limits.ingress.push(name.clone());
            }
            if has("Egress", spec.egress.is_some()) {
                limits.egress.push(name);
            }
        }
        limits.ingress.sort();
        limits.egress.sort();
        limits
    }
}

/// Returns the names as words: `NetworkPolicy a`, `NetworkPolicies a and 4 more`; `None` without any.
pub(crate) fn named(policies: &[String]) -> Option<String> {
    let first = policies.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
    Some(match policies.len() {
        0 => return None,
        1 => format!("NetworkPolicy {first}"),
        2..=MAX_NAMED => format!("NetworkPolicies {first}"),
        many => format!("NetworkPolicies {first} and {} more", many - MAX_NAMED),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policy(name: &str, spec: &Value, labels: &Value) -> NetworkPolicy {
        let metadata = json!({ "name": name, "labels": labels });
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).expect("a policy")
    }

    #[test]
    fn policies_that_select_the_pods_are_named_by_their_direction() {
        let of = |app: &str| json!({ "matchLabels": { "app": app } });
        let ours = json!({ "app.kubernetes.io/managed-by": "vmcp-operator" });
        let policies = vec![
            policy("b-all", &json!({ "podSelector": {}, "policyTypes": ["Ingress", "Egress"] }), &json!({})),
            policy("a-untyped", &json!({ "podSelector": of("x") }), &json!({})),
            policy("others", &json!({ "podSelector": of("y") }), &json!({})),
            policy("own", &json!({ "podSelector": of("x") }), &ours),
            policy("out", &json!({ "podSelector": of("x"), "policyTypes": ["Egress"] }), &json!({})),
        ];
        let labels = BTreeMap::from([("app".to_owned(), "x".to_owned())]);
        let limits = NetworkLimits::among(policies, &labels);
        assert_eq!(limits.ingress, ["a-untyped", "b-all"]);
        assert_eq!(limits.egress, ["b-all", "out"]);
    }

    #[test]
    fn a_message_names_a_few() {
        let names = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
        assert_eq!(named(&[]), None);
        assert_eq!(named(&names(1)).as_deref(), Some("NetworkPolicy 0"));
        assert_eq!(named(&names(3)).as_deref(), Some("NetworkPolicies 0, 1, 2"));
        assert_eq!(named(&names(5)).as_deref(), Some("NetworkPolicies 0, 1, 2 and 2 more"));
    }
}
