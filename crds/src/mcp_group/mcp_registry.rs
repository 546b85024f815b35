//! MCPRegistry: ToolHive's registry server, run by the operator.

use k8s_openapi::api::core::v1::LocalObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fields::references::SecretKeyReference;
use crate::fields::workload::pod_template_schema;
use crate::fields::yaml_block::Block;

/// Runs ToolHive's registry server, a catalog of MCP servers over HTTP. The server keeps its data in a
/// PostgreSQL database of yours, which `configYAML` names.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "toolhive.stacklok.com",
    version = "v1alpha1",
    kind = "MCPRegistry",
    plural = "mcpregistries",
    namespaced,
    schema = "disabled",
    status = "MCPRegistryStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "mcpreg",
    category = "mcp",
    printcolumn(name = "Status", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.url"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message")
)]
#[serde(rename_all = "camelCase")]
pub struct MCPRegistrySpec {
    /// Whole configuration file of the registry server, mounted at `/config/config.yaml`. It lies in a
    /// ConfigMap: refer to files of `volumes` in place of secrets. The registry server checks it.
    #[serde(rename = "configYAML")]
    #[schemars(length(min = 1, max = 524_288))]
    pub config_yaml: String,
    /// Name of the registry, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub display_name: Option<String>,
    /// Secrets with credentials for the registry of the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// Secret key that holds a `pgpass` file: passwords of the database. An init container gives the file the
    /// mode that PostgreSQL's library demands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pgpass_secret_ref: Option<SecretKeyReference>,
    /// Merged into the pod template, strategically, as `kubectl patch` does. The container is named
    /// `registry-api`.
    #[serde(default, skip_serializing_if = "Block::is_empty")]
    #[schemars(schema_with = "pod_template_schema")]
    pub pod_template_spec: Block,
    /// Volumes of the pod, as Kubernetes has them. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "objects_schema")]
    pub volumes: Vec<Block>,
    /// Mounts of these volumes in the container, as Kubernetes has them. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "objects_schema")]
    pub volume_mounts: Vec<Block>,
}

impl MCPRegistrySpec {
    /// Returns true if a source of the configuration reads the API server, which takes a ServiceAccount. A
    /// text that cannot be read is left to the registry server, which reports it.
    pub fn asks_api_server(&self) -> bool {
        let file: Value = serde_saphyr::from_str(&self.config_yaml).unwrap_or_default();
        let sources = file.get("sources").and_then(Value::as_array);
        sources.into_iter().flatten().any(|source| source.get("kubernetes").is_some())
    }
}

/// Returns the schema of a list of objects whose fields the API server checks in the pod.
fn objects_schema(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": 64,
        "x-kubernetes-list-type": "atomic",
        "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
    })
}

/// Observed state of an MCPRegistry.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MCPRegistryStatus {
    /// Progress in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<MCPRegistryPhase>,
    /// Base URL of the registry inside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// One sentence: what is wrong and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Number of ready pods.
    pub ready_replicas: i32,
    /// Conditions of the registry; `Ready` sums them up.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Progress of an MCPRegistry in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MCPRegistryPhase {
    /// Pods are starting.
    Pending,
    /// A pod is ready.
    Ready,
    /// The pod of an earlier version serves, and the newest spec cannot run as written.
    Degraded,
    /// Nothing serves; `message` says why.
    Failed,
}
