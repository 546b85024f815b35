//! One signal of OpenTelemetry: its URL, headers and time limit, else those of all signals.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{OtlpProtocol, TIMEOUT};
use crate::problems::Report;
use crate::values::duration::{self, RawDuration};
use crate::values::headers::{self, Headers};
use crate::values::http_url;
use crate::values::secret::Secret;

/// Destination of one signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignalExport {
    /// URL of every request, with the path of the signal, or of the method of gRPC.
    pub url: Url,
    /// Protocol of the collector's port.
    pub protocol: OtlpProtocol,
    /// HTTP headers of every request.
    pub headers: Headers,
    /// Time limit of one request.
    pub timeout: Duration,
    /// PEM file of certificate authorities that are trusted besides those of the system.
    pub ca_bundle_path: Option<PathBuf>,
}

/// Signals of OpenTelemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Traces,
    Metrics,
    Logs,
}

impl Signal {
    /// Name in keys of the file and in paths of collectors.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }

    /// Returns the URL of the signal's method of gRPC.
    fn method_url(self, collector: &Url) -> Url {
        let service = match self {
            Self::Traces => "trace.v1.TraceService",
            Self::Metrics => "metrics.v1.MetricsService",
            Self::Logs => "logs.v1.LogsService",
        };
        let mut url = collector.clone();
        url.set_path(&format!("/opentelemetry.proto.collector.{service}/Export"));
        url.set_query(None);
        url
    }

    /// Adds the signal's path to the base URL of a collector. A base that names the path of a signal, as
    /// `telemetry.endpoint` may, stands for the URL before it.
    pub(super) fn url(self, base: &Url) -> Url {
        let mut url = base.clone();
        let path = url.path().trim_end_matches('/').to_owned();
        let root = ["/v1/traces", "/v1/metrics", "/v1/logs"].iter().find_map(|end| path.strip_suffix(end));
        url.set_path(&format!("{}/v1/{}", root.unwrap_or(&path), self.name()));
        url
    }
}

/// True if a URL has more than scheme, host and port.
pub(super) fn has_path(url: &Url) -> bool {
    url.path() != "/" || url.query().is_some()
}

/// Reports a collector of gRPC whose URL has a path or a query.
pub(super) fn path_problem(path: &str, report: &mut Report) {
    let remedy = "write scheme, host and port alone, such as `http://collector:4317`, or remove `protocol`";
    report.problem(path, "gRPC has no place for the path of the URL", remedy);
}

/// Export of one signal.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "TelemetrySignal")]
pub struct RawSignal {
    /// Export this signal. `true` without any `endpoint` is a mistake.
    pub enabled: Option<bool>,
    /// Whole URL of this signal, used as it is, such as `https://metrics.example.com/otlp/v1/metrics`. It
    /// switches the signal on. Default: `telemetry.endpoint` with the signal's path.
    pub endpoint: Option<String>,
    /// Protocol of this signal. With `grpc`, `endpoint` has no path. Default: `telemetry.protocol`.
    pub protocol: Option<OtlpProtocol>,
    /// HTTP headers of this signal, in place of `telemetry.headers`.
    pub headers: Option<BTreeMap<String, Secret>>,
    /// Time limit of one export of this signal. Default: `telemetry.timeout`.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub timeout: Option<RawDuration>,
    /// PEM file of certificate authorities that the collector of this signal is trusted by, besides those of
    /// the system. Default: `telemetry.caBundlePath`.
    pub ca_bundle_path: Option<String>,
}

impl RawSignal {
    /// True if the file or a variable asks for the signal.
    pub(super) fn is_asked_for(&self) -> bool {
        self.enabled.unwrap_or(self.endpoint.is_some())
    }

    /// Returns the destination, or `None` without an endpoint. `general` is the collector of all signals.
    pub(super) fn validate(
        &self,
        signal: Signal,
        general: &General,
        report: &mut Report,
    ) -> Option<SignalExport> {
        let path = |key: &str| format!("telemetry.{}.{key}", signal.name());
        let own = self.headers.as_ref().map(|own| headers::validate(own, &path("headers"), report));
        let headers = own.unwrap_or_else(|| general.headers.clone());
        let limit = self.timeout.as_ref().map(|limit| limit.validate(&path("timeout"), &TIMEOUT, report));
        let timeout = limit.unwrap_or(general.timeout);
        let protocol = self.protocol.unwrap_or(general.protocol);
        let collector = match &self.endpoint {
            Some(endpoint) => http_url::validate(endpoint, &path("endpoint"), report),
            None => general.base.clone(),
        };
        let url = match protocol {
            OtlpProtocol::HttpProtobuf if self.endpoint.is_some() => collector,
            OtlpProtocol::HttpProtobuf => collector.map(|base| signal.url(&base)),
            OtlpProtocol::Grpc => {
                if collector.as_ref().is_some_and(has_path) {
                    match (&self.endpoint, general.protocol) {
                        (Some(_), _) => path_problem(&path("endpoint"), report),
                        (None, OtlpProtocol::HttpProtobuf) => path_problem(&path("protocol"), report),
                        // Reported with `telemetry.endpoint`.
                        (None, OtlpProtocol::Grpc) => {}
                    }
                }
                collector.map(|collector| signal.method_url(&collector))
            }
        };
        if self.enabled == Some(true) && self.endpoint.is_none() && !general.has_endpoint {
            let message = format!("there is nowhere to send {} to", signal.name());
            let remedy = "add `telemetry.endpoint`, such as `http://localhost:4318`";
            report.problem(&path("enabled"), message, remedy);
        }
        let own_bundle = self.ca_bundle_path.as_ref().map(PathBuf::from);
        let ca_bundle_path = own_bundle.or_else(|| general.ca_bundle_path.clone());
        Some(SignalExport { url: url?, protocol, headers, timeout, ca_bundle_path })
    }
}

/// Settings of all signals.
#[derive(Debug)]
pub(super) struct General {
    /// Base URL of the collector; `None` if it is missing or wrong.
    pub(super) base: Option<Url>,
    pub(super) protocol: OtlpProtocol,
    /// True if the file gives a collector, right or wrong.
    pub(super) has_endpoint: bool,
    pub(super) headers: Headers,
    pub(super) timeout: Duration,
    pub(super) ca_bundle_path: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_gets_the_path_of_the_signal() {
        let url = |base: &str| Signal::Metrics.url(&base.parse().unwrap()).to_string();
        for base in ["http://otel:4318", "http://otel:4318/", "http://otel:4318/v1/traces"] {
            assert_eq!(url(base), "http://otel:4318/v1/metrics", "{base}");
        }
        assert_eq!(url("https://x.example/otlp/?key=a"), "https://x.example/otlp/v1/metrics?key=a");
    }

    #[test]
    fn a_signal_has_authorities_of_its_own_or_those_of_all() {
        let file = "telemetry: { endpoint: 'https://otel:4318', caBundlePath: /ca/all.pem, \
                    metrics: { enabled: true, caBundlePath: /ca/metrics.pem } }";
        let telemetry = crate::load(file, "f", &|_| None).unwrap().config.telemetry;
        let found = [telemetry.traces, telemetry.metrics, telemetry.log_records];
        let bundles = found.map(|signal| signal.unwrap().ca_bundle_path.unwrap());
        assert_eq!(bundles, ["/ca/all.pem", "/ca/metrics.pem", "/ca/all.pem"].map(PathBuf::from));
    }

    #[test]
    fn grpc_has_a_method_for_each_signal() {
        let file = "telemetry: { endpoint: 'otel:4317', insecure: true, protocol: grpc, \
                    metrics: { enabled: true }, logs: { protocol: http/protobuf, enabled: true } }";
        let telemetry = crate::load(file, "f", &|_| None).unwrap().config.telemetry;
        let found = [telemetry.traces, telemetry.metrics, telemetry.logs].map(Option::unwrap);
        let service = "opentelemetry.proto.collector";
        let traces = format!("http://otel:4317/{service}.trace.v1.TraceService/Export");
        let metrics = format!("http://otel:4317/{service}.metrics.v1.MetricsService/Export");
        let urls = found.each_ref().map(|signal| signal.url.as_str());
        assert_eq!(urls, [traces.as_str(), metrics.as_str(), "http://otel:4317/v1/logs"]);
        let protocols = found.map(|signal| signal.protocol);
        assert_eq!(protocols, [OtlpProtocol::Grpc, OtlpProtocol::Grpc, OtlpProtocol::HttpProtobuf]);
    }
}
