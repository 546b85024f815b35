//! `telemetry`: export of traces, metrics and log lines by OTLP over HTTP or gRPC, and Prometheus metrics on
//! the admin port.

pub(crate) mod otel_variables;
mod protocol;
mod signal;
mod trace_url;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::protocol::OtlpProtocol;
use self::signal::{General, Signal, has_path};
pub use self::signal::{RawSignal, SignalExport};
pub use self::trace_url::TraceUrl;
use crate::problems::Report;
use crate::values::decimal::RawDecimal;
use crate::values::duration::{self, RawDuration};
use crate::values::headers;
use crate::values::http_url;
use crate::values::secret::Secret;

/// Time limits of an export that are accepted.
const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_mins(10);

/// Intervals of metric exports that are accepted.
const INTERVAL: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(1);

/// Validated settings of traces, metrics and log records.
#[derive(Debug, Clone, PartialEq)]
pub struct Telemetry {
    /// Value of the resource attribute `service.name`.
    pub service_name: String,
    /// Share of the traces started here that are sampled, from 0 to 1. The sampling decision of a caller's
    /// `traceparent` is followed.
    pub sampling_rate: f32,
    /// Attributes of the resource beside `service.name`.
    pub resource_attributes: BTreeMap<String, String>,
    /// Export of spans; `None`: none.
    pub traces: Option<SignalExport>,
    /// Export of metrics; `None`: none.
    pub metrics: Option<SignalExport>,
    /// Time between two exports of metrics.
    pub metrics_interval: Duration,
    /// Export of log lines; `None`: none.
    pub logs: Option<SignalExport>,
    /// The address of log records, also where log lines stay here: audit events go there.
    pub log_records: Option<SignalExport>,
    /// True if the admin port serves `/metrics`.
    pub metrics_enabled: bool,
    /// Address of a trace in the tracing system; `None`: the console links to none.
    pub trace_url: Option<TraceUrl>,
}

/// Traces, metrics and log records. Where the file is silent, the variables of OpenTelemetry count, such as
/// `OTEL_EXPORTER_OTLP_ENDPOINT`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Telemetry")]
pub struct RawTelemetry {
    /// OTLP collector: `https://collector:4318`, or `collector:4318`. Over HTTP, `/v1/traces`, `/v1/metrics`
    /// and `/v1/logs` are added. Without it, only signals with an `endpoint` of their own are exported.
    pub endpoint: Option<String>,
    /// Protocol of exports. A collector has a port for each, mostly 4318 for `http/protobuf` and 4317 for
    /// `grpc`.
    pub protocol: OtlpProtocol,
    /// Name of this server in its exports (`service.name`).
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
    /// PEM file of certificate authorities that the collector is trusted by, besides those of the system. It
    /// is read at the start.
    pub ca_bundle_path: Option<String>,
    /// Attributes of this server in its exports beside `service.name`, such as
    /// `deployment.environment.name`.
    pub resource_attributes: BTreeMap<String, String>,
    /// Read an `endpoint` without a scheme as http rather than https.
    pub insecure: bool,
    /// Export traces. Default: `true` if there is an `endpoint`. `true` without an `endpoint` is a mistake.
    pub tracing_enabled: Option<bool>,
    /// Export of traces, where it differs. Its `enabled` is `tracingEnabled`.
    pub traces: RawSignal,
    /// Export of metrics, beside `/metrics`. Off by default.
    pub metrics: RawSignal,
    /// Time between two exports of metrics.
    #[schemars(extend("x-range" = duration::words(&INTERVAL)))]
    pub metrics_interval: RawDuration,
    /// Export of log lines, beside standard error. Off by default. `audit.otlp` uses its address too.
    pub logs: RawSignal,
    /// Serve Prometheus metrics at `/metrics` on the admin port.
    pub metrics_enabled: bool,
    /// Address of a trace in your tracing system, with `{traceId}` in place of its id, such as
    /// `https://jaeger.example.com/trace/{traceId}`. The web console links the page of a call to it.
    pub trace_url: Option<String>,
}

impl Default for RawTelemetry {
    fn default() -> Self {
        Self {
            endpoint: None,
            protocol: OtlpProtocol::default(),
            service_name: "vmcp".to_owned(),
            sampling_rate: "0.05".into(),
            headers: BTreeMap::new(),
            timeout: "10s".into(),
            ca_bundle_path: None,
            resource_attributes: BTreeMap::new(),
            insecure: false,
            tracing_enabled: None,
            traces: RawSignal::default(),
            metrics: RawSignal::default(),
            metrics_interval: "60s".into(),
            logs: RawSignal::default(),
            metrics_enabled: true,
            trace_url: None,
        }
    }
}

impl RawTelemetry {
    pub(crate) fn validate(&self, report: &mut Report) -> Telemetry {
        let general = &self.general(report);
        if self.tracing_enabled.is_some() && self.traces.enabled.is_some() {
            report.problem(
                "telemetry.traces.enabled",
                "set twice",
                "remove it, or `telemetry.tracingEnabled`",
            );
        }
        if self.tracing_enabled == Some(true) && self.endpoint.is_none() && self.traces.endpoint.is_none() {
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
        let traces = self.traces.validate(Signal::Traces, general, report);
        let metrics = self.metrics.validate(Signal::Metrics, general, report);
        let log_records = self.logs.validate(Signal::Logs, general, report);
        let is_enabled = self.tracing_enabled.or(self.traces.enabled).unwrap_or(true);
        Telemetry {
            service_name: self.service_name.clone(),
            sampling_rate: self.sampling_rate.validate("telemetry.samplingRate", &(0.0..=1.0), report),
            resource_attributes: self.resource_attributes.clone(),
            traces: traces.filter(|_| is_enabled),
            metrics: metrics.filter(|_| self.metrics.is_asked_for()),
            metrics_interval: self.metrics_interval.validate("telemetry.metricsInterval", &INTERVAL, report),
            logs: log_records.clone().filter(|_| self.logs.is_asked_for()),
            log_records,
            metrics_enabled: self.metrics_enabled,
            trace_url: self.trace_url.as_ref().and_then(|text| TraceUrl::validate(text, report)),
        }
    }

    /// Returns the settings of all signals.
    fn general(&self, report: &mut Report) -> General {
        let scheme = if self.insecure { "http" } else { "https" };
        let whole = |endpoint: &String| {
            if endpoint.contains("://") { endpoint.clone() } else { format!("{scheme}://{endpoint}") }
        };
        let whole = self.endpoint.as_ref().map(whole);
        let base = whole.and_then(|whole| http_url::validate(&whole, "telemetry.endpoint", report));
        if self.protocol == OtlpProtocol::Grpc && base.as_ref().is_some_and(has_path) {
            signal::path_problem("telemetry.endpoint", report);
        }
        General {
            base,
            protocol: self.protocol,
            has_endpoint: self.endpoint.is_some(),
            headers: headers::validate(&self.headers, "telemetry.headers", report),
            timeout: self.timeout.validate("telemetry.timeout", &TIMEOUT, report),
            ca_bundle_path: self.ca_bundle_path.as_ref().map(PathBuf::from),
        }
    }
}
