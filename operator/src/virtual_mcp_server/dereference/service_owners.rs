//! Owners of the Services that lead to MCPServers. An object of others may have the name of a Service, and
//! the operator adopts none: credentials for the server must not go there.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use vmcp_crds::{MCPServer, VirtualMCPServer};

use super::{BackendResource, References, auth_configs_of};
use crate::mcp_server::child_name;
use crate::runtime::{ChildKind, Context};

/// Returns the backends that get credentials and whose Service is not that of their MCPServer, by name in
/// `vmcp.yaml`.
pub(super) fn without_service(
    server: &VirtualMCPServer,
    references: &References,
    context: &Context,
) -> BTreeSet<String> {
    let credentials = auth_configs_of(server, references);
    let own = references.servers.iter().map(|backend| (backend.name_any(), backend));
    let granted =
        references.cross_namespace.backends.iter().filter_map(|(name, granted)| match &granted.resource {
            BackendResource::Server(backend) => Some((name.clone(), backend)),
            BackendResource::Entry(_) => None,
        });
    own.chain(granted)
        .filter(|(name, backend)| credentials.contains_key(name) && !has_service(context, backend))
        .map(|(name, _)| name)
        .collect()
}

fn has_service(context: &Context, backend: &MCPServer) -> bool {
    let uid = backend.metadata.uid.as_deref().unwrap_or_default();
    context.children.has(uid, ChildKind::Service, &child_name(&backend.name_any()))
}
