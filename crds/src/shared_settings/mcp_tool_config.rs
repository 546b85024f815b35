//! MCPToolConfig: a filter and overrides of tools, for many servers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use vmcp_config::raw::RawOverride;

use crate::fields::yaml_block::Block;

/// Filter and overrides for the tools of backends whose `toolConfigRef` names it, or that
/// `spec.config.aggregation.tools` of a VirtualMCPServer gives it to.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "toolhive.stacklok.com",
    version = "v1alpha1",
    kind = "MCPToolConfig",
    plural = "mcptoolconfigs",
    namespaced,
    schema = "disabled",
    status = "MCPToolConfigStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "tc",
    shortname = "toolconfig",
    category = "mcp",
    printcolumn(
        name = "Valid",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Valid")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(default, rename_all = "camelCase")]
pub struct MCPToolConfigSpec {
    /// Lists only these tools, by their name after overrides; `*` stands for any characters. Empty: all. At
    /// most 1024.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), extend("x-kubernetes-list-type" = "set"))]
    pub tools_filter: Vec<String>,
    /// Changes to single tools, by the backend's own name for them. At most 1024.
    #[serde(skip_serializing_if = "Block::is_empty")]
    #[schemars(
        with = "std::collections::BTreeMap<String, RawOverride>",
        extend("maxProperties" = 1024)
    )]
    pub tools_override: Block,
}

impl MCPToolConfigSpec {
    /// Returns a hash that changes with the settings: the first 8 bytes of a SHA-256, in hex.
    pub fn hash(&self) -> String {
        let text = serde_json::to_vec(self).unwrap_or_default();
        let mut hash = hex::encode(Sha256::digest(text));
        hash.truncate(16);
        hash
    }
}

/// Observed state of an MCPToolConfig.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MCPToolConfigStatus {
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Hash of the settings, by which a change is noticed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,
    /// Conditions of the settings; `Valid` says what is wrong.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
