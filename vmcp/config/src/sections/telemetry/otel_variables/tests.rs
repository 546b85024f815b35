use std::time::Duration;

use crate::references::{Files, ReferenceSources};
use crate::{Loaded, OtlpProtocol, load_from};

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
fn attributes_of_the_environment_join_those_of_the_file() {
    let attributes = |file: &str, text: &str| {
        let loaded = loaded(file, &[("OTEL_RESOURCE_ATTRIBUTES", text)]);
        let telemetry = loaded.config.telemetry;
        let is_warned = loaded.warnings.iter().any(|warning| warning.message.contains("ATTRIBUTES"));
        let pairs = telemetry.resource_attributes.iter().map(|(key, value)| format!("{key}={value}"));
        (telemetry.service_name.clone(), pairs.collect::<Vec<_>>().join(","), is_warned)
    };
    let file = "telemetry: { resourceAttributes: { team: file } }";
    let found = |name: &str, pairs: &str| (name.to_owned(), pairs.to_owned(), false);
    assert_eq!(attributes(file, "team=env,k8s.pod.name=a"), found("vmcp", "k8s.pod.name=a,team=file"));
    assert_eq!(attributes("telemetry:\n  resourceAttributes:\n", "team=env"), found("vmcp", "team=env"));
    assert_eq!(attributes("{}", "a%2Cb=1%3D2, c = d "), found("vmcp", "a,b=1=2,c=d"));
    assert_eq!(attributes("{}", "service.name=x,a=b"), found("x", "a=b"));
    assert_eq!(attributes("{}", "service.name=,a=b"), found("vmcp", "a=b"), "an empty name counts as unset");
    for wrong in ["a=b,c", "a=b,=c", "a=b,c=%zz", "a=b,c=%4", "a=b,c=%ff", "a=b,%ff=c"] {
        let (name, pairs, is_warned) = attributes(file, wrong);
        assert_eq!((&*name, &*pairs, is_warned), ("vmcp", "team=file", true), "{wrong}: all are discarded");
    }
}

#[test]
fn certificates_of_all_signals_or_of_one_are_files_of_authorities() {
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector:4318"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca/all.pem"),
        ("OTEL_EXPORTER_OTLP_LOGS_CERTIFICATE", "/ca/logs.pem"),
    ];
    let bundles = |file: &str| {
        let telemetry = loaded(file, &variables).config.telemetry;
        let signals = [telemetry.traces, telemetry.metrics, telemetry.log_records];
        signals.map(|signal| signal.and_then(|signal| signal.ca_bundle_path))
    };
    let of = |path: &str| Some(std::path::PathBuf::from(path));
    assert_eq!(bundles("{}"), [of("/ca/all.pem"), of("/ca/all.pem"), of("/ca/logs.pem")]);
    let written = bundles("telemetry: { caBundlePath: /ca/mine.pem }");
    assert_eq!(written, [of("/ca/mine.pem"), of("/ca/mine.pem"), of("/ca/mine.pem")]);
}

#[test]
fn a_wrong_value_is_a_warning_that_names_its_variable() {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317");
    let long = format!("x-key={}", "a".repeat(8_193));
    let many = (0..65).map(|number| format!("x-{number}=a")).collect::<Vec<_>>().join(",");
    for (variable, value) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
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
        ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "thrift"),
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
    assert_eq!(exported(("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")), [false; 3]);
    assert_eq!(exported(("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/json")), [true, false, true]);
    assert_eq!(exported(("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")), [true; 3]);
}

#[test]
fn each_sampler_of_the_specification_is_a_share() {
    for (sampler, argument, expected) in [
        ("always_on", "0.5", 1.0),
        ("parentbased_always_on", "0.5", 1.0),
        ("always_off", "0.5", 0.0),
        ("parentbased_always_off", "0.5", 0.0),
        ("traceidratio", "0.5", 0.5),
        ("traceidratio", "", 1.0),
        ("parentbased_traceidratio", "0.5", 0.5),
        // The default of vmcp: the word is ignored.
        ("xray", "0.5", 0.05),
        // A wrong argument counts as an absent one.
        ("traceidratio", "1.5", 1.0),
        ("parentbased_traceidratio", "NaN", 1.0),
    ] {
        let variables = [("OTEL_TRACES_SAMPLER", sampler), ("OTEL_TRACES_SAMPLER_ARG", argument)];
        let rate = loaded("{}", &variables).config.telemetry.sampling_rate;
        assert!((rate - expected).abs() < 1e-6, "{sampler} {argument}: {rate}");
    }
}

#[test]
fn the_sampler_that_keeps_nothing_follows_no_caller() {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");
    let exported = |file: &str, sampler: &str| {
        let telemetry = loaded(file, &[endpoint, ("OTEL_TRACES_SAMPLER", sampler)]).config.telemetry;
        [telemetry.traces.is_some(), telemetry.metrics.is_some()]
    };
    assert_eq!(exported("{}", "always_off"), [false, true]);
    assert_eq!(exported("{}", "parentbased_always_off"), [true, true], "a caller's trace goes on");
    assert_eq!(exported("telemetry: { samplingRate: '0.5' }", "always_off"), [true, true], "the file speaks");
    assert_eq!(exported("telemetry: { tracingEnabled: true }", "always_off"), [true, true]);
}

#[test]
fn the_letter_case_of_words_does_not_count() {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317/base");
    let telemetry = |variable: (&str, &str)| loaded("{}", &[endpoint, variable]).config.telemetry;
    let by_grpc = telemetry(("OTEL_EXPORTER_OTLP_PROTOCOL", "GRPC")).traces.unwrap();
    assert_eq!(by_grpc.protocol, OtlpProtocol::Grpc);
    assert!(telemetry(("OTEL_TRACES_EXPORTER", "None")).traces.is_none());
    assert!(telemetry(("OTEL_METRICS_EXPORTER", "OTLP,Console")).metrics.is_some());
    assert!(telemetry(("OTEL_SDK_DISABLED", "True")).logs.is_none());
    let rate = telemetry(("OTEL_TRACES_SAMPLER", "Always_On")).sampling_rate;
    assert!((rate - 1.0).abs() < 1e-6, "{rate}");
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
    let json = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json");
    assert_eq!(urls(&[endpoint, json]), [None, None, None]);
    let variables = [endpoint, json, of_metrics];
    assert_eq!(urls(&variables), [None, metrics.clone(), None]);
    let variables = [endpoint, ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "http/json")];
    assert_eq!(urls(&variables), [traces, metrics, None]);
    let variables = [endpoint, ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json")];
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

#[test]
fn grpc_is_spoken_where_variables_give_the_collector() {
    let traces_by = |file: &str, variables: &[(&str, &str)]| {
        let traces = loaded(file, variables).config.telemetry.traces?;
        Some((traces.url.to_string(), traces.protocol))
    };
    let method = |base: &str| format!("{base}/opentelemetry.proto.collector.trace.v1.TraceService/Export");
    let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    for (variable, endpoint, base) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317", "http://collector:4317"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector:4317/v1/traces?x=y", "https://collector:4317"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317", "https://collector:4317"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:4317/", "http://traces:4317"),
    ] {
        let found = traces_by("{}", &[(variable, endpoint), grpc]);
        assert_eq!(found, Some((method(base), OtlpProtocol::Grpc)), "{variable}={endpoint}");
    }
    let insecure = ("OTEL_EXPORTER_OTLP_INSECURE", "true");
    let bare = ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317");
    assert_eq!(traces_by("{}", &[bare, grpc, insecure]).unwrap().0, method("http://collector:4317"));

    // The file has the endpoint, so its protocol counts, here the default one.
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://node:4317");
    let file = "telemetry: { endpoint: 'http://mine:4318' }";
    let http = Some(("http://mine:4318/v1/traces".to_owned(), OtlpProtocol::HttpProtobuf));
    assert_eq!(traces_by(file, &[endpoint, grpc]), http);
    let file = "telemetry: { protocol: http/protobuf }";
    let http = Some(("http://node:4317/v1/traces".to_owned(), OtlpProtocol::HttpProtobuf));
    assert_eq!(traces_by(file, &[endpoint, grpc]), http);
    let file = "telemetry: { protocol: grpc }";
    let with_path = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://node:4317/otlp");
    assert_eq!(traces_by(file, &[with_path]), Some((method("http://node:4317"), OtlpProtocol::Grpc)));
    let own = Some((method("http://node:4317"), OtlpProtocol::Grpc));
    assert_eq!(traces_by(file, &[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")]), own);
}

#[test]
fn one_signal_alone_goes_by_grpc() {
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318"),
        ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://collector:4317"),
        ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "grpc"),
    ];
    let telemetry = loaded("{}", &variables).config.telemetry;
    let urls =
        [telemetry.traces, telemetry.metrics, telemetry.logs].map(|signal| signal.unwrap().url.to_string());
    let logs = "http://collector:4317/opentelemetry.proto.collector.logs.v1.LogsService/Export";
    assert_eq!(urls, ["http://collector:4318/v1/traces", "http://collector:4318/v1/metrics", logs]);
}
