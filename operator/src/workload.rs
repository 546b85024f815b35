//! Workloads, whatever runs in them: how their pods are built, and, in words for people, why the pods do not
//! run.

mod admin;
pub(crate) mod admin_poller;
pub(crate) mod cluster_events;
pub(crate) mod health;
pub(crate) mod pod;
pub(crate) mod pod_template;
mod reconcile_error;
pub(crate) mod rollout;
pub(crate) mod spec_refusal;
mod trouble;

use std::sync::Arc;

pub(crate) use self::reconcile_error::ReconcileError;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use vmcp_crds::fields::references::bounded_name;

use crate::runtime::{Change, INSTANCE_LABEL, controller_of, workload_labels};

/// The label of the pods of a VirtualMCPServer with the name of its group; empty without a group.
pub(crate) const GROUP_LABEL: &str = "toolhive.stacklok.com/group";

/// Returns the value of [`GROUP_LABEL`] for a group: its name, or the beginning of a longer one with a
/// digest.
pub(crate) fn group_label(group: &str) -> String {
    bounded_name(group)
}

/// Returns the resource (namespace, name) whose pod changed, if the pod is one of the workloads called
/// `name`.
pub(crate) fn workload_of_pod(change: &Change<Pod>, name: &str) -> Option<(String, String)> {
    let labels = change.object.labels();
    let instance = labels.get(INSTANCE_LABEL)?;
    let ours = workload_labels(name, instance).iter().all(|(key, value)| labels.get(key) == Some(value));
    ours.then(|| (change.object.namespace().unwrap_or_default(), instance.clone()))
}

/// Returns the labels of a workload's pods as one string, which a scale subresource needs.
pub(crate) fn pod_selector(workload: &str, name: &str) -> String {
    let labels = workload_labels(workload, name);
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// Label that the controller of Deployments gives to pods: the suffix of their ReplicaSet's name.
const POD_TEMPLATE_HASH_LABEL: &str = "pod-template-hash";

/// Returns the pods whose controller is a ReplicaSet of the Deployment. Labels alone prove
/// nothing: authors of pods choose their labels, and the operator sends the admin token to these pods.
pub(crate) fn of_deployment(mut pods: Vec<Arc<Pod>>, deployment: &str) -> Vec<Arc<Pod>> {
    pods.retain(|pod| {
        let Some(hash) = pod.labels().get(POD_TEMPLATE_HASH_LABEL) else { return false };
        controller_of(&pod.metadata).is_some_and(|owner| {
            owner.kind == "ReplicaSet"
                && owner.api_version.starts_with("apps/")
                && owner.name.strip_prefix(deployment).and_then(|rest| rest.strip_prefix('-')) == Some(hash)
        })
    });
    pods
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(labels: &Value, owners: &Value) -> Arc<Pod> {
        let metadata = json!({ "name": "p", "namespace": "n", "labels": labels, "ownerReferences": owners });
        Arc::new(serde_json::from_value(json!({ "metadata": metadata })).unwrap())
    }

    #[test]
    fn a_pod_with_the_labels_alone_belongs_to_nobody() {
        let owner = |kind: &str, name: &str, controller: bool| json!([{ "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": controller }]);
        let hash = json!({ "pod-template-hash": "5d4f" });
        let belongs = |pod: Arc<Pod>| !of_deployment(vec![pod], "tools").is_empty();
        assert!(belongs(pod(&hash, &owner("ReplicaSet", "tools-5d4f", true))));
        assert!(!belongs(pod(&json!({ "app.kubernetes.io/instance": "tools" }), &json!([]))));
        assert!(!belongs(pod(&hash, &json!([]))));
        for (kind, name, controller) in [
            ("ReplicaSet", "tools-5d4f", false),
            ("ReplicaSet", "others-5d4f", true),
            ("ReplicaSet", "tools-more-5d4f", true),
            ("ReplicaSet", "tools-77aa", true),
            ("StatefulSet", "tools-5d4f", true),
        ] {
            assert!(!belongs(pod(&hash, &owner(kind, name, controller))), "{kind} {name}");
        }
    }
}
