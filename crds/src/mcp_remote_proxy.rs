//! MCPRemoteProxy: an MCP server at a URL, as ToolHive's users write it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mcp_server_entry::{MCPServerEntry, MCPServerEntrySpec};

/// Makes an MCP server at a URL a backend, as an MCPServerEntry does. No proxy is run: VirtualMCPServers
/// connect to the server themselves.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "toolhive.stacklok.com",
    version = "v1alpha1",
    kind = "MCPRemoteProxy",
    plural = "mcpremoteproxies",
    namespaced,
    schema = "disabled",
    status = "MCPRemoteProxyStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "rp",
    shortname = "mcprp",
    category = "mcp",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Remote URL", type_ = "string", json_path = ".spec.remoteUrl"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct MCPRemoteProxySpec {
    /// The server; its fields are those of an MCPServerEntry.
    #[serde(flatten)]
    pub remote: MCPServerEntrySpec,
}

impl MCPRemoteProxy {
    /// Returns the MCPServerEntry with the same meaning to a VirtualMCPServer.
    pub fn as_entry(&self) -> MCPServerEntry {
        MCPServerEntry { metadata: self.metadata.clone(), spec: self.spec.remote.clone(), status: None }
    }
}

/// Observed state of an MCPRemoteProxy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MCPRemoteProxyStatus {
    /// `Ready` if the server can be used as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<MCPRemoteProxyPhase>,
    /// One sentence: what is wrong and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the resource; `Ready` sums them up.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Result of checking an MCPRemoteProxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MCPRemoteProxyPhase {
    /// VirtualMCPServers can use it as written.
    Ready,
    /// It, or something it refers to, is wrong; `message` says what.
    Failed,
}
