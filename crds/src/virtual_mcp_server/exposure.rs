//! Fields about scale and reachability: autoscaling, disruption budget, NetworkPolicy, HTTPRoute, console.

mod console;
mod route_filters;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerBehavior;
use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::console::{Console, ConsoleAccess, ConsoleSignIn};
use self::route_filters::NO_TYPE_TWICE;
pub use self::route_filters::{
    ExtensionReference, HeaderModifier, HttpHeader, HttpRouteFilter, HttpRouteFilterType, PathRewrite,
    PathRewriteType, UrlRewrite,
};
use crate::fields::cel_rules::rules;
use crate::fields::resource_overrides::MetadataOverrides;
use crate::problem::Problem;

/// A HorizontalPodAutoscaler by CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "self.minReplicas <= self.maxReplicas",
    "minReplicas is more than maxReplicas; lower it, or raise maxReplicas",
)])))]
pub struct Autoscaling {
    /// Minimum number of pods.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000))]
    pub min_replicas: i32,
    /// Maximum number of pods.
    #[schemars(range(min = 1, max = 1000))]
    pub max_replicas: i32,
    /// Average CPU use that the autoscaler aims at, in percent of the CPU that `resources` requests.
    #[serde(rename = "targetCPUUtilizationPercentage", default = "eighty")]
    #[schemars(range(min = 1, max = 1000))]
    pub target_cpu_utilization_percentage: i32,
    /// Average memory use that the autoscaler aims at besides, in percent of the memory that `resources`
    /// requests. Default: memory decides nothing.
    #[serde(rename = "targetMemoryUtilizationPercentage", default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub target_memory_utilization_percentage: Option<i32>,
    /// Average number of requests under way in a pod that the autoscaler aims at besides: the metric
    /// `vmcp_client_requests_in_flight`, which an adapter such as prometheus-adapter has to serve in the
    /// cluster. Default: it decides nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub target_requests_in_flight: Option<i32>,
    /// Pace at which pods are added and removed. Default: that of Kubernetes, which removes pods only after
    /// five minutes with less load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behavior: Option<HorizontalPodAutoscalerBehavior>,
}

fn one() -> i32 {
    1
}

fn eighty() -> i32 {
    80
}

/// Pattern of a percentage, `0%` to `100%`.
const SHARE: &str = "^(100|[0-9]{1,2})%$";

/// A PodDisruptionBudget. Exactly one of its fields must be given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "has(self.minAvailable) != has(self.maxUnavailable)",
    "minAvailable and maxUnavailable are both given, or neither is; give exactly one of them",
)])))]
pub struct PodDisruptionBudget {
    /// Number or percentage of pods that must stay available.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0, "pattern" = SHARE))]
    pub min_available: Option<IntOrString>,
    /// Number or percentage of pods that may be evicted at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0, "pattern" = SHARE))]
    pub max_unavailable: Option<IntOrString>,
}

/// A NetworkPolicy for the pods.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct NetworkPolicy {
    /// `false`: no NetworkPolicy is made.
    pub enabled: bool,
    /// Peers that may connect to the client port. Empty: all. At most 64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub ingress_from: Vec<NetworkPolicyPeer>,
}

impl Default for NetworkPolicy {
    fn default() -> Self {
        Self { enabled: true, ingress_from: Vec::new() }
    }
}

/// A port of each pod with a websocket, `/ws/events`: hooks of coding agents, changed definitions, states of
/// backends. Viewers present a token of `console.operatorTokenSecretRefs`, or the token of `/metrics`, with
/// which they see states alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Events {
    /// `true`: each pod serves its events at port 8766. The headless Service `vmcp-NAME-peers` has the port
    /// and the address of each ready pod. A change replaces the pods.
    pub enabled: bool,
}

/// An HTTPRoute of the Gateway API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpRoute {
    /// Gateways that route here. At least 1, at most 32.
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub parent_refs: Vec<ParentReference>,
    /// Hosts that are routed here. Empty: those of the gateway. At most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub hostnames: Vec<String>,
    /// Prefix of the paths that are routed here. The server answers at `/mcp`; a filter of type `URLRewrite`
    /// leads there from any other.
    #[serde(default = "mcp_path")]
    #[schemars(length(max = 1024), regex(pattern = r"^/[^\s?#]*$"))]
    pub path: String,
    /// Time limits of the gateway. Default: its own, which may cut off long calls and streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<HttpRouteTimeouts>,
    /// Filters of the gateway, for all that is routed here; `URLRewrite` is for `path` alone. At most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "atomic", "x-kubernetes-validations" = rules(&[NO_TYPE_TWICE]))
    )]
    pub filters: Vec<HttpRouteFilter>,
    /// Labels and annotations of the HTTPRoute, such as those for external-dns.
    #[serde(flatten)]
    pub metadata: MetadataOverrides,
}

/// Pattern of a duration of the Gateway API, such as `1h30m` or `0s`.
const GATEWAY_DURATION: &str = "^([0-9]{1,5}(h|m|s|ms)){1,4}$";

/// Time limits of a gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpRouteTimeouts {
    /// Longest time from a request to the end of its answer, such as `1h`; `0s` is without limit. Streams of
    /// events count as one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = GATEWAY_DURATION))]
    pub request: Option<String>,
    /// Longest time of one attempt, not more than `request`; `0s` is without limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = GATEWAY_DURATION))]
    pub backend_request: Option<String>,
}

impl HttpRoute {
    /// Finds reserved keys among labels and annotations, and filters that are refused.
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        self.metadata.check("spec.httpRoute", problems);
        route_filters::check(&self.filters, problems);
    }
}

fn mcp_path() -> String {
    "/mcp".to_owned()
}

/// A gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParentReference {
    /// Name of the gateway.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the gateway. Default: that of this server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// Listener of the gateway. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub section_name: Option<String>,
    /// Port of the gateway. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<u16>,
}
