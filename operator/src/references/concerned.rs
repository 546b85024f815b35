//! Triggers: the resources that a change of an object they may refer to concerns.

use kube::ResourceExt as _;

use crate::runtime::{Change, CustomResource, ResourceStore, WatchedResource};

/// Returns the resources (namespace, name) of a kind in the namespace of a changed object that it concerns,
/// by its name.
pub(crate) fn concerned<Changed: WatchedResource, K: CustomResource>(
    change: &Change<Changed>,
    kind: &ResourceStore<K>,
    is_concerned: impl Fn(&K, &str) -> bool,
) -> Vec<(String, String)> {
    let (namespace, name) = (change.object.namespace().unwrap_or_default(), change.object.name_any());
    let mut resources = kind.list(&namespace);
    resources.retain(|resource| is_concerned(resource, &name));
    resources.iter().map(|resource| (namespace.clone(), resource.name_any())).collect()
}
