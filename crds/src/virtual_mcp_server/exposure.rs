//! How a server scales, and who reaches it.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fields::cel_rules::rules;

/// Type of a Service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceType {
    /// Reached inside of the cluster.
    #[default]
    ClusterIP,
    /// Reached at a port of every node.
    NodePort,
    /// Reached through a load balancer of the cloud.
    LoadBalancer,
}

impl ServiceType {
    /// As a Service says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClusterIP => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::LoadBalancer => "LoadBalancer",
        }
    }
}

/// As many pods as the load needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "self.minReplicas <= self.maxReplicas",
    "minReplicas is more than maxReplicas; lower it, or raise maxReplicas",
)])))]
pub struct Autoscaling {
    /// At least this many.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000))]
    pub min_replicas: i32,
    /// At most this many.
    #[schemars(range(min = 1, max = 1000))]
    pub max_replicas: i32,
    /// How busy they should be, in percent of the CPU that `resources` asks for.
    #[serde(rename = "targetCPUUtilizationPercentage", default = "eighty")]
    #[schemars(range(min = 1, max = 1000))]
    pub target_cpu_utilization_percentage: i32,
}

fn one() -> i32 {
    1
}

fn eighty() -> i32 {
    80
}

/// A percentage.
const SHARE: &str = "^(100|[0-9]{1,2})%$";

/// How many pods may be evicted at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "has(self.minAvailable) != has(self.maxUnavailable)",
    "minAvailable and maxUnavailable are both given, or neither is; give exactly one of them",
)])))]
pub struct PodDisruptionBudget {
    /// Keep at least this many, or this percentage.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0, "pattern" = SHARE))]
    pub min_available: Option<IntOrString>,
    /// Evict at most this many, or this percentage.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0, "pattern" = SHARE))]
    pub max_unavailable: Option<IntOrString>,
}

/// Who may connect to the pods.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct NetworkPolicy {
    /// `false`: no NetworkPolicy is made.
    pub enabled: bool,
    /// Who may connect to the client port. Empty: anybody.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub ingress_from: Vec<NetworkPolicyPeer>,
}

impl Default for NetworkPolicy {
    fn default() -> Self {
        Self { enabled: true, ingress_from: Vec::new() }
    }
}

/// Have the Prometheus operator read the metrics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceMonitor {
    /// `false`: no ServiceMonitor is made.
    pub enabled: bool,
    /// How often. Default: as Prometheus does by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = r"^(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?$"))]
    pub interval: Option<String>,
    /// Labels by which a Prometheus finds it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,
}

impl Default for ServiceMonitor {
    fn default() -> Self {
        Self { enabled: true, interval: None, labels: BTreeMap::new() }
    }
}

/// Reach it through a gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpRoute {
    /// The gateways.
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub parent_refs: Vec<ParentReference>,
    /// Values of `Host` that are routed here. Empty: those of the gateway.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub hostnames: Vec<String>,
    /// What a routed path begins with.
    #[serde(default = "mcp_path")]
    #[schemars(length(max = 1024), regex(pattern = r"^/[^\s?#]*$"))]
    pub path: String,
}

fn mcp_path() -> String {
    "/mcp".to_owned()
}

/// A gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParentReference {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its namespace. Default: this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// Its listener. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub section_name: Option<String>,
    /// Its port. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<u16>,
}
