//! What the workloads have in common, whatever runs in them.

pub mod admin;
pub mod health;
pub mod notices;
pub mod pod;
pub mod refusal;
pub mod trouble;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use crate::runtime::{Change, INSTANCE, labels};

/// The resource (namespace, name) whose pod changed, when the pod is one of the workloads called `name`.
pub fn owner_of(change: &Change<Pod>, name: &str) -> Option<(String, String)> {
    let instance = change.object.labels().get(INSTANCE)?;
    let ours =
        labels(name, instance).iter().all(|(key, value)| change.object.labels().get(key) == Some(value));
    ours.then(|| (change.object.namespace().unwrap_or_default(), instance.clone()))
}
