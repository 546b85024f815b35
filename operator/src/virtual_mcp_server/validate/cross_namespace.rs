//! Backends of other namespaces. A backend that needs a Secret, a certificate or a webhook of its namespace
//! is not called.

use std::collections::BTreeMap;

use vmcp_config::is_backend_name;
use vmcp_crds::lower::{Backend, HeaderValue};
use vmcp_crds::{MCPServer, MCPServerEntry, VirtualMCPServer};

use crate::references::{CaBundle, ReferencedSecrets};
use crate::runtime::BuildSettings;
use crate::shared_settings::mcp_tool_config;
use crate::virtual_mcp_server::dereference::{
    BackendResource, GrantedBackend, References, auth_configs_of, tool_configs_of,
};
use crate::{mcp_server, mcp_server_entry};

/// Adds the granted backends of other namespaces, each by its name in `vmcp.yaml`.
pub(super) fn add(
    server: &VirtualMCPServer,
    references: &References,
    settings: &BuildSettings,
    backends: &mut Vec<Backend>,
    unusable: &mut BTreeMap<String, String>,
) {
    let found = &references.cross_namespace;
    for (name, reason) in &found.unusable {
        unusable.insert(name.clone(), reason.clone());
    }
    let credentials = auth_configs_of(server, references);
    let tool_configs = tool_configs_of(server, references);
    for (name, granted) in &found.backends {
        let has_credentials = credentials.contains_key(name);
        let (mut backend, mut fault) = match &granted.resource {
            BackendResource::Server(server) => (
                mcp_server::backend(server, &settings.cluster_domain),
                need_of_server(server, name, has_credentials),
            ),
            BackendResource::Entry(entry) => {
                let (backend, fault) = of_entry(entry, name, has_credentials);
                let Some(backend) = backend else {
                    unusable.insert(name.clone(), fault.unwrap_or_default());
                    continue;
                };
                (backend, fault)
            }
        };
        if !is_backend_name(name) {
            let reason = "its name and that of its namespace make no name of a backend; rename it";
            unusable.insert(name.clone(), reason.to_owned());
            continue;
        }
        backend.name.clone_from(name);
        // The server's own MCPToolConfig for this backend wins.
        if !tool_configs.contains_key(name) {
            fault = fault.or_else(|| own_tool_config(granted, &mut backend));
        }
        if let Some(fault) = fault {
            backend.enabled = false;
            unusable.insert(name.clone(), fault);
        }
        backends.push(backend);
    }
}

/// Gives a backend the MCPToolConfig that it names itself. Without it, it would show tools that it hides.
fn own_tool_config(granted: &GrantedBackend, backend: &mut Backend) -> Option<String> {
    let reference = granted.resource.tool_config_ref()?;
    let (name, namespace) = (&reference.name, &granted.namespace);
    let Some(config) = &granted.tool_config else {
        return Some(format!(
            "there is no MCPToolConfig {name} in the namespace {namespace}; create it, or correct the toolConfigRef there"
        ));
    };
    if let Err(fault) = mcp_tool_config::validate(&config.spec) {
        return Some(format!("MCPToolConfig {name} of the namespace {namespace}: {fault}"));
    }
    backend.tool_config = Some(config.spec.clone());
    None
}

/// Returns why an MCPServer of another namespace cannot be called from here.
fn need_of_server(server: &MCPServer, name: &str, has_credentials: bool) -> Option<String> {
    if server.spec.webhook_config_ref.is_some() {
        return Some(
            "its webhooks are asked by the VirtualMCPServers of its own namespace alone; remove its webhookConfigRef, or \
             call it there"
                .to_owned(),
        );
    }
    let needs = server.spec.asks_for_tokens() || server.spec.external_auth_config_ref.is_some();
    (needs && !has_credentials).then(|| lacks_credentials(name))
}

/// Returns an MCPServerEntry of another namespace as a backend, and why it cannot be called; no backend if
/// `vmcp.yaml` would be invalid with it.
fn of_entry(entry: &MCPServerEntry, name: &str, has_credentials: bool) -> (Option<Backend>, Option<String>) {
    let spec = &entry.spec;
    // Without any Secret: a name of that namespace would be looked up in this one.
    let validated = mcp_server_entry::validate(entry, &ReferencedSecrets::default(), &CaBundle::OfTheSystem);
    let problems = [&validated.unfollowed, &validated.address_problems, &validated.header_problems];
    if let Some(problem) = problems.into_iter().flatten().next() {
        return (None, Some(problem.to_string()));
    }
    let mut backend = validated.backend;
    backend.headers.retain(|_, value| matches!(value, HeaderValue::Plain(_)));
    let fault = if !spec.header_forward.add_headers_from_secret.is_empty() {
        Some(
            "its headers are in Secrets of its namespace, which are not read for this server; remove \
             headerForward.addHeadersFromSecret, and give it credentials of this namespace by an MCPServerEntry here"
                .to_owned(),
        )
    } else if spec.ca_bundle_ref.is_some() {
        Some(
            "its certificates are in a ConfigMap of its namespace, which is not read for this server; create an \
             MCPServerEntry here with a caBundleRef of its own"
                .to_owned(),
        )
    } else if spec.external_auth_config_ref.is_some() && !has_credentials {
        Some(lacks_credentials(name))
    } else {
        None
    };
    backend.enabled &= fault.is_none();
    (Some(backend), fault)
}

fn lacks_credentials(name: &str) -> String {
    format!(
        "its credentials are in Secrets of its namespace, which are not read for this server; name an \
         MCPExternalAuthConfig of this namespace in spec.outgoingAuth.backends.{name}"
    )
}

#[cfg(test)]
mod tests;
