//! Variables of OpenTelemetry (`OTEL_*`), which count where the file is silent.
//!
//! Source: OpenTelemetry specification 1.50, "Environment Variable Specification" and "OpenTelemetry Protocol
//! Exporter". As the specification asks, a wrong value is a warning and is ignored.

mod values;

use serde_json::{Map, Value};
use url::Url;

use super::signal::Signal;
use super::{INTERVAL, PROTOCOL, TIMEOUT};
use crate::problems::Report;
use crate::references::Environment;

/// Path of the section.
const SECTION: &str = "telemetry";
/// Base URL of the collector of all signals.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Names of the variables of one signal.
struct SignalVariables {
    signal: Signal,
    exporter: &'static str,
    endpoint: &'static str,
    protocol: &'static str,
    headers: &'static str,
    timeout: &'static str,
}

const SIGNALS: [SignalVariables; 3] = [
    SignalVariables {
        signal: Signal::Traces,
        exporter: "OTEL_TRACES_EXPORTER",
        endpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        protocol: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        headers: "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        timeout: "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    },
    SignalVariables {
        signal: Signal::Metrics,
        exporter: "OTEL_METRICS_EXPORTER",
        endpoint: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
        protocol: "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
        headers: "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
        timeout: "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
    },
    SignalVariables {
        signal: Signal::Logs,
        exporter: "OTEL_LOGS_EXPORTER",
        endpoint: "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
        protocol: "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL",
        headers: "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
        timeout: "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT",
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
            (Some(Value::Object(own)), Value::Object(added)) if is_signal(&key) => {
                for (key, value) in added {
                    if own.get(&key).is_none_or(Value::is_null) {
                        own.insert(key, value);
                    }
                }
            }
            (Some(_), _) => {}
            (None, value) => drop(section.insert(key, value)),
        }
    }
}

/// True for the key of a signal's block.
fn is_signal(key: &str) -> bool {
    SIGNALS.iter().any(|variables| variables.signal.name() == key)
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
        let endpoint = if self.writes("endpoint") { None } else { self.endpoint(ENDPOINT) };
        for variables in &SIGNALS {
            self.signal(variables, endpoint.as_deref(), &mut settings);
        }
        // A base URL would also get the log records of audit events.
        let endpoint = endpoint.filter(|_| self.speaks_every_protocol());
        let mut attributes = self.pairs("OTEL_RESOURCE_ATTRIBUTES");
        let named = attributes.remove("service.name");
        let service = self.get("OTEL_SERVICE_NAME").map(Value::String).or(named);
        let headers = self.headers("OTEL_EXPORTER_OTLP_HEADERS");
        let map = |pairs: Map<String, Value>| (!pairs.is_empty()).then_some(Value::Object(pairs));
        let found = [
            ("serviceName", service),
            ("samplingRate", self.sampling_rate()),
            ("timeout", self.milliseconds("OTEL_EXPORTER_OTLP_TIMEOUT", &TIMEOUT)),
            ("metricsInterval", self.milliseconds("OTEL_METRIC_EXPORT_INTERVAL", &INTERVAL)),
            ("headers", map(headers)),
            ("endpoint", endpoint.map(Value::String)),
            ("resourceAttributes", map(attributes)),
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
        let mut endpoint = None;
        if !has_endpoint && !self.writes("endpoint") {
            endpoint = self.endpoint(variables.endpoint);
        }
        let mut is_wanted = self.is_wanted(variables.exporter);
        let is_given = collector.is_some() || endpoint.is_some();
        if has_endpoint {
            // The file asks for the signal: no variable switches it off.
            is_wanted = is_wanted.filter(|is_wanted| *is_wanted);
        } else if is_given && let Some(fault) = self.protocol_fault(variables.protocol) {
            let name = if endpoint.is_some() { variables.endpoint } else { ENDPOINT };
            let remedy = "set `telemetry.endpoint` to the collector's port of OTLP over HTTP, mostly 4318";
            self.ignored(name, &fault, remedy);
            (endpoint, is_wanted) = (None, Some(false));
        } else if endpoint.is_none() && !self.speaks_every_protocol() {
            // The base URL is left out then, because the collector takes some signals alone.
            let base = collector.and_then(|collector| Url::parse(collector).ok());
            endpoint = base.map(|base| variables.signal.url(&base).to_string());
        }
        if !self.writes("headers") {
            let headers = self.headers(variables.headers);
            own.extend((!headers.is_empty()).then_some(("headers".to_owned(), Value::Object(headers))));
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
        let exporters = self.get(name)?;
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

    /// True if vmcp speaks the protocol of every signal.
    fn speaks_every_protocol(&self) -> bool {
        SIGNALS.iter().all(|variables| self.protocol_fault(variables.protocol).is_none())
    }

    /// Returns why the protocol of a signal cannot be spoken.
    fn protocol_fault(&self, name: &'static str) -> Option<String> {
        let (name, protocol) = self.first(&[name, "OTEL_EXPORTER_OTLP_PROTOCOL"])?;
        (protocol != PROTOCOL).then(|| format!("{name} is `{protocol}`, and vmcp exports `{PROTOCOL}`"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::references::{Files, ReferenceSources};
    use crate::{Loaded, load_from};

    fn loaded(text: &str, variables: &[(&str, &str)]) -> Loaded {
        let value = |name: &str| {
            let (_, value) = variables.iter().find(|(known, _)| *known == name)?;
            Some((*value).to_owned())
        };
        let none: Files<'_> = &|_| Ok(None);
        let sources = ReferenceSources { variables: &|_| None, settings: &value, files: none, secrets: none };
        load_from(text, "vmcp.yaml", sources, &|_| Vec::new()).unwrap()
    }

    #[test]
    fn variables_count_where_the_file_is_silent() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b,x-team=tools"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=ignored,deployment.environment.name=test"),
            ("OTEL_SERVICE_NAME", "gateway"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ];
        let telemetry = loaded("{}", &variables).config.telemetry;
        assert_eq!((telemetry.service_name.as_str(), telemetry.sampling_rate), ("gateway", 0.25));
        let traces = telemetry.traces.unwrap();
        assert_eq!(traces.url.as_str(), "http://collector:4318/v1/traces");
        assert_eq!(traces.timeout, Duration::from_millis(2_500));
        assert_eq!(telemetry.metrics.unwrap().url.as_str(), "http://collector:4318/v1/metrics");
        assert_eq!(telemetry.logs.unwrap().url.as_str(), "http://collector:4318/v1/logs");
        let headers: Vec<_> = traces.headers.iter().map(|(name, value)| (&**name, value.expose())).collect();
        assert_eq!(headers, [("x-key", "a b"), ("x-team", "tools")]);
        assert_eq!(telemetry.resource_attributes["deployment.environment.name"], "test");

        let file = "telemetry: { endpoint: 'http://mine:4318', serviceName: mine, samplingRate: 1 }";
        let telemetry = loaded(file, &variables).config.telemetry;
        assert_eq!(telemetry.traces.unwrap().url.as_str(), "http://mine:4318/v1/traces");
        assert!(telemetry.metrics.is_none() && telemetry.logs.is_none(), "the file gives the collector");
        assert_eq!((telemetry.service_name.as_str(), telemetry.sampling_rate), ("mine", 1.0));
    }

    #[test]
    fn a_wrong_value_is_a_warning_that_names_its_variable() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317");
        let long = format!("x-key={}", "a".repeat(8_193));
        let many = (0..65).map(|number| format!("x-{number}=a")).collect::<Vec<_>>().join(",");
        for (variable, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a-secret-without-a-name"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "baggage=a-secret"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x=%C3%A9"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "X-Key=a-secret,x-key=b"),
            ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "x=%C3%A9"),
            ("OTEL_EXPORTER_OTLP_HEADERS", long.as_str()),
            ("OTEL_EXPORTER_OTLP_HEADERS", many.as_str()),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:a-secret@collector:4318"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4318"),
            ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc"),
            ("OTEL_METRICS_EXPORTER", "statsd"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "1"),
        ] {
            let warnings = loaded("{}", &[(variable, value), endpoint]).warnings;
            let said = warnings.iter().find(|warning| warning.message.contains(variable));
            let said = said.unwrap_or_else(|| panic!("{variable}: {warnings:?}"));
            assert!(!said.message.contains("a-secret"), "{said:?}");
        }
    }

    #[test]
    fn a_disabled_sdk_exports_nothing() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");
        let exported = |variable: (&str, &str)| {
            let telemetry = loaded("{}", &[endpoint, variable]).config.telemetry;
            [telemetry.traces, telemetry.metrics, telemetry.logs].map(|signal| signal.is_some())
        };
        assert_eq!(exported(("OTEL_SDK_DISABLED", "true")), [false; 3]);
        assert_eq!(exported(("OTEL_TRACES_EXPORTER", "none")), [false, true, true]);
        assert_eq!(exported(("OTEL_METRICS_EXPORTER", "prometheus")), [true, false, true]);
        assert_eq!(exported(("OTEL_LOGS_EXPORTER", "none")), [true, true, false]);
        assert_eq!(exported(("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")), [false; 3]);
        assert_eq!(exported(("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc")), [true, false, true]);
    }

    #[test]
    fn each_signal_goes_only_where_its_protocol_is_spoken() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317");
        let urls = |variables: &[(&str, &str)]| {
            let telemetry = loaded("{}", variables).config.telemetry;
            [telemetry.traces, telemetry.metrics, telemetry.log_records]
                .map(|signal| signal.map(|signal| signal.url.to_string()))
        };
        let [traces, metrics, logs] =
            ["traces", "metrics", "logs"].map(|signal| Some(format!("http://collector:4317/v1/{signal}")));
        let of_metrics = ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf");
        let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        assert_eq!(urls(&[endpoint, grpc]), [None, None, None]);
        let variables = [endpoint, grpc, of_metrics];
        assert_eq!(urls(&variables), [None, metrics.clone(), None]);
        let variables = [endpoint, ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "grpc")];
        assert_eq!(urls(&variables), [traces, metrics, None]);
        let variables = [endpoint, ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")];
        assert_eq!(urls(&variables)[2], logs);
    }

    #[test]
    fn a_signal_with_an_endpoint_in_the_file_is_not_switched_off() {
        let file = "telemetry: { metrics: { endpoint: 'http://mine/v1/metrics' } }";
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://node:4317");
        for variable in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_METRICS_EXPORTER", "none"),
            ("OTEL_SDK_DISABLED", "true"),
        ] {
            let metrics = loaded(file, &[endpoint, variable]).config.telemetry.metrics;
            let url = metrics.map(|metrics| metrics.url.to_string());
            assert_eq!(url.as_deref(), Some("http://mine/v1/metrics"), "{variable:?}");
        }
        let traces = "telemetry: { traces: { endpoint: 'http://mine/v1/traces' } }";
        let variables = [endpoint, ("OTEL_TRACES_EXPORTER", "none")];
        assert!(loaded(traces, &variables).config.telemetry.traces.is_some());
    }

    #[test]
    fn a_signal_has_variables_of_its_own() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://metrics/api/otlp"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=all"),
            ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "x-key=metrics"),
            ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "700"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "5000"),
        ];
        let telemetry = loaded("{}", &variables).config.telemetry;
        assert!(telemetry.traces.is_none() && telemetry.logs.is_none());
        assert_eq!(telemetry.metrics_interval, Duration::from_secs(5));
        let metrics = telemetry.metrics.unwrap();
        assert_eq!(metrics.url.as_str(), "http://metrics/api/otlp", "the URL is used as it is");
        assert_eq!((metrics.headers["x-key"].expose(), metrics.timeout.as_millis()), ("metrics", 700));

        let file = "telemetry: { metrics: { endpoint: 'http://mine/x', timeout: 2s } }";
        let metrics = loaded(file, &variables).config.telemetry.metrics.unwrap();
        assert_eq!((metrics.url.as_str(), metrics.timeout.as_secs()), ("http://mine/x", 2));
        assert_eq!(metrics.headers["x-key"].expose(), "metrics", "the file is silent about headers");
    }
}
