//! MCPGroup: a name by which VirtualMCPServers and their backends find each other; and MCPRegistry, a catalog
//! of servers.

mod mcp_registry;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::mcp_registry::{MCPRegistry, MCPRegistryPhase, MCPRegistrySpec, MCPRegistryStatus};

/// Groups MCP servers. Its members are the MCPServers, MCPServerEntries and MCPRemoteProxies whose `groupRef`
/// names it; a VirtualMCPServer that names it serves them.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "toolhive.stacklok.com",
    version = "v1alpha1",
    kind = "MCPGroup",
    plural = "mcpgroups",
    namespaced,
    schema = "disabled",
    status = "MCPGroupStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "mcpg",
    category = "mcp",
    printcolumn(name = "Servers", type_ = "integer", json_path = ".status.serverCount"),
    printcolumn(name = "Entries", type_ = "integer", json_path = ".status.entryCount"),
    printcolumn(name = "Proxies", type_ = "integer", json_path = ".status.remoteProxyCount"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(default, rename_all = "camelCase")]
pub struct MCPGroupSpec {
    /// Purpose of the group, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
}

/// Observed members of an MCPGroup.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MCPGroupStatus {
    /// `Ready` once the members were listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<MCPGroupPhase>,
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Names of the member MCPServers; the first 1000 of more.
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub servers: Vec<String>,
    /// Number of member MCPServers.
    pub server_count: i32,
    /// Names of the member MCPServerEntries; the first 1000 of more.
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub entries: Vec<String>,
    /// Number of member MCPServerEntries.
    pub entry_count: i32,
    /// Names of the member MCPRemoteProxies; the first 1000 of more.
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub remote_proxies: Vec<String>,
    /// Number of member MCPRemoteProxies.
    pub remote_proxy_count: i32,
    /// Conditions of the group.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Progress of an MCPGroup in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MCPGroupPhase {
    /// The members are listed.
    Ready,
    /// The group cannot be read, or its members could not be listed.
    Failed,
}
