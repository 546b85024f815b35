//! Variables of OpenTelemetry (`OTEL_*`), which count where the file is silent.
//!
//! Source: OpenTelemetry specification 1.50, "Environment Variable Specification" and "OpenTelemetry Protocol
//! Exporter". As the specification asks, a wrong value is a warning and is ignored.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use url::Url;

use crate::problems::Report;
use crate::references::Environment;
use crate::values::headers::{is_reserved_header, is_token_char};

/// Path of traces below a collector's base URL.
const TRACES: &str = "/v1/traces";
/// Path of the section.
const SECTION: &str = "telemetry";

/// Adds the values of variables to a configuration that lacks them.
pub(crate) fn fill(configuration: &mut Value, variables: Environment<'_>, report: &mut Report) {
    let Some(root) = configuration.as_object_mut() else { return };
    let found = OtelVariables { variables, report }.settings();
    if found.is_empty() {
        return;
    }
    let section = root.entry(SECTION).or_insert_with(|| Value::Object(Map::new()));
    let Some(section) = section.as_object_mut() else { return };
    for (key, value) in found {
        section.entry(key).or_insert(value);
    }
}

/// Reader of the variables, which reports their mistakes.
struct OtelVariables<'a, 'r> {
    variables: Environment<'a>,
    report: &'r mut Report,
}

impl OtelVariables<'_, '_> {
    /// Returns the settings that the variables give, by key of the section.
    fn settings(mut self) -> Map<String, Value> {
        let mut settings = Map::new();
        let endpoint = self.endpoint();
        let is_off = self.get("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true"))
            || self.get("OTEL_TRACES_EXPORTER").is_some_and(|text| text == "none");
        if is_off {
            settings.insert("tracingEnabled".to_owned(), Value::Bool(false));
        }
        let mut attributes = self.pairs(&["OTEL_RESOURCE_ATTRIBUTES"]);
        let named = attributes.remove("service.name");
        let service = self.get("OTEL_SERVICE_NAME").map(Value::String).or(named);
        let headers = self.headers();
        let map = |pairs: Map<String, Value>| (!pairs.is_empty()).then_some(Value::Object(pairs));
        let found = [
            ("serviceName", service),
            ("samplingRate", self.sampling_rate()),
            ("timeout", self.timeout()),
            ("headers", map(headers)),
            ("endpoint", endpoint.map(Value::String)),
            ("resourceAttributes", map(attributes)),
        ];
        settings.extend(found.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        settings
    }

    /// Returns a variable's value; an empty one counts as unset.
    fn get(&self, name: &str) -> Option<String> {
        (self.variables)(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// Returns the first of these variables that is set, with its name.
    fn first(&self, names: &[&'static str]) -> Option<(&'static str, String)> {
        names.iter().find_map(|name| Some((*name, self.get(name)?)))
    }

    /// Warns that a variable's value is ignored.
    fn ignored(&mut self, name: &str, why: &str, remedy: &str) {
        self.report.warn(SECTION, format!("`{name}` of the environment is ignored: {why}"), remedy);
    }

    /// Returns the collector's base URL.
    fn endpoint(&mut self) -> Option<String> {
        let names = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
        let (name, endpoint) = self.first(&names)?;
        let protocols = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
        let (spoken, protocol) = self.first(&protocols).unwrap_or((protocols[1], "http/protobuf".to_owned()));
        if protocol != "http/protobuf" {
            let why = format!("{spoken} is `{protocol}`, and vmcp exports `http/protobuf`");
            let remedy = "set `telemetry.endpoint` to the collector's port of OTLP over HTTP, mostly 4318";
            self.ignored(name, &why, remedy);
            return None;
        }
        if !endpoint.contains("://") {
            self.ignored(name, "it lacks a scheme", "write `http://` or `https://` before the host");
            return None;
        }
        let is_usable = |url: Url| {
            matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none()
        };
        if !Url::parse(&endpoint).is_ok_and(is_usable) {
            self.ignored(name, "it is not an http or https URL without credentials", "correct it");
            return None;
        }
        if name == names[0] && !endpoint.trim_end_matches('/').ends_with(TRACES) {
            let why = format!("its path does not end in `{TRACES}`");
            self.ignored(name, &why, "use OTEL_EXPORTER_OTLP_ENDPOINT, to which the path is added");
            return None;
        }
        Some(endpoint)
    }

    /// Returns the share of traces that the sampler keeps.
    fn sampling_rate(&mut self) -> Option<Value> {
        let (name, argument) = ("OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG");
        let sampler = self.get(name)?;
        let rate = match sampler.strip_prefix("parentbased_").unwrap_or(&sampler) {
            "always_on" => "1".to_owned(),
            "always_off" => "0".to_owned(),
            "traceidratio" => self.get(argument).unwrap_or_else(|| "1".to_owned()),
            _ => {
                let remedy = "use always_on, always_off or traceidratio, each also with parentbased_";
                self.ignored(name, &format!("`{sampler}` is not known here"), remedy);
                return None;
            }
        };
        if rate.parse::<f32>().is_ok_and(|rate| (0.0..=1.0).contains(&rate)) {
            return Some(Value::String(rate));
        }
        self.ignored(argument, &format!("`{rate}` is not a share"), "write a number from 0 to 1");
        None
    }

    /// Returns the time limit of an export.
    fn timeout(&mut self) -> Option<Value> {
        let names = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
        let (name, text) = self.first(&names)?;
        let limit = text.parse::<u64>();
        if let Ok(milliseconds) = limit
            && super::TIMEOUT.contains(&Duration::from_millis(milliseconds))
        {
            return Some(Value::String(format!("{milliseconds}ms")));
        }
        self.ignored(name, &format!("`{text}` is not a time"), "write milliseconds, from 1 to 600000");
        None
    }

    /// Returns the headers of exports, if each can be sent.
    fn headers(&mut self) -> Map<String, Value> {
        let names = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
        let pairs = self.pairs(&names);
        let is_sendable = |(name, value): (&String, &Value)| {
            let is_text = value.as_str().is_some_and(|text| !text.chars().any(char::is_control));
            is_text && name.chars().all(is_token_char) && !is_reserved_header(&name.to_ascii_lowercase())
        };
        if pairs.iter().all(is_sendable) {
            return pairs;
        }
        let name = self.first(&names).map_or(names[1], |(name, _)| name);
        self.ignored(name, "one of its headers cannot be sent", "correct it");
        Map::new()
    }

    /// Reads `key=value` pairs with percent-encoded values, separated by commas.
    fn pairs(&mut self, names: &[&'static str]) -> Map<String, Value> {
        let Some((name, text)) = self.first(names) else { return Map::new() };
        let mut pairs = Map::new();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let read = pair.split_once('=').and_then(|(key, value)| {
                let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
                Some((key.trim().to_owned(), Value::String(value.into_owned())))
            });
            let Some((key, value)) = read.filter(|(key, _)| !key.is_empty()) else {
                // The pair may hold a key: it is not shown.
                self.ignored(name, "one of its pairs lacks the form `key=value`", "separate pairs by commas");
                return Map::new();
            };
            pairs.insert(key, value);
        }
        pairs
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
        assert!(telemetry.tracing_enabled);
        assert_eq!(telemetry.endpoint.unwrap().as_str(), "http://collector:4318/");
        assert_eq!((telemetry.service_name.as_str(), telemetry.sampling_rate), ("gateway", 0.25));
        assert_eq!(telemetry.timeout, Duration::from_millis(2_500));
        let headers: Vec<_> =
            telemetry.headers.iter().map(|(name, value)| (&**name, value.expose())).collect();
        assert_eq!(headers, [("x-key", "a b"), ("x-team", "tools")]);
        assert_eq!(telemetry.resource_attributes["deployment.environment.name"], "test");

        let file = "telemetry: { endpoint: 'http://mine:4318', serviceName: mine, samplingRate: 1 }";
        let telemetry = loaded(file, &variables).config.telemetry;
        assert_eq!(telemetry.endpoint.unwrap().as_str(), "http://mine:4318/");
        assert_eq!((telemetry.service_name.as_str(), telemetry.sampling_rate), ("mine", 1.0));
    }

    #[test]
    fn a_wrong_value_is_a_warning_that_names_its_variable() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317");
        for (variable, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a-secret-without-a-name"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "baggage=a-secret"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:a-secret@collector:4318"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector/other"),
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
        for off in [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")] {
            assert!(!loaded("{}", &[endpoint, off]).config.telemetry.tracing_enabled, "{off:?}");
        }
    }
}
