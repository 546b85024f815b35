//! `status` of a VirtualMCPServer, as the operator last observed it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Observed state of a VirtualMCPServer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct VirtualMCPServerStatus {
    /// State in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// One sentence: what is wrong and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// URL of the MCP endpoint inside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
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
    /// Number of backends that can be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_count: Option<i32>,
    /// Number of tools that they offer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_count: Option<i32>,
    /// Value of the annotation `toolhive.stacklok.com/restarted-at` that the pod template has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarted_at: Option<String>,
    /// SHA-256 of the configuration that all pods have in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_digest: Option<String>,
    /// Conditions of the server; `Ready` sums them up.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Number of backends that `discoveredBackends` leaves out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub omitted_backends: Option<i32>,
    /// Backends as the pods see them, in at most 256 KiB; of more, broken backends come first.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub discovered_backends: Vec<DiscoveredBackend>,
}

/// State of a VirtualMCPServer in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Pods are starting.
    Pending,
    /// The server answers, and nothing is wrong.
    Ready,
    /// The server answers, but something that it should have is missing; `message` says what.
    Degraded,
    /// The server does not answer.
    Failed,
    /// No pods run, because `spec.suspend` is true.
    Suspended,
}

/// A backend, as the pods see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiscoveredBackend {
    /// Name of the backend.
    pub name: String,
    /// URL of its MCP endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// State of the backend; the worst that a pod reports.
    pub status: BackendState,
    /// Protocol revision that it speaks, such as `2025-11-25`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_revision: Option<String>,
    /// Number of tools that it offers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_count: Option<i32>,
    /// State of its circuit breaker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub circuit_breaker_state: Option<CircuitBreakerState>,
    /// Reason why the backend is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// State of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BackendState {
    /// The backend can be called.
    Ready,
    /// The backend can be called, but not from all pods, or not with all that it should offer.
    Degraded,
    /// The backend cannot be called.
    Unavailable,
    /// The backend wants credentials, or refuses the given ones.
    Unauthenticated,
    /// No pod has reported yet.
    Unknown,
}

/// State of a circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CircuitBreakerState {
    /// Calls are sent.
    Closed,
    /// Calls fail at once.
    Open,
    /// One call is sent to find out whether the backend recovered.
    HalfOpen,
}
