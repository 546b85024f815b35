//! Names of the resources that a VirtualMCPServer and its backends refer to. Pure.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use serde_json::Value;
use vmcp_crds::fields::references::{CaBundleReference, LocalReference};
use vmcp_crds::lower::WebhookScope;
use vmcp_crds::virtual_mcp_server::{BackendAuthType, IncomingAuth};
use vmcp_crds::{MCPServer, MCPServerEntry, VirtualMCPServer};

use super::resolved_references::References;
use crate::references::adder;
use crate::virtual_mcp_server::names;

/// Returns the name of the MCPExternalAuthConfig of each backend that has one, by name of the backend. A
/// backend of another namespace gets the credentials that an entry names for it, and no others: neither its
/// own, which are of its namespace, nor the default. A backend that clients added gets its own alone: clients
/// choose its URL.
pub(in crate::virtual_mcp_server) fn auth_configs_of(
    server: &VirtualMCPServer,
    references: &References,
) -> BTreeMap<String, String> {
    let outgoing = server.spec.outgoing_auth.clone().unwrap_or_default();
    let own = |reference: Option<&LocalReference>| reference.map(|reference| reference.name.clone());
    let servers = references.servers.iter().map(|server| {
        let is_added = adder::<MCPServer>(server).is_some();
        (server.name_any(), own(server.spec.external_auth_config_ref.as_ref()), is_added)
    });
    let entries = references.entries.iter().map(|entry| {
        let is_added = adder::<MCPServerEntry>(entry).is_some();
        (entry.name_any(), own(entry.spec.external_auth_config_ref.as_ref()), is_added)
    });
    let resolve = |(name, own, is_added): (String, Option<String>, bool)| {
        let config = if is_added { own? } else { outgoing.resolve(&name, own.as_deref())?.to_owned() };
        Some((name, config))
    };
    let granted = references.cross_namespace.backends.keys().filter_map(|name| {
        let entry = outgoing
            .backends
            .get(name)
            .filter(|entry| entry.kind == BackendAuthType::ExternalAuthConfigRef)?;
        Some((name.clone(), entry.external_auth_config_ref.as_ref()?.name.clone()))
    });
    // Of several backends with one name the first one is called: the credentials of another one are not for
    // its URL.
    let mut seen = BTreeSet::new();
    let called = servers.chain(entries).filter(|(name, ..)| seen.insert(name.clone()));
    called.filter_map(resolve).chain(granted).collect()
}

/// Returns the name of the MCPToolConfig of each backend that has one in this namespace, by name of the
/// backend: from the server's own settings, else from the backend.
pub(in crate::virtual_mcp_server) fn tool_configs_of(
    server: &VirtualMCPServer,
    references: &References,
) -> BTreeMap<String, String> {
    let own = |reference: Option<&LocalReference>| reference.map(|reference| reference.name.clone());
    let servers = references.servers.iter();
    let servers = servers.map(|server| (server.name_any(), own(server.spec.tool_config_ref.as_ref())));
    let entries = references.entries.iter();
    let entries = entries.map(|entry| (entry.name_any(), own(entry.spec.tool_config_ref.as_ref())));
    let rules = server.spec.config.as_ref().and_then(|config| config.aggregation.get("tools")?.as_array());
    let given = |backend: &str| {
        let of_backend = |rule: &&Value| rule.get("workload").and_then(Value::as_str) == Some(backend);
        rules?.iter().find(of_backend)?.pointer("/toolConfigRef/name")?.as_str().map(str::to_owned)
    };
    let resolve = |(name, own): (String, Option<String>)| {
        let config = given(&name).or(own)?;
        Some((name, config))
    };
    let granted = references.cross_namespace.backends.keys().map(|name| (name.clone(), None));
    // As credentials are: of several backends with one name, the first one's.
    let mut seen = BTreeSet::new();
    let called = servers.chain(entries).chain(granted).filter(|(name, _)| seen.insert(name.clone()));
    called.filter_map(resolve).collect()
}

/// Returns each reference to an MCPWebhookConfig, by its name and scope: the server's own, and those of its
/// backends. A shared one comes twice, because services are told other names of tools.
pub(in crate::virtual_mcp_server) fn webhook_configs_of(
    server: &VirtualMCPServer,
    references: &References,
) -> Vec<(String, WebhookScope)> {
    let mut of_backends: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for backend in &references.servers {
        if let Some(reference) = &backend.spec.webhook_config_ref {
            of_backends.entry(&reference.name).or_default().push(backend.name_any());
        }
    }
    let own = server.spec.webhook_config_ref.iter();
    let own = own.map(|reference| (reference.name.clone(), WebhookScope::All));
    let of_backends = of_backends.into_iter();
    own.chain(of_backends.map(|(name, backends)| (name.to_owned(), WebhookScope::Backends(backends))))
        .collect()
}

/// Path of the reference to the certificates of the decision point.
pub(super) const DECISION_POINT_BUNDLE_PATH: &str = "spec.incomingAuth.decisionPoint.caBundleRef";

/// Returns the reference to the certificates of the decision point.
pub(super) fn decision_point_bundle(server: &VirtualMCPServer) -> Option<CaBundleReference> {
    IncomingAuth::from_block(&server.spec.incoming_auth)?.decision_point?.ca_bundle_ref
}

/// Returns the names of the VirtualMCPCompositeToolDefinitions in `spec.config.compositeToolRefs`, in order.
pub(in crate::virtual_mcp_server) fn composite_tool_refs_of(
    server: &VirtualMCPServer,
) -> impl Iterator<Item = &str> {
    let config = server.spec.config.iter();
    config.flat_map(|config| &config.composite_tool_refs).map(|reference| reference.name.as_str())
}

/// Returns the name of the MCPOIDCConfig.
pub(in crate::virtual_mcp_server) fn oidc_config_of(server: &VirtualMCPServer) -> Option<&str> {
    server.spec.incoming_auth.get("oidcConfigRef")?.get("name")?.as_str()
}

/// Returns the name of the EmbeddingServer: the named one, else that of the managed one.
pub(in crate::virtual_mcp_server) fn embedding_server_of(server: &VirtualMCPServer) -> String {
    match &server.spec.embedding_server_ref {
        Some(reference) => reference.name.clone(),
        None => names::embedding_server(server.metadata.name.as_deref().unwrap_or_default()),
    }
}
