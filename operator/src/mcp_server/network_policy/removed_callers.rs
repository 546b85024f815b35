//! Removal of callers from the NetworkPolicy of a resource that is refused.

use std::collections::BTreeSet;

use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicyPeer, NetworkPolicySpec};
use kube::ResourceExt as _;
use vmcp_crds::MCPServer;

use super::callers;
use crate::mcp_server::dereference::running_ingress::{callers_of, narrow_callers};
use crate::mcp_server::names::{child_name, metadata};
use crate::runtime::Context;

/// Returns the stored NetworkPolicy without callers that the resource names no longer, for a resource that is
/// refused: their removal waits for no reference. `None` leaves the policy as it is.
pub(in crate::mcp_server) fn without_removed_callers(
    context: &Context,
    server: &MCPServer,
    granted_namespaces: &BTreeSet<String>,
) -> Option<NetworkPolicy> {
    let policy = server.spec.network_policy.clone().unwrap_or_default();
    let (uid, name) = (server.metadata.uid.as_deref().unwrap_or_default(), server.name_any());
    let stored =
        context.children.typed::<NetworkPolicy>(uid, &child_name(&name)).filter(|_| policy.enabled)?;
    let group = server.spec.group_ref.as_ref().map(|group| group.name.as_str());
    let spec = narrowed(stored, callers(group, granted_namespaces, &policy))?;
    Some(NetworkPolicy { metadata: metadata(&name), spec: Some(spec) })
}

/// Returns a stored policy with the wanted callers, as far as it admits them; `None` if it admits no others.
pub(super) fn narrowed(
    stored: NetworkPolicy,
    mut wanted: Vec<NetworkPolicyPeer>,
) -> Option<NetworkPolicySpec> {
    let admitted = callers_of(stored.clone()).filter(|callers| !callers.is_empty())?;
    narrow_callers(&mut wanted, &admitted);
    if wanted == admitted {
        return None;
    }
    let mut spec = stored.spec?;
    spec.ingress.as_mut()?.first_mut()?.from = Some(wanted);
    Some(spec)
}
