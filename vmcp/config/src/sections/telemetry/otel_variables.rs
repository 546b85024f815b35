//! Variables of OpenTelemetry (`OTEL_*`), which count where the file is silent.
//!
//! Source: OpenTelemetry specification 1.50, "Environment Variable Specification" and "OpenTelemetry Protocol
//! Exporter". As the specification asks, a wrong value is a warning and is ignored.

mod values;

use serde_json::{Map, Value};
use url::Url;

use super::signal::Signal;
use super::{INTERVAL, OtlpProtocol, TIMEOUT};
use crate::problems::Report;
use crate::references::Environment;

/// Path of the section.
const SECTION: &str = "telemetry";
/// Key of the attributes of the resource. A variable adds the attributes that the file lacks.
const ATTRIBUTES: &str = "resourceAttributes";
/// Base URL of the collector of all signals.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Sampler of traces.
const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
/// Protocol of all signals.
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";

/// Names of the variables of one signal.
struct SignalVariables {
    signal: Signal,
    exporter: &'static str,
    endpoint: &'static str,
    protocol: &'static str,
    headers: &'static str,
    timeout: &'static str,
    certificate: &'static str,
}

const SIGNALS: [SignalVariables; 3] = [
    SignalVariables {
        signal: Signal::Traces,
        exporter: "OTEL_TRACES_EXPORTER",
        endpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        protocol: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        headers: "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        timeout: "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
        certificate: "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
    },
    SignalVariables {
        signal: Signal::Metrics,
        exporter: "OTEL_METRICS_EXPORTER",
        endpoint: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
        protocol: "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
        headers: "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
        timeout: "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
        certificate: "OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE",
    },
    SignalVariables {
        signal: Signal::Logs,
        exporter: "OTEL_LOGS_EXPORTER",
        endpoint: "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
        protocol: "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL",
        headers: "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
        timeout: "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT",
        certificate: "OTEL_EXPORTER_OTLP_LOGS_CERTIFICATE",
    },
];

/// Adds the values of variables to a configuration that lacks them.
pub(crate) fn fill(configuration: &mut Value, variables: Environment<'_>, report: &mut Report) {
    let Some(root) = configuration.as_object_mut() else { return };
    let silent = Map::new();
    let written = match root.get(SECTION) {
        Some(Value::Object(written)) => written,
        Some(Value::Null) | None => &silent,
        Some(_) => return,
    };
    let found = OtelVariables { variables, report, written }.settings();
    if found.is_empty() {
        return;
    }
    let section = root.entry(SECTION).or_insert(Value::Null);
    if section.is_null() {
        *section = Value::Object(Map::new());
    }
    let Some(section) = section.as_object_mut() else { return };
    for (key, value) in found {
        match (section.get_mut(&key), value) {
            (Some(Value::Object(own)), Value::Object(added)) if is_signal(&key) || key == ATTRIBUTES => {
                for (key, value) in added {
                    if own.get(&key).is_none_or(Value::is_null) {
                        own.insert(key, value);
                    }
                }
            }
            (Some(Value::Null) | None, value) => drop(section.insert(key, value)),
            (Some(_), _) => {}
        }
    }
}

/// True for the key of a signal's block.
fn is_signal(key: &str) -> bool {
    SIGNALS.iter().any(|variables| variables.signal.name() == key)
}

/// Returns the scheme, host and port of a URL: gRPC has paths of its own.
fn without_path(url: &str) -> Option<String> {
    let mut url = Url::parse(url).ok()?;
    url.set_path("");
    url.set_query(None);
    Some(url.to_string())
}

/// Reader of the variables, which reports their mistakes.
struct OtelVariables<'a, 'r> {
    variables: Environment<'a>,
    report: &'r mut Report,
    /// The section as the file has it.
    written: &'r Map<String, Value>,
}

impl OtelVariables<'_, '_> {
    /// Returns the settings that the variables give, by key of the section.
    fn settings(mut self) -> Map<String, Value> {
        let mut settings = Map::new();
        let is_grpc = |name: &str| name == OtlpProtocol::Grpc.name();
        let in_file = self.written.get("protocol").and_then(Value::as_str).map(is_grpc);
        let by_grpc = in_file.unwrap_or_else(|| self.word(PROTOCOL).is_some_and(|name| is_grpc(&name)));
        let mut endpoint = None;
        if !self.writes("endpoint") {
            endpoint = self.endpoint(ENDPOINT, by_grpc);
            if by_grpc {
                endpoint = endpoint.as_deref().and_then(without_path);
            }
        }
        for variables in &SIGNALS {
            self.signal(variables, endpoint.as_deref(), &mut settings);
        }
        // A base URL would also get the log records of audit events.
        let endpoint = endpoint.filter(|_| self.speaks_every_protocol());
        let mut attributes = self.attributes("OTEL_RESOURCE_ATTRIBUTES");
        let named = attributes.remove("service.name");
        // A server with an empty name would not start.
        let named = named.filter(|name| name.as_str().is_some_and(|name| !name.trim().is_empty()));
        let service = self.get("OTEL_SERVICE_NAME").map(Value::String).or(named);
        let headers = self.headers("OTEL_EXPORTER_OTLP_HEADERS");
        let map = |pairs: Map<String, Value>| (!pairs.is_empty()).then_some(Value::Object(pairs));
        let found = [
            ("serviceName", service),
            ("samplingRate", self.sampling_rate()),
            ("timeout", self.milliseconds("OTEL_EXPORTER_OTLP_TIMEOUT", &TIMEOUT)),
            ("metricsInterval", self.milliseconds("OTEL_METRIC_EXPORT_INTERVAL", &INTERVAL)),
            ("headers", map(headers)),
            ("caBundlePath", self.get("OTEL_EXPORTER_OTLP_CERTIFICATE").map(Value::String)),
            ("endpoint", endpoint.map(Value::String)),
            (ATTRIBUTES, map(attributes)),
        ];
        settings.extend(found.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        settings
    }

    /// True if the file has this key of the section.
    fn writes(&self, key: &str) -> bool {
        self.written.get(key).is_some_and(|value| !value.is_null())
    }

    /// Adds the settings of one signal. What the file says of all signals counts before a variable of one.
    /// `collector` is the base URL of all signals, if a variable gives it.
    fn signal(
        &mut self,
        variables: &SignalVariables,
        collector: Option<&str>,
        settings: &mut Map<String, Value>,
    ) {
        let name = variables.signal.name();
        let block = self.written.get(name);
        let written =
            |key: &str| block.and_then(|block| block.get(key)).is_some_and(|value| !value.is_null());
        let (has_endpoint, has_enabled) = (written("endpoint"), written("enabled"));
        let mut own = Map::new();
        let protocol = self.protocol(variables);
        let mut endpoint = None;
        if !has_endpoint && !self.writes("endpoint") {
            endpoint = self.endpoint(variables.endpoint, protocol == Ok(OtlpProtocol::Grpc));
        }
        let mut is_wanted = self.is_wanted(variables.exporter);
        if variables.signal == Signal::Traces && self.drops_every_trace() {
            is_wanted = Some(false);
        }
        let is_given = collector.is_some() || endpoint.is_some();
        if has_endpoint {
            // The file asks for the signal: no variable switches it off.
            is_wanted = is_wanted.filter(|is_wanted| *is_wanted);
        } else if is_given {
            match protocol {
                Err(fault) => {
                    let name = if endpoint.is_some() { variables.endpoint } else { ENDPOINT };
                    self.ignored(name, &fault, "use `http/protobuf` or `grpc`");
                    (endpoint, is_wanted) = (None, Some(false));
                }
                Ok(OtlpProtocol::Grpc) => {
                    endpoint = endpoint.as_deref().or(collector).and_then(without_path);
                    own.insert("protocol".to_owned(), OtlpProtocol::Grpc.name().into());
                }
                Ok(OtlpProtocol::HttpProtobuf) if endpoint.is_none() && !self.speaks_every_protocol() => {
                    // The base URL is left out then, because the collector takes some signals alone.
                    let base = collector.and_then(|collector| Url::parse(collector).ok());
                    endpoint = base.map(|base| variables.signal.url(&base).to_string());
                }
                Ok(OtlpProtocol::HttpProtobuf) => {}
            }
        }
        if !self.writes("headers") {
            let headers = self.headers(variables.headers);
            own.extend((!headers.is_empty()).then_some(("headers".to_owned(), Value::Object(headers))));
        }
        if !self.writes("caBundlePath") {
            let bundle = self.get(variables.certificate).map(Value::String);
            own.extend(bundle.map(|bundle| ("caBundlePath".to_owned(), bundle)));
        }
        if !self.writes("timeout") {
            let limit = self.milliseconds(variables.timeout, &TIMEOUT);
            own.extend(limit.map(|limit| ("timeout".to_owned(), limit)));
        }
        own.extend(endpoint.map(|endpoint| ("endpoint".to_owned(), Value::String(endpoint))));
        let is_enabled = match is_wanted {
            Some(false) => Some(false),
            // By the specification, a collector gets all signals.
            Some(true) if is_given || has_endpoint || self.writes("endpoint") => Some(true),
            None if is_given => Some(true),
            _ => None,
        };
        match (is_enabled, variables.signal) {
            (Some(false), Signal::Traces) if !has_enabled => {
                settings.insert("tracingEnabled".to_owned(), Value::Bool(false));
            }
            (Some(enabled), Signal::Metrics | Signal::Logs) => {
                own.insert("enabled".to_owned(), Value::Bool(enabled));
            }
            _ => {}
        }
        if !own.is_empty() {
            settings.insert(name.to_owned(), Value::Object(own));
        }
    }

    /// Returns the decision of a variable such as `OTEL_METRICS_EXPORTER`; `None` if it makes none.
    fn is_wanted(&mut self, name: &str) -> Option<bool> {
        if self.get("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return Some(false);
        }
        let exporters = self.word(name)?;
        let exporters: Vec<_> = exporters.split(',').map(str::trim).collect();
        if exporters.contains(&"otlp") {
            return Some(true);
        }
        // Prometheus is `telemetry.metricsEnabled`, on by default.
        if exporters.iter().all(|exporter| ["none", "prometheus"].contains(exporter)) {
            return Some(false);
        }
        self.ignored(name, "it names no exporter that is known here", "use otlp or none");
        None
    }

    /// True for the sampler that keeps no trace, whatever the caller decided. `parentbased_always_off` keeps
    /// the traces that the caller samples.
    fn drops_every_trace(&self) -> bool {
        !self.writes("samplingRate") && self.word(SAMPLER).as_deref() == Some("always_off")
    }

    /// True if vmcp speaks the protocol of every signal.
    fn speaks_every_protocol(&self) -> bool {
        SIGNALS.iter().all(|variables| self.protocol(variables).is_ok())
    }

    /// Returns the protocol of a signal, or why it cannot be spoken. A variable does not change the protocol
    /// that the file has.
    fn protocol(&self, variables: &SignalVariables) -> Result<OtlpProtocol, String> {
        let block = self.written.get(variables.signal.name());
        let written = [block.and_then(|block| block.get("protocol")), self.written.get("protocol")];
        if let Some(written) = written.into_iter().flatten().find_map(Value::as_str) {
            // The check of the file names an unknown one.
            return Ok(OtlpProtocol::of_name(written).unwrap_or_default());
        }
        let Some((name, protocol)) = self.first(&[variables.protocol, PROTOCOL]) else {
            return Ok(OtlpProtocol::default());
        };
        let unknown = || format!("{name} is `{protocol}`, and vmcp exports by `http/protobuf` and `grpc`");
        OtlpProtocol::of_name(&protocol.to_ascii_lowercase()).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests;
