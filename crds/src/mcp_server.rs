//! MCPServer: an MCP server that the operator runs in pods.

mod guards;

use k8s_openapi::api::core::v1::{LocalObjectReference, ResourceRequirements};
use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vmcp_config::raw::{RawAudit, RawRateLimiting};
use vmcp_config::{Isolation, ProtocolEra};

pub use self::guards::{AuthServerKind, AuthServerReference, HostVolume};
use crate::fields::cel_rules::rules;
use crate::fields::references::LocalReference;
use crate::fields::resource_overrides::{MCPServerOverrides, is_default};
use crate::fields::workload::{
    EnvironmentVariable, ImagePullPolicy, SecretVariable, SessionAffinity, pod_template_schema,
};
use crate::fields::yaml_block::Block;
use crate::virtual_mcp_server::authz::inline_policies_schema;
use crate::virtual_mcp_server::{OidcConfigReference, SessionStorage, TelemetryConfigReference};

/// Runs an MCP server in pods of its own. A server that speaks stdio is started through `vmcp bridge` and
/// reached over HTTP like any other.
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
        "self.transport != 'stdio' || !(has(self.mcpPort) || has(self.path))",
        "mcpPort and path are for transports streamable-http and sse; remove them, or change the transport",
    ),
    (
        "!has(self.authzConfig) || !has(self.authzConfigRef)",
        "there are policies in two places; keep one of authzConfig and authzConfigRef",
    ),
])))]
pub struct MCPServerSpec {
    /// MCPGroup that the server belongs to. VirtualMCPServers without a group serve all servers of the
    /// namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_ref: Option<LocalReference>,
    /// The only VirtualMCPServer that serves it. Default: every VirtualMCPServer that selects it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vmcp_ref: Option<LocalReference>,
    /// Image of the container.
    #[schemars(length(min = 1, max = 1024))]
    pub image: String,
    /// `false`: no pod runs, and VirtualMCPServers list the server, and neither connect, search nor call it.
    /// Default: `true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// When the image is pulled. Default: `Always` for the tag `latest`, else `IfNotPresent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Secrets with credentials for the registry of the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// Transport that the server in the container speaks.
    #[serde(default)]
    pub transport: MCPServerTransport,
    /// Program to start, one item a word. Default: the entrypoint of the image; with `stdio`, where the
    /// bridge starts it, the operator asks the registry for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub command: Vec<String>,
    /// Arguments of the program. At most 1024.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), extend("x-kubernetes-list-type" = "atomic"))]
    pub args: Vec<String>,
    /// Environment variables of the container. At most 256.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 256),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub env: Vec<EnvironmentVariable>,
    /// Environment variables whose values are in Secrets. At most 256. A changed Secret restarts the pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 256),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name", "key"])
    )]
    pub secrets: Vec<SecretVariable>,
    /// Port on which the server in the container listens. Not with `stdio`. Default: `proxyPort`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub mcp_port: Option<u16>,
    /// Path of the MCP endpoint in the container. Not with `stdio`. Default: `/mcp`, or `/sse` with `sse`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024), regex(pattern = r"^/[^\s?#]*$"))]
    pub path: Option<String>,
    /// Port of the Service.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1, max = 65_535))]
    pub proxy_port: u16,
    /// Number of pods. Without it, one at first; then whatever an autoscaler or `kubectl scale` sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: Option<i32>,
    /// Number of pods while `replicas` is not given, as ToolHive writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub backend_replicas: Option<i32>,
    /// Session affinity: sends all requests of one client to the same pod, or to any.
    #[serde(default)]
    pub session_affinity: SessionAffinity,
    /// Existing ServiceAccount to run as. Default: that of the namespace, without its token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account: Option<String>,
    /// CPU and memory that the container requests and is limited to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Limits who may connect to the pods. Default: only pods of the VirtualMCPServers that serve the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<MCPServerNetworkPolicy>,
    /// Outgoing connections that the pods may make, as a profile of ToolHive. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_profile: Option<PermissionProfile>,
    /// Merged into the pod template, strategically, as `kubectl patch` does. The container is named `mcp`.
    #[serde(default, skip_serializing_if = "Block::is_empty")]
    #[schemars(schema_with = "pod_template_schema")]
    pub pod_template_spec: Block,
    /// Labels and annotations of the objects that are made.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resource_overrides: MCPServerOverrides,
    /// Clients that share a connection to the server, with `stdio` a process of it: all of them, those of one
    /// principal, or none. Default: `session` where the server is of the legacy era and may keep state, else
    /// `shared`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// Era in which a server that speaks both is spoken to. Default: `auto`, that of the client that calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_era: Option<ProtocolEra>,
    /// `false`: the server may not ask clients (elicitation, sampling, roots). It is told that clients answer
    /// nothing, and a call that needs an answer fails. Default: `true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub questions: Option<bool>,
    /// MCPExternalAuthConfig with the credentials for the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_auth_config_ref: Option<LocalReference>,
    /// MCPToolConfig with a filter and overrides for the tools of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_config_ref: Option<LocalReference>,
    /// MCPWebhookConfig with services that are asked about calls of the server's tools. VirtualMCPServers ask
    /// them, so that `networkPolicy` may add no callers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_config_ref: Option<LocalReference>,
    /// MCPOIDCConfig of the identity provider whose tokens callers must present, VirtualMCPServers too. A
    /// bridge in the pod checks them, before the program or the HTTP server of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oidc_config_ref: Option<OidcConfigReference>,
    /// MCPExternalAuthConfig of `type: embeddedAuthServer`: the bridge gives tokens itself, after a person
    /// has signed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_server_ref: Option<AuthServerReference>,
    /// Policies about calls, which the bridge follows.
    #[serde(default, skip_serializing_if = "Block::is_empty")]
    #[schemars(schema_with = "inline_policies_schema")]
    pub authz_config: Block,
    /// MCPAuthzConfig with such policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authz_config_ref: Option<LocalReference>,
    /// Audit events: a line on the bridge's standard output for each call and each client that is turned
    /// away.
    #[serde(default, skip_serializing_if = "Block::is_empty")]
    #[schemars(with = "RawAudit")]
    pub audit: Block,
    /// Limits on calls of tools, by token buckets; each pod has its own, unless `sessionStorage` has them.
    #[serde(default, skip_serializing_if = "Block::is_empty")]
    #[schemars(with = "RawRateLimiting")]
    pub rate_limiting: Block,
    /// Store for the buckets of `rateLimiting`. Default: each pod counts calls by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_storage: Option<SessionStorage>,
    /// MCPTelemetryConfig for traces and metrics of the bridge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry_config_ref: Option<TelemetryConfigReference>,
    /// Folders of the node for the container. Other volumes: `podTemplateSpec`. At most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub volumes: Vec<HostVolume>,
    /// Fields that are accepted and not followed yet, as written.
    #[serde(flatten)]
    #[schemars(skip)]
    pub pending: Block,
}

impl MCPServerSpec {
    /// Returns all Secrets with credentials for registries, each once. Those of `podTemplateSpec` count for
    /// the lookup of the image's entrypoint too, as for the kubelet.
    pub fn all_pull_secrets(&self) -> Vec<LocalObjectReference> {
        let of_template = self.pod_template_spec.get("spec").and_then(|pod| pod.get("imagePullSecrets"));
        // A malformed list is refused where the template is merged.
        let of_template: Vec<LocalObjectReference> =
            of_template.cloned().and_then(|list| serde_json::from_value(list).ok()).unwrap_or_default();
        let mut secrets = self.image_pull_secrets.clone();
        for secret in self.resource_overrides.proxy_deployment.image_pull_secrets.iter().chain(&of_template) {
            if !secrets.contains(secret) {
                secrets.push(secret.clone());
            }
        }
        secrets
    }
}

fn default_port() -> u16 {
    8080
}

/// A NetworkPolicy for the pods of an MCPServer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MCPServerNetworkPolicy {
    /// `false`: every pod of the cluster may connect.
    pub enabled: bool,
    /// Peers that may connect besides the VirtualMCPServers of the group. At most 64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub ingress_from: Vec<NetworkPolicyPeer>,
}

impl Default for MCPServerNetworkPolicy {
    fn default() -> Self {
        Self { enabled: true, ingress_from: Vec::new() }
    }
}

/// A permission profile, of which the outgoing connections are followed, by a NetworkPolicy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "self.type != 'builtin' || self.name in ['none', 'network']",
        "the builtin profiles are none and network; name one of them, or set type: configmap",
    ),
    (
        "self.type != 'configmap' || has(self.key)",
        "type: configmap needs key, under which the ConfigMap has the profile",
    ),
])))]
pub struct PermissionProfile {
    /// Source of the profile.
    #[serde(rename = "type", default)]
    pub source: PermissionProfileType,
    /// Name of the profile: `none` or `network`, or with `configmap` the name of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key in the data of the ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub key: Option<String>,
}

/// Source of a permission profile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PermissionProfileType {
    /// No outgoing connections with `none`, all of them with `network`.
    #[default]
    Builtin,
    /// A profile in JSON, in a ConfigMap of the same namespace. `allow_port` of `network.outbound`, and
    /// addresses in `allow_host`, are followed; names of hosts cannot be.
    Configmap,
}

/// Transport of a server in a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MCPServerTransport {
    /// MCP on standard input and output.
    #[default]
    Stdio,
    /// Streamable HTTP, in either era of the protocol.
    StreamableHttp,
    /// The older HTTP+SSE transport.
    Sse,
}

/// Observed state of an MCPServer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MCPServerStatus {
    /// Progress in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<MCPServerPhase>,
    /// URL of the MCP endpoint inside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// One sentence: what is wrong and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Number of pods.
    pub replicas: i32,
    /// Number of ready pods.
    pub ready_replicas: i32,
    /// Label selector of the pods, for autoscalers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Conditions of the server; `Ready` sums them up.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Progress of an MCPServer in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MCPServerPhase {
    /// Pods are starting.
    Pending,
    /// At least one pod is ready.
    Ready,
    /// Pods of an earlier version serve, and the newest spec cannot run as written; `message` says why.
    Degraded,
    /// The spec cannot run as written and nothing serves, or the pods fail; `message` says why.
    Failed,
    /// The server is scaled to zero.
    Stopped,
}
