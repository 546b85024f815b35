//! How a VirtualMCPServer is, as the operator last saw it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a VirtualMCPServer is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct VirtualMCPServerStatus {
    /// How it is, in a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// What is wrong and what to do, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Where clients inside of the cluster reach it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
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
    /// How many backends can be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_count: Option<i32>,
    /// How many tools they have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_count: Option<i32>,
    /// SHA-256 of the configuration that all pods have in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_digest: Option<String>,
    /// What is true of it.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Its backends.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub discovered_backends: Vec<DiscoveredBackend>,
}

/// How a VirtualMCPServer is, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// It is starting.
    Pending,
    /// It serves, and nothing is wrong.
    Ready,
    /// It serves, without something that it should have.
    Degraded,
    /// It does not serve.
    Failed,
}

/// A backend, as the pods see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiscoveredBackend {
    /// Its name.
    pub name: String,
    /// Where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// How it is.
    pub status: BackendState,
    /// The revision of the protocol that it speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_revision: Option<String>,
    /// How many tools it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_count: Option<i32>,
    /// Whether calls to it are tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub circuit_breaker_state: Option<CircuitBreakerState>,
    /// What is wrong with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How a backend is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BackendState {
    /// It can be called.
    Ready,
    /// It can be called, but not from all pods or not with all that it should have.
    Degraded,
    /// It cannot be called.
    Unavailable,
    /// It wants credentials, or refuses those that it is given.
    Unauthenticated,
    /// No pod has told yet.
    Unknown,
}

/// Whether calls to a backend are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CircuitBreakerState {
    /// They are.
    Closed,
    /// They fail at once.
    Open,
    /// One is, to see whether it recovered.
    HalfOpen,
}
