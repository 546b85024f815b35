//! Names of an MCPServer's children, a port that meshes take, and its address as a backend.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use vmcp_crds::MCPServer;
use vmcp_crds::lower::Backend;
use vmcp_crds::mcp_server::MCPServerTransport;
use vmcp_crds::mcp_server_entry::RemoteTransport;

use crate::runtime::child_metadata;

/// The value of `app.kubernetes.io/name` of all children and pods.
pub(super) const WORKLOAD_NAME: &str = "mcp-server";

/// Returns the name of the Deployment and of the Service.
pub(crate) fn child_name(server: &str) -> String {
    format!("mcp-{server}")
}

/// Returns the metadata of a server's children.
pub(super) fn metadata(server: &str) -> ObjectMeta {
    child_metadata(child_name(server), WORKLOAD_NAME, server)
}

/// Returns the name of the Secret with the bearer token of the bridge's admin port.
pub(super) fn secret_name(server: &str) -> String {
    format!("mcp-{server}-admin")
}

/// Returns the name of the ConfigMap with the guards that the bridge reads.
pub(super) fn config_map_name(server: &str) -> String {
    format!("mcp-{server}-guards")
}

/// Returns the server as a backend of a VirtualMCPServer: the URL of its Service, whether or not it runs yet.
pub(crate) fn backend(server: &MCPServer, cluster_domain: &str) -> Backend {
    let spec = &server.spec;
    let name = server.metadata.name.clone().unwrap_or_default();
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    let (transport, path) = match spec.transport {
        // The bridge before the server speaks streamable HTTP.
        _ if spec.is_guarded() => (RemoteTransport::StreamableHttp, None),
        MCPServerTransport::Stdio => (RemoteTransport::StreamableHttp, None),
        MCPServerTransport::StreamableHttp => (RemoteTransport::StreamableHttp, spec.path.as_deref()),
        MCPServerTransport::Sse => (RemoteTransport::Sse, spec.path.as_deref().or(Some("/sse"))),
    };
    let (host, path) = (child_name(&name), path.unwrap_or("/mcp"));
    let url = format!("http://{host}.{namespace}.svc.{cluster_domain}:{}{path}", spec.proxy_port);
    Backend {
        name,
        url,
        transport,
        headers: BTreeMap::new(),
        ca_bundle: None,
        addresses: vmcp_config::addresses::ReachableAddresses::Any,
        auth: None,
        tool_config: None,
        isolation: spec.isolation,
        protocol_era: spec.protocol_era,
        questions: spec.questions.unwrap_or(true),
        enabled: spec.enabled.unwrap_or(true),
    }
}
