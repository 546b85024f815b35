//! Workloads, whatever runs in them: how their pods are built, and, in words for people, why the pods do not
//! run.

mod admin;
pub(crate) mod admin_poller;
pub(crate) mod cluster_events;
pub(crate) mod health;
pub(crate) mod pod;
pub(crate) mod pod_template;
pub(crate) mod rollout;
pub(crate) mod spec_refusal;
mod trouble;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use crate::runtime::{Change, INSTANCE_LABEL, workload_labels};

/// The label of the pods of a VirtualMCPServer with the name of its group; empty without a group.
pub(crate) const GROUP_LABEL: &str = "toolhive.stacklok.com/group";

/// Returns the resource (namespace, name) whose pod changed, if the pod is one of the workloads called
/// `name`.
pub(crate) fn workload_of_pod(change: &Change<Pod>, name: &str) -> Option<(String, String)> {
    let labels = change.object.labels();
    let instance = labels.get(INSTANCE_LABEL)?;
    let ours = workload_labels(name, instance).iter().all(|(key, value)| labels.get(key) == Some(value));
    ours.then(|| (change.object.namespace().unwrap_or_default(), instance.clone()))
}
