//! MCPTelemetryConfig: where traces and metrics go and whether metrics are served, for many servers.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vmcp_config::OtlpProtocol;

use crate::fields::cel_rules::rules;
use crate::fields::headers::{HEADER_IN_BOTH, SensitiveHeader};
use crate::fields::references::CaBundleReference;
use crate::fields::yaml_block::Block;

/// Telemetry settings shared by the VirtualMCPServers whose `telemetryConfigRef` names them.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "toolhive.stacklok.com",
    version = "v1alpha1",
    kind = "MCPTelemetryConfig",
    plural = "mcptelemetryconfigs",
    namespaced,
    schema = "disabled",
    status = "MCPTelemetryConfigStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "mcpotel",
    category = "mcp",
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".spec.openTelemetry.endpoint"),
    printcolumn(
        name = "Valid",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Valid")].status"#
    ),
    printcolumn(name = "Tracing", type_ = "boolean", json_path = ".spec.openTelemetry.tracing.enabled"),
    printcolumn(name = "Metrics", type_ = "boolean", json_path = ".spec.prometheus.enabled"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(default, rename_all = "camelCase")]
pub struct MCPTelemetryConfigSpec {
    /// Export of traces and metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_telemetry: Option<OpenTelemetry>,
    /// Metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<Prometheus>,
}

/// Export by the OpenTelemetry protocol (OTLP), over HTTP or gRPC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    HEADER_IN_BOTH,
    (
        "!self.enabled || !has(self.tracing) || !self.tracing.enabled || has(self.endpoint)",
        "traces have nowhere to go; give endpoint, such as http://collector:4318",
    ),
    (
        "!self.enabled || !has(self.metrics) || !self.metrics.enabled || has(self.endpoint)",
        "metrics have nowhere to go; give endpoint, such as http://collector:4318",
    ),
])))]
pub struct OpenTelemetry {
    /// `false`: nothing is exported.
    pub enabled: bool,
    /// Collector, such as `https://collector:4318` or `collector:4318`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub endpoint: Option<String>,
    /// Protocol of the collector's port. Default: `http/protobuf`. With `grpc`, `endpoint` is scheme, host
    /// and port alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<OtlpProtocol>,
    /// Uses http instead of https for an `endpoint` without a scheme.
    pub insecure: bool,
    /// Headers sent to the collector whose values are not secret. At most 64.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub headers: BTreeMap<String, String>,
    /// Headers sent to the collector whose values are in Secrets. At most 64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub sensitive_headers: Vec<SensitiveHeader>,
    /// Certificates of authorities that the collector is trusted by, besides those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_bundle_ref: Option<CaBundleReference>,
    /// Traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracing: Option<Tracing>,
    /// Metrics, beside those at `/metrics`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<MetricsExport>,
    /// Attributes of the server in its exports, such as `deployment.environment.name`. At most 64.
    /// `service.name` is `serviceName` of the reference.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub resource_attributes: BTreeMap<String, String>,
    /// Fields that are accepted and not followed yet, as written.
    #[serde(flatten)]
    #[schemars(skip)]
    pub pending: Block,
}

/// Export of traces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Tracing {
    /// `true`: traces are exported.
    pub enabled: bool,
    /// Share of traces that are kept, from "0" to "1". The sampling decision of a calling client is followed.
    #[schemars(regex(pattern = r"^(0(\.\d+)?|1(\.0+)?)$"))]
    pub sampling_rate: String,
}

impl Default for Tracing {
    fn default() -> Self {
        Self { enabled: false, sampling_rate: "0.05".to_owned() }
    }
}

/// Export of metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MetricsExport {
    /// `true`: metrics are exported once a minute.
    pub enabled: bool,
}

/// Metrics for Prometheus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Prometheus {
    /// Serves metrics at `/metrics` of the admin port.
    pub enabled: bool,
}

impl Default for Prometheus {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// Observed state of an MCPTelemetryConfig.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MCPTelemetryConfigStatus {
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the configuration; `Valid` says what is wrong.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
