//! `telemetry`: export of traces by OTLP over HTTP, and Prometheus metrics on the admin port.

pub(crate) mod otel_variables;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::problems::Report;
use crate::values::decimal::RawDecimal;
use crate::values::duration::{self, RawDuration};
use crate::values::headers::{self, Headers};
use crate::values::http_url;
use crate::values::secret::Secret;

/// Time limits of an export that are accepted.
const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_mins(10);

/// Validated settings of traces and metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Telemetry {
    /// OTLP/HTTP collector: its base URL, to which `/v1/traces` is added. `None`: no traces are exported.
    pub endpoint: Option<Url>,
    /// Value of the resource attribute `service.name`.
    pub service_name: String,
    /// Share of the traces started here that are sampled, from 0 to 1. The sampling decision of a caller's
    /// `traceparent` is followed.
    pub sampling_rate: f32,
    /// HTTP headers of every export.
    pub headers: Headers,
    /// Time limit of one export.
    pub timeout: Duration,
    /// Attributes of the resource beside `service.name`.
    pub resource_attributes: BTreeMap<String, String>,
    /// True if spans are exported; never without an endpoint.
    pub tracing_enabled: bool,
    /// True if the admin port serves `/metrics`.
    pub metrics_enabled: bool,
}

/// Traces and metrics. Where the file is silent, the variables of OpenTelemetry count, such as
/// `OTEL_EXPORTER_OTLP_ENDPOINT`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Telemetry")]
pub struct RawTelemetry {
    /// OTLP/HTTP collector that traces are sent to: `https://collector:4318`, or `collector:4318`.
    /// `/v1/traces` is added. Without it, nothing is exported.
    pub endpoint: Option<String>,
    /// Name of this server in traces (`service.name`).
    pub service_name: String,
    /// Share of the traces started here that are sampled, from "0" to "1". The sampling decision of a
    /// caller's `traceparent` is followed.
    #[schemars(extend("x-range" = "0 to 1"))]
    pub sampling_rate: RawDecimal,
    /// HTTP headers sent to the collector, such as `Authorization`.
    pub headers: BTreeMap<String, Secret>,
    /// Time limit of one export.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub timeout: RawDuration,
    /// Attributes of this server in traces and audit events beside `service.name`, such as
    /// `deployment.environment.name`.
    pub resource_attributes: BTreeMap<String, String>,
    /// Read an `endpoint` without a scheme as http rather than https.
    pub insecure: bool,
    /// Export traces. Default: `true` if there is an `endpoint`. `true` without an `endpoint` is a mistake.
    pub tracing_enabled: Option<bool>,
    /// Serve Prometheus metrics at `/metrics` on the admin port.
    pub metrics_enabled: bool,
}

impl Default for RawTelemetry {
    fn default() -> Self {
        Self {
            endpoint: None,
            service_name: "vmcp".to_owned(),
            sampling_rate: "0.05".into(),
            headers: BTreeMap::new(),
            timeout: "10s".into(),
            resource_attributes: BTreeMap::new(),
            insecure: false,
            tracing_enabled: None,
            metrics_enabled: true,
        }
    }
}

impl RawTelemetry {
    pub(crate) fn validate(&self, report: &mut Report) -> Telemetry {
        let path = "telemetry.endpoint";
        let endpoint = self.endpoint.as_ref().and_then(|endpoint| {
            let scheme = if self.insecure { "http" } else { "https" };
            if endpoint.contains("://") {
                http_url::validate(endpoint, path, report)
            } else {
                http_url::validate(&format!("{scheme}://{endpoint}"), path, report)
            }
        });
        if self.tracing_enabled == Some(true) && self.endpoint.is_none() {
            report.problem(
                "telemetry.tracingEnabled",
                "there is nowhere to send traces to",
                "add `telemetry.endpoint`, such as `http://localhost:4318`",
            );
        }
        if self.resource_attributes.contains_key("service.name") {
            let remedy = "use `telemetry.serviceName`";
            report.problem("telemetry.resourceAttributes.service.name", "set twice", remedy);
        }
        if self.service_name.trim().is_empty() {
            report.problem("telemetry.serviceName", "empty", "remove it, or name this server");
        }
        Telemetry {
            tracing_enabled: endpoint.is_some() && self.tracing_enabled != Some(false),
            endpoint,
            service_name: self.service_name.clone(),
            sampling_rate: self.sampling_rate.validate("telemetry.samplingRate", &(0.0..=1.0), report),
            headers: headers::validate(&self.headers, "telemetry.headers", report),
            timeout: self.timeout.validate("telemetry.timeout", &TIMEOUT, report),
            resource_attributes: self.resource_attributes.clone(),
            metrics_enabled: self.metrics_enabled,
        }
    }
}
