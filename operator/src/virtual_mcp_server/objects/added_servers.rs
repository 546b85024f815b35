//! Rights and variables of a server whose clients may add servers: the pods write MCPServerEntries,
//! MCPServers and their Secrets in the namespace of the server.

use k8s_openapi::api::core::v1::EnvVar;
use vmcp_crds::lower::{
    ADDED_PROGRAMS_VARIABLE, ADDED_SERVERS_API_VARIABLE, ADDED_SERVERS_GROUP_VARIABLE,
    ADDED_SERVERS_OWNER_VARIABLE, ADDED_SERVERS_VARIABLE,
};
use vmcp_crds::virtual_mcp_server::Validated;

use super::role_binding;
use crate::runtime::{BuildSettings, Child, ChildKind, RoleName};
use crate::virtual_mcp_server::names;

/// Returns true if the pods get the rights: the resource and the installation ask for them, and the pods run
/// as the account that the operator makes for them. Other pods of an account that the resource names would
/// get the rights too.
pub(super) fn is_granted(server: &Validated, settings: &BuildSettings) -> bool {
    server.adds_servers() && settings.server_admin_role.is_some() && server.pods.service_account.is_none()
}

/// Returns the RoleBindings, which wait for the ServiceAccount: a foreign account of this name gets no right.
/// Programs take a binding of their own, since most servers add none.
pub(in crate::virtual_mcp_server) fn rights_to_add_servers(
    server: &Validated,
    settings: &BuildSettings,
) -> Vec<Child> {
    let Some(role) = settings.server_admin_role.as_ref().filter(|_| is_granted(server, settings)) else {
        return Vec::new();
    };
    let programs = server.adds_programs().then(|| (names::added_programs(&server.name), role.for_programs()));
    let bindings = std::iter::once((names::added_servers(&server.name), role.clone())).chain(programs);
    let binding = |(name, role): (String, RoleName)| {
        let account = (ChildKind::ServiceAccount, names::auxiliary(&server.name));
        Child::from_object(&role_binding(server, name, &role)).only_after([account])
    };
    bindings.map(binding).collect()
}

/// Returns the variables by which `vmcp` knows where it adds servers.
pub(super) fn variables(server: &Validated, settings: &BuildSettings) -> Vec<EnvVar> {
    if !is_granted(server, settings) {
        return Vec::new();
    }
    let group = settings.api_group;
    let api_version = format!("{}/{}", group.name(), group.version());
    let programs = server.adds_programs().then(|| (ADDED_PROGRAMS_VARIABLE, "true".to_owned()));
    let of_group = server.group.clone().map(|group| (ADDED_SERVERS_GROUP_VARIABLE, group));
    let variables = [
        (ADDED_SERVERS_VARIABLE, server.name.clone()),
        (ADDED_SERVERS_OWNER_VARIABLE, server.uid.clone()),
        (ADDED_SERVERS_API_VARIABLE, api_version),
    ];
    let variables = variables.into_iter().chain(of_group).chain(programs);
    variables
        .map(|(name, value)| EnvVar { name: name.to_owned(), value: Some(value), value_from: None })
        .collect()
}
