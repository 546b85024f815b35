//! Labels and names of children: how an object is marked as made by this operator, and for which resource.
//!
//! `managed-by` selects watched objects, `instance` names the resource, `name` tells the kinds of workloads
//! apart. The owner reference, not a label, decides whose child an object is.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;

/// The label by which children are watched; its value is [`OPERATOR_NAME`].
pub(crate) const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// The operator's name in labels, events and its Lease.
pub(crate) const OPERATOR_NAME: &str = "vmcp-operator";
/// The label that names the resource a child was made for.
pub(crate) const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";
/// The label that tells the kinds of workloads apart.
const NAME_LABEL: &str = "app.kubernetes.io/name";

/// Returns the labels of a workload's objects, which are also the selector of its pods.
///
/// `name` is the program (`vmcp`, `mcp-server`, `embedding-server`): two resources of different kinds may
/// have the same `instance`.
pub(crate) fn workload_labels(name: &str, instance: &str) -> BTreeMap<String, String> {
    [(NAME_LABEL, name), (INSTANCE_LABEL, instance), (MANAGED_BY_LABEL, OPERATOR_NAME)]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// Returns the metadata of a child called `child`, with the [`workload_labels`] of its workload.
pub(crate) fn child_metadata(child: String, name: &str, instance: &str) -> ObjectMeta {
    ObjectMeta { name: Some(child), labels: Some(workload_labels(name, instance)), ..ObjectMeta::default() }
}

/// Returns the owner reference that controls an object: an object has one controller at most.
pub(crate) fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.as_ref()?.iter().find(|owner| owner.controller == Some(true))
}
