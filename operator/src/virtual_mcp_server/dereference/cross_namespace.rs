//! Backends of other namespaces that these grant to the server: members of a group there, and `backendRefs`.
//!
//! Only the granted resources are read, and the MCPToolConfigs that they name, which hide tools. No Secret,
//! ConfigMap or credential of the other namespace is read.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt as _;
use vmcp_crds::fields::references::{
    BackendKind, BackendReference, LocalReference, backend_name_in, is_elsewhere,
};
use vmcp_crds::lower;
use vmcp_crds::{MCPServer, MCPServerEntry, MCPToolConfig, VirtualMCPServer};

use super::entries_of;
use super::membership::selected;
use crate::references::{GrantRefusal, GrantTarget, is_granted, refusal};
use crate::runtime::Context;
use crate::virtual_mcp_server::last_good::MountedConfiguration;

/// Backends of other namespaces, and the references that lead to none.
#[derive(Debug, Default)]
pub(in crate::virtual_mcp_server) struct CrossNamespaceBackends {
    /// Granted backends, by name in `vmcp.yaml`.
    pub backends: BTreeMap<String, GrantedBackend>,
    /// Backends that are named and cannot be called, with the reason.
    pub unusable: BTreeMap<String, String>,
    /// Names in `vmcp.yaml` that two backends have.
    pub duplicates: Vec<String>,
    /// The fault of references without a grant.
    pub refusal: Option<GrantRefusal>,
    /// True if the server's group is in another namespace that does not grant it.
    pub is_group_refused: bool,
}

/// A backend of another namespace.
#[derive(Debug, Clone)]
pub(in crate::virtual_mcp_server) struct GrantedBackend {
    /// Its namespace.
    pub namespace: String,
    /// The resource.
    pub resource: BackendResource,
    /// The MCPToolConfig that it names, if that exists.
    pub tool_config: Option<Arc<MCPToolConfig>>,
}

/// A resource that is a backend.
#[derive(Debug, Clone)]
pub(in crate::virtual_mcp_server) enum BackendResource {
    /// An MCPServer.
    Server(Arc<MCPServer>),
    /// An MCPServerEntry, or an MCPRemoteProxy as one.
    Entry(Arc<MCPServerEntry>),
}

impl BackendResource {
    /// Returns the name of the resource.
    fn name(&self) -> String {
        match self {
            Self::Server(server) => server.name_any(),
            Self::Entry(entry) => entry.name_any(),
        }
    }

    fn labels(&self) -> &BTreeMap<String, String> {
        match self {
            Self::Server(server) => server.labels(),
            Self::Entry(entry) => entry.labels(),
        }
    }

    fn group(&self) -> Option<&LocalReference> {
        match self {
            Self::Server(server) => server.spec.group_ref.as_ref(),
            Self::Entry(entry) => entry.spec.group_ref.as_ref(),
        }
    }

    /// Returns the name of its own MCPToolConfig.
    pub(in crate::virtual_mcp_server) fn tool_config_ref(&self) -> Option<&LocalReference> {
        match self {
            Self::Server(server) => server.spec.tool_config_ref.as_ref(),
            Self::Entry(entry) => entry.spec.tool_config_ref.as_ref(),
        }
    }
}

impl CrossNamespaceBackends {
    /// Reads the granted backends from the stores.
    pub(super) fn from_stores(server: &VirtualMCPServer, context: &Context) -> Self {
        let mut found = Self::default();
        let own = server.metadata.namespace.as_deref().unwrap_or_default();
        let mut refused = Vec::new();
        if let Some((group, namespace)) = group_elsewhere(server) {
            let target = target(namespace, "MCPGroup", group);
            if is_granted(context, own, &target) {
                let members = resources_of(context, namespace).into_iter().filter(|backend| {
                    backend.group().is_some_and(|of| of.name == group) && selected(server, backend.labels())
                });
                members.for_each(|backend| found.add(context, namespace, backend));
            } else {
                found.is_group_refused = true;
                refused.push(target);
            }
        }
        for reference in &server.spec.backend_refs {
            let BackendReference { kind, name, namespace } = reference;
            let target = target(namespace, kind.as_str(), name);
            let called = backend_name_in(namespace, name);
            let is_known = found.backends.get(&called).is_some_and(|known| {
                matches!(known.resource, BackendResource::Server(_)) == (*kind == BackendKind::Server)
            });
            // A grant of its group is one of the member.
            if is_known {
                continue;
            }
            if !is_granted(context, own, &target) {
                let reason = "its namespace does not grant it; the condition ReferencesGranted has the grant";
                found.unusable.insert(called, reason.to_owned());
                refused.push(target);
                continue;
            }
            if let Some(backend) = resource(context, reference) {
                found.add(context, namespace, backend);
            } else {
                let reason = format!(
                    "there is no {} {name} in the namespace {namespace} that can be read; create it, or correct \
                     spec.backendRefs",
                    kind.as_str()
                );
                found.unusable.insert(called, reason);
            }
        }
        found.refusal = refusal(context, own, &refused);
        found
    }

    fn add(&mut self, context: &Context, namespace: &str, resource: BackendResource) {
        let name = backend_name_in(namespace, &resource.name());
        if let Some(known) = self.backends.get(&name) {
            let is_same = matches!(
                (&known.resource, &resource),
                (BackendResource::Server(_), BackendResource::Server(_))
                    | (BackendResource::Entry(_), BackendResource::Entry(_))
            );
            if !is_same {
                self.duplicates.push(name);
            }
            return;
        }
        let tool_config = resource
            .tool_config_ref()
            .and_then(|reference| context.resources.tool_configs.get(namespace, &reference.name));
        let backend = GrantedBackend { namespace: namespace.to_owned(), resource, tool_config };
        self.backends.insert(name, backend);
    }

    /// Switches off, in a configuration that stays mounted, the backends whose grant was withdrawn.
    pub(super) fn withdraw(&self, mounted: &mut MountedConfiguration) {
        let mut named = lower::backends_of(&mounted.text);
        named.retain(|name| is_elsewhere(name) && !self.backends.contains_key(name));
        if !named.is_empty()
            && let Some(text) = lower::without_backends(&mounted.text, &named)
        {
            mounted.text = text;
        }
    }
}

/// Returns name and namespace of the server's MCPGroup, if that is in another namespace.
pub(in crate::virtual_mcp_server) fn group_elsewhere(server: &VirtualMCPServer) -> Option<(&str, &str)> {
    let (group, namespace) = server.spec.group()?;
    let namespace = namespace.filter(|namespace| Some(*namespace) != server.metadata.namespace.as_deref())?;
    Some((group, namespace))
}

/// Returns true if the server refers to objects of this namespace, which is not its own.
pub(in crate::virtual_mcp_server) fn refers_to_namespace(server: &VirtualMCPServer, namespace: &str) -> bool {
    group_elsewhere(server).is_some_and(|(_, of_group)| of_group == namespace)
        || server.spec.backend_refs.iter().any(|reference| reference.namespace == namespace)
}

fn target(namespace: &str, kind: &'static str, name: &str) -> GrantTarget {
    GrantTarget { namespace: namespace.to_owned(), kind, name: name.to_owned() }
}

/// Returns all backends of a namespace: MCPServers, MCPServerEntries, and MCPRemoteProxies as entries.
fn resources_of(context: &Context, namespace: &str) -> Vec<BackendResource> {
    let servers = context.resources.mcp_servers.list(namespace).into_iter().map(BackendResource::Server);
    let entries = entries_of(&context.resources, namespace).into_iter().map(BackendResource::Entry);
    servers.chain(entries).collect()
}

/// Returns the backend that a reference leads to, if there is a well-formed one.
fn resource(context: &Context, reference: &BackendReference) -> Option<BackendResource> {
    let (all, BackendReference { kind, name, namespace }) = (&context.resources, reference);
    match kind {
        BackendKind::Server => all.mcp_servers.get(namespace, name).map(BackendResource::Server),
        BackendKind::Entry => all.mcp_server_entries.get(namespace, name).map(BackendResource::Entry),
        BackendKind::RemoteProxy => {
            let proxy = all.mcp_remote_proxies.get(namespace, name)?;
            Some(BackendResource::Entry(Arc::new(proxy.as_entry())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_that_stays_mounted_loses_what_is_no_longer_granted() {
        let text = "backends: [{name: own, url: 'http://a/mcp'}, {name: b_kept, url: 'http://b/mcp'}, \
                    {name: b_gone, url: 'http://c/mcp'}]\n";
        let mut mounted = MountedConfiguration { text: text.to_owned(), secrets: BTreeMap::new() };
        let entry = serde_saphyr::from_str("{metadata: {name: kept}, spec: {remoteUrl: 'http://b/mcp'}}");
        let kept = GrantedBackend {
            namespace: "b".to_owned(),
            resource: BackendResource::Entry(Arc::new(entry.expect("an entry"))),
            tool_config: None,
        };
        let backends = [("b_kept".to_owned(), kept)].into();
        let granted = CrossNamespaceBackends { backends, ..CrossNamespaceBackends::default() };
        granted.withdraw(&mut mounted);
        let file: serde_json::Value = serde_saphyr::from_str(&mounted.text).expect("YAML");
        let is_off = |index: usize| file["backends"][index]["enabled"] == serde_json::Value::Bool(false);
        assert_eq!([0, 1, 2].map(is_off), [false, false, true], "{}", mounted.text);
        let once = mounted.clone();
        granted.withdraw(&mut mounted);
        assert_eq!(mounted, once, "it comes to rest");
        let mut untouched = MountedConfiguration { text: text.to_owned(), secrets: BTreeMap::new() };
        untouched.text = text.replace("b_gone", "gone");
        let before = untouched.clone();
        granted.withdraw(&mut untouched);
        assert_eq!(untouched, before, "left as it is");
    }

    #[test]
    fn a_group_of_the_own_namespace_is_not_elsewhere() {
        let server = |spec: &str| -> VirtualMCPServer {
            let text = format!("{{metadata: {{name: x, namespace: a}}, spec: {spec}}}");
            serde_saphyr::from_str(&text).expect("a server")
        };
        assert_eq!(group_elsewhere(&server("{groupRef: {name: g, namespace: b}}")), Some(("g", "b")));
        for own in
            ["{groupRef: {name: g, namespace: a}}", "{groupRef: {name: g}}", "{config: {groupRef: g}}", "{}"]
        {
            assert_eq!(group_elsewhere(&server(own)), None, "{own}");
        }
        let refers = server("{backendRefs: [{name: s, namespace: c}]}");
        assert!(refers_to_namespace(&refers, "c") && !refers_to_namespace(&refers, "a"));
    }
}
