//! MCPServer: an MCP server that the operator runs.

use k8s_openapi::api::core::v1::{LocalObjectReference, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fields::cel_rules::rules;
use crate::fields::references::LocalReference;
use crate::fields::workload::{
    EnvironmentVariable, ImagePullPolicy, SecretVariable, SessionAffinity, pod_template_schema,
};
use crate::fields::yaml_block::Block;

/// An MCP server that runs in pods of its own. One that speaks stdio is started through a bridge, and reached by HTTP like
/// any other.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "toolhive.stacklok.com",
    version = "v1alpha1",
    kind = "MCPServer",
    plural = "mcpservers",
    namespaced,
    schema = "disabled",
    status = "MCPServerStatus",
    derive = "PartialEq",
    derive = "Default",
    category = "mcp",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
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
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "self.transport != 'stdio' || (has(self.command) && size(self.command) > 0)",
        "transport stdio needs command; write the program that the image would start, for the bridge cannot know it",
    ),
    (
        "self.transport != 'stdio' || !(has(self.mcpPort) || has(self.path))",
        "mcpPort and path are for transports streamable-http and sse; remove them, or change the transport",
    ),
])))]
pub struct MCPServerSpec {
    /// The MCPGroup that it belongs to. Servers without a group of their own serve all backends of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_ref: Option<LocalReference>,
    /// The container's image.
    #[schemars(length(min = 1, max = 1024))]
    pub image: String,
    /// When the image is pulled. Default: as Kubernetes decides by the image's tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Secrets with credentials for the image's registry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// How the server in the container speaks.
    #[serde(default)]
    pub transport: MCPServerTransport,
    /// The program to start, first word first. With `stdio` it is required: the bridge starts the program, and cannot know
    /// what the image would start by itself. Without `stdio`, it replaces what the image would start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub command: Vec<String>,
    /// Arguments of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), extend("x-kubernetes-list-type" = "atomic"))]
    pub args: Vec<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 256),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub env: Vec<EnvironmentVariable>,
    /// Environment variables from Secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 256),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name", "key"])
    )]
    pub secrets: Vec<SecretVariable>,
    /// The port on which the server in the container listens. Not with `stdio`. Default: `proxyPort`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub mcp_port: Option<u16>,
    /// The path of the server's endpoint. Not with `stdio`. Default: `/mcp`, or `/sse` with `sse`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024), regex(pattern = r"^/[^\s?#]*$"))]
    pub path: Option<String>,
    /// The port of the Service.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1, max = 65_535))]
    pub proxy_port: u16,
    /// How many pods. Without it, one at first, and then whatever an autoscaler or a person says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: Option<i32>,
    /// Whether the requests of one client go to one pod.
    #[serde(default)]
    pub session_affinity: SessionAffinity,
    /// An existing ServiceAccount to run as. Default: the namespace's, without its token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account: Option<String>,
    /// What the container needs and may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Merged into the pod's template, strategically. The container's name is `mcp`.
    #[serde(default, skip_serializing_if = "Block::is_empty")]
    #[schemars(schema_with = "pod_template_schema")]
    pub pod_template_spec: Block,
}

fn default_port() -> u16 {
    8080
}

/// How a server in a container speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MCPServerTransport {
    /// On its standard input and output.
    #[default]
    Stdio,
    /// Streamable HTTP, of either protocol era.
    StreamableHttp,
    /// The older HTTP+SSE transport.
    Sse,
}

/// How an MCPServer is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MCPServerStatus {
    /// How far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<MCPServerPhase>,
    /// Where it is reached inside of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What is wrong and what to do, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The generation that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many pods there are.
    pub replicas: i32,
    /// How many of them are ready.
    pub ready_replicas: i32,
    /// The label selector of its pods, for autoscalers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// What is true of it.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// How far an MCPServer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MCPServerPhase {
    /// Its pods are starting.
    Pending,
    /// At least one pod is ready.
    Ready,
    /// It cannot run as it is written, or its pods fail.
    Failed,
    /// It was scaled to zero.
    Stopped,
}
