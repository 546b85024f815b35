//! Membership in an MCPGroup by `spec.groupRef`: which resources name a group, and the condition that says
//! whether it exists.

use vmcp_crds::fields::references::LocalReference;

use super::concerned;
use crate::runtime::{Change, Conditions, Context, CustomResource, ResourceStore};

/// Returns the resources (namespace, name) of a kind that name a group which came or went.
pub(crate) fn members_of<K: CustomResource>(
    change: &Change<vmcp_crds::MCPGroup>,
    kind: &ResourceStore<K>,
    group: fn(&K) -> Option<&LocalReference>,
) -> Vec<(String, String)> {
    concerned(change, kind, |member, name| {
        change.substantial && group(member).is_some_and(|group| group.name == name)
    })
}

/// Returns true if the group exists, false if it does not, `None` if no group is named.
pub(crate) fn group_exists(
    context: &Context,
    namespace: &str,
    group: Option<&LocalReference>,
) -> Option<bool> {
    group.map(|group| context.resources.mcp_groups.exists(namespace, &group.name))
}

/// Sets the condition `GroupRefValidated`, if a group is named; returns its message if the group does not
/// exist.
pub(crate) fn group_condition(
    conditions: &mut Conditions,
    group: Option<&LocalReference>,
    exists: Option<bool>,
) -> Option<String> {
    let name = &group?.name;
    if exists? {
        conditions.set("GroupRefValidated", true, "GroupFound", format!("the MCPGroup {name} exists"));
        return None;
    }
    let message = format!(
        "there is no MCPGroup {name}; create it, or correct `spec.groupRef`: no VirtualMCPServer can serve the group"
    );
    conditions.set("GroupRefValidated", false, "GroupNotFound", message.clone());
    Some(message)
}
