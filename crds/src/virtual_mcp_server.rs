//! VirtualMCPServer: many MCP servers behind one endpoint.

pub mod authz;
mod client_service;
mod config;
mod embeddings;
mod exposure;
mod incoming_auth;
mod optimizer;
mod outgoing_auth;
mod service_monitor;
mod session_storage;
mod status;
mod validated;

use k8s_openapi::api::core::v1::{LocalObjectReference, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::client_service::{ClientService, ExternalTrafficPolicy, ServiceType};
pub(crate) use self::config::DEFAULT_SHUTDOWN_DELAY;
pub use self::config::code_mode::CodeMode;
pub use self::config::{Config, FlatEmbeddingProvider, FlatOptimizer};
pub use self::embeddings::{Embeddings, OpenAi, Tei};
pub use self::exposure::{
    Autoscaling, Console, ConsoleAccess, ConsoleSignIn, Events, ExtensionReference, HeaderModifier,
    HttpHeader, HttpRoute, HttpRouteFilter, HttpRouteFilterType, HttpRouteTimeouts, NetworkPolicy,
    ParentReference, PathRewrite, PathRewriteType, PodDisruptionBudget, UrlRewrite,
};
pub use self::incoming_auth::{
    ApiKey, DecisionPoint, IncomingAuth, IncomingAuthType, OidcConfigReference, RequiredBinding,
};
pub use self::optimizer::{
    ClaimRetention, ClaimRetentionPolicy, Llm, Optimizer, Storage, StorageClaim, StorageVolume,
};
pub use self::outgoing_auth::{BackendAuth, BackendAuthType, OutgoingAuth, OutgoingAuthSource};
pub use self::service_monitor::{RelabelAction, RelabelConfig, ServiceMonitor};
pub use self::session_storage::SessionStorage;
pub use self::status::{BackendState, CircuitBreakerState, DiscoveredBackend, Phase, VirtualMCPServerStatus};
pub(crate) use self::validated::WrittenAs;
pub use self::validated::{
    Disruption, EmbeddingSource, HTTP_ROUTE, MAX_NAME, Pods, RESTARTED_AT, SERVICE_TYPE, Scale, TeiService,
    ValidOptimizer, Validated, YamlBlocks,
};
pub use crate::fields::auth_server::{
    AuthServerConfig, FieldMapping, OAuth2Upstream, OidcUpstream, TokenLifespans, UpstreamProvider,
    UpstreamType, UserInfo,
};
use crate::fields::cel_rules::{Rule, rules};
use crate::fields::references::{BackendReference, GroupReference, LocalReference};
use crate::fields::resource_overrides::{VirtualMCPServerOverrides, is_default};
use crate::fields::workload::{ImagePullPolicy, SessionAffinity, pod_template_schema};
use crate::fields::yaml_block::Block;
use crate::mcp_server_entry::InlineBackend;

/// Serves many MCP servers at one endpoint, with a search for their tools.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "toolhive.stacklok.com",
    version = "v1alpha1",
    kind = "VirtualMCPServer",
    plural = "virtualmcpservers",
    namespaced,
    schema = "disabled",
    status = "VirtualMCPServerStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "vmcp",
    shortname = "virtualmcp",
    category = "mcp",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.url"),
    printcolumn(name = "Backends", type_ = "integer", json_path = ".status.backendCount"),
    printcolumn(name = "Tools", type_ = "integer", json_path = ".status.toolCount"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#,
        priority = 1
    ),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message")
)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(RULES)))]
pub struct VirtualMCPServerSpec {
    /// MCPGroup whose members are the backends. Without it, all MCPServers and MCPServerEntries of the
    /// namespace are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_ref: Option<GroupReference>,
    /// Backends of other namespaces, besides the members of the group. Each is called `NAMESPACE_NAME`. At
    /// most 64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub backend_refs: Vec<BackendReference>,
    /// Labels that a backend must have. Without it, every member of the group is a backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_selector: Option<LabelSelector>,
    /// Servers at URLs that this server alone has, without resources of their own. Without `groupRef` and
    /// `backendSelector`, they and the backends whose `vmcpRef` names this server are all. At most 256.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 256),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub backends: Vec<InlineBackend>,
    /// Names and visibility of tools, connections to backends, failure handling, client connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Config>,
    /// Offers `optim_find_tool` and `optim_call_tool` in place of hundreds of tool definitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<Optimizer>,
    /// EmbeddingServer that makes the vectors for search by meaning. Turns the optimizer on, unless
    /// `optimizer.enabled` is `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_server_ref: Option<LocalReference>,
    /// MCPTelemetryConfig that says where traces go and whether metrics are served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub telemetry_config_ref: Option<TelemetryConfigReference>,
    /// MCPWebhookConfig with services that are asked about calls of every backend's tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_config_ref: Option<LocalReference>,
    /// Authentication of clients. Default: `anonymous`.
    #[serde(skip_serializing_if = "Block::is_empty")]
    #[schemars(schema_with = "authz::incoming_auth_schema")]
    pub incoming_auth: Block,
    /// Embedded authorization server: people sign in through it, and backends with `upstreamInject` get their
    /// tokens. Clients need tokens then; without `incomingAuth`, those of this server are the ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_server_config: Option<AuthServerConfig>,
    /// Credentials for backends, beside the backends' own references.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outgoing_auth: Option<OutgoingAuth>,
    /// The store that the pods share. Default: each pod counts calls by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_storage: Option<SessionStorage>,
    /// Names of headers of a client's request that every backend gets unchanged; `Authorization`, cookies and
    /// headers of the protocol are not among them. Win over those of `config`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub passthrough_headers: Vec<String>,
    /// Number of pods. Without it, one at first; then whatever an autoscaler or `kubectl scale` sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: Option<i32>,
    /// `true`: no pods run, and everything else stays. `false` brings back as many as before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// Image of vmcp. Default: the image in the operator's options.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub image: Option<String>,
    /// When the image is pulled. Default: `Always` for the tag `latest`, else `IfNotPresent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Secrets with credentials for the registry of the image.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// Web console of the pods. Without it, only a forwarded port leads to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub console: Option<Console>,
    /// Events of the pods, for programs that watch. Default: none are served.
    #[serde(skip_serializing_if = "is_default")]
    pub events: Events,
    /// Type of the Service. Other types than `ClusterIP` need `allowAnonymousExposure` if the endpoint is
    /// anonymous.
    pub service_type: ServiceType,
    /// Settings of the Service. Its annotations: `resourceOverrides.service`.
    #[serde(skip_serializing_if = "is_default")]
    pub service: ClientService,
    /// `true`: an anonymous endpoint may be reached from outside of the cluster. Every client that reaches it
    /// uses the credentials of all backends.
    pub allow_anonymous_exposure: bool,
    /// Session affinity: sends all requests of one client to the same pod, or to any.
    pub session_affinity: SessionAffinity,
    /// Existing ServiceAccount to run as. Default: one without rights, made for this server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account: Option<String>,
    /// CPU and memory that the container requests and is limited to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Merged into the pod template, strategically, as `kubectl patch` does. The container is named `vmcp`.
    #[serde(skip_serializing_if = "Block::is_empty")]
    #[schemars(schema_with = "pod_template_schema")]
    pub pod_template_spec: Block,
    /// Labels and annotations of the objects that are made.
    #[serde(skip_serializing_if = "is_default")]
    pub resource_overrides: VirtualMCPServerOverrides,
    /// Seconds that a pod may take to end before it is killed. Default: `shutdownDelay` and `drainTimeout` of
    /// `config.server`, and 10 seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub termination_grace_period_seconds: Option<i64>,
    /// Scales the pods with their load. Without it, no HorizontalPodAutoscaler is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Autoscaling>,
    /// Limits how many pods may be evicted at a time. Default: one, where there is always more than one pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_disruption_budget: Option<PodDisruptionBudget>,
    /// Limits who may connect to the pods. Without it, no NetworkPolicy is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkPolicy>,
    /// Makes the Prometheus operator scrape the metrics. Without it, no ServiceMonitor is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_monitor: Option<ServiceMonitor>,
    /// Routes requests of a gateway to this server (Gateway API). Without it, no HTTPRoute is made. Needs
    /// `allowAnonymousExposure` if the endpoint is anonymous.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_route: Option<HttpRoute>,
    /// Fields that are accepted and not followed yet, as written.
    #[serde(flatten)]
    #[schemars(skip)]
    pub pending: Block,
}

/// Fields that contradict each other, refused by the API server.
const RULES: &[Rule] = &[
    (
        "!has(self.groupRef) || !has(self.config) || !has(self.config.groupRef) || self.groupRef.name == self.config.groupRef",
        "spec.groupRef and spec.config.groupRef name different groups; keep one of the two",
    ),
    (
        "!has(self.optimizer) || !has(self.config) || !has(self.config.optimizer)",
        "spec.optimizer and spec.config.optimizer are both given; keep spec.optimizer, which can say all of it",
    ),
    (
        "!has(self.incomingAuth) || (has(self.incomingAuth.authz) ? 1 : 0) + (has(self.incomingAuth.authzConfig) ? 1 : 0) + (has(self.incomingAuth.authzConfigRef) ? 1 : 0) <= 1",
        "there are policies in several places; keep one of incomingAuth.authz, authzConfig and authzConfigRef",
    ),
    (
        "!has(self.authServerConfig) || !has(self.incomingAuth) || self.incomingAuth.type == 'oidc'",
        "with authServerConfig, clients present its tokens; set incomingAuth.type: oidc, or leave incomingAuth out",
    ),
    (
        "!has(self.authServerConfig) || !has(self.authServerConfig.primaryUpstreamProvider) || self.authServerConfig.upstreamProviders.exists(p, p.name == self.authServerConfig.primaryUpstreamProvider)",
        "primaryUpstreamProvider is not among upstreamProviders; name one of them",
    ),
    (
        "!has(self.service) || self.serviceType == 'LoadBalancer' || !(has(self.service.loadBalancerSourceRanges) || has(self.service.loadBalancerClass))",
        "loadBalancerSourceRanges and loadBalancerClass are for a load balancer; set serviceType: LoadBalancer, or remove them",
    ),
    (
        "!has(self.service) || self.serviceType != 'ClusterIP' || !has(self.service.externalTrafficPolicy)",
        "externalTrafficPolicy is for what comes from outside of the cluster; set serviceType: LoadBalancer or NodePort, or remove it",
    ),
    (
        "!has(self.replicas) || !has(self.autoscaling)",
        "spec.replicas and spec.autoscaling are both given; remove one of the two, for the autoscaler decides the number of pods",
    ),
    (
        "!has(self.embeddingServerRef) || !has(self.optimizer) || !has(self.optimizer.embeddings) || self.optimizer.embeddings.provider == 'tei'",
        "spec.embeddingServerRef is given, and another provider is chosen; set spec.optimizer.embeddings.provider: tei, or remove spec.embeddingServerRef",
    ),
    (
        "!has(self.embeddingServerRef) || !has(self.optimizer) || !has(self.optimizer.embeddings) || !has(self.optimizer.embeddings.tei) || !(has(self.optimizer.embeddings.tei.endpoint) || has(self.optimizer.embeddings.tei.managed))",
        "there is more than one embedding service; keep one of spec.embeddingServerRef, and endpoint or managed in spec.optimizer.embeddings.tei",
    ),
    (
        "has(self.embeddingServerRef) || !has(self.optimizer) || !has(self.optimizer.embeddings) || self.optimizer.embeddings.provider != 'tei' || (has(self.optimizer.embeddings.tei) && (has(self.optimizer.embeddings.tei.endpoint) || has(self.optimizer.embeddings.tei.managed)))",
        "provider tei has no service; give spec.optimizer.embeddings.tei.endpoint, or tei.managed: {} to have one made, or spec.embeddingServerRef",
    ),
    (
        "!has(self.embeddingServerRef) || !has(self.config) || !has(self.config.optimizer) || self.config.optimizer.embeddingProvider == 'tei'",
        "an EmbeddingServer does not speak openai; set spec.config.optimizer.embeddingProvider: tei, or remove spec.embeddingServerRef",
    ),
    (
        "!has(self.config) || !has(self.config.code) || !has(self.config.codeMode) || !(has(self.config.codeMode.parallelMaxConcurrency) || has(self.config.codeMode.toolCallTimeout))",
        "spec.config.code is given; say it there by maxParallel and callTimeout, and keep enabled alone in spec.config.codeMode",
    ),
];

/// An MCPTelemetryConfig of the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TelemetryConfigReference {
    /// Name of the MCPTelemetryConfig.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Name of this server in traces (`service.name`). Default: the name of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_name: Option<String>,
}
