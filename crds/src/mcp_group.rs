//! MCPGroup: a name that backends and servers refer to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A set of MCP servers: those whose `groupRef` names it.
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
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(default, rename_all = "camelCase")]
pub struct MCPGroupSpec {
    /// What it is for, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
}

/// Who belongs to the group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MCPGroupStatus {
    /// `Ready` once its members were listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<MCPGroupPhase>,
    /// The generation that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Names of its MCPServers.
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub servers: Vec<String>,
    /// How many MCPServers it has.
    pub server_count: i32,
    /// Names of its MCPServerEntries.
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub entries: Vec<String>,
    /// How many MCPServerEntries it has.
    pub entry_count: i32,
    /// What is true of it.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// How far a group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MCPGroupPhase {
    /// Its members are listed.
    Ready,
    /// It cannot be read, or they could not be listed.
    Failed,
}
