//! A real OpenTelemetry Collector receives the traces, the metrics and the logs of a scripted workload.

use rcgen::SanType;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use vmcp_integration::{CollectorProgram, Fixture, OtelCollector, Vmcp, skipped};

use super::client_certificates::Authority;

/// Kind of a span of a server, as OTLP numbers it.
const SERVER: u64 = 2;

/// Returns the entries of the list `inner` in the lists `outer` of resources, such as `spans` in
/// `scopeSpans`.
fn entries<'a>(resources: &'a [Value], outer: &str, inner: &str) -> Vec<&'a Value> {
    let scopes = resources.iter().filter_map(|resource| resource[outer].as_array()).flatten();
    scopes.filter_map(|scope| scope[inner].as_array()).flatten().collect()
}

/// Returns the text or the number of an attribute, as text.
fn attribute(of: &Value, key: &str) -> Option<String> {
    let entry = of["attributes"].as_array()?.iter().find(|entry| entry["key"] == key)?;
    let value = entry["value"].as_object()?.values().next()?;
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// Returns the value of a counter without labels.
fn counter(resources: &[Value], name: &str) -> Option<String> {
    let metrics = entries(resources, "scopeMetrics", "metrics");
    // Values are cumulative: the last export has all calls.
    let found = metrics.into_iter().rfind(|metric| metric["name"] == name)?;
    let point = found["sum"]["dataPoints"].as_array()?.first()?;
    let value = &point["asInt"];
    let value = if value.is_null() { &point["asDouble"] } else { value };
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// Returns the program of the Collector, or says that the test is skipped.
async fn program() -> Option<CollectorProgram> {
    match CollectorProgram::find().await {
        Ok(program) => Some(program),
        Err(reason) => {
            skipped(&reason);
            None
        }
    }
}

/// Returns the settings of a server that exports everything to `endpoint`.
fn settings(endpoint: &str, protocol: &str) -> Value {
    json!({
        "telemetry": {
            "endpoint": endpoint, "protocol": protocol, "samplingRate": "1.0",
            "serviceName": "vmcp-of-the-test",
            "metrics": {"enabled": true}, "logs": {"enabled": true}, "metricsInterval": "1s",
        },
        "audit": {"enabled": true, "otlp": true},
    })
}

#[tokio::test]
async fn a_real_collector_receives_traces_metrics_and_logs_of_one_workload() {
    let Some(program) = program().await else { return };
    let collector = OtelCollector::start(&program, None).await;
    let echo = Fixture::http("echo", "echo").start().await;
    let vmcp = Vmcp::new().backend(&echo).config(settings(&collector.endpoint, "http/protobuf"));
    everything_arrives(&collector, &vmcp.start().await).await;
}

/// Starts a collector with a certificate of an authority of its own; returns it with the authority's
/// certificate.
async fn over_tls(program: &CollectorProgram) -> (OtelCollector, NamedTempFile) {
    let authority = Authority::new();
    let pair = authority.issue(SanType::IpAddress([127, 0, 0, 1].into()));
    let trusted = NamedTempFile::new().expect("a file");
    std::fs::write(trusted.path(), &authority.pem).expect("writing");
    (OtelCollector::start(program, Some(&pair)).await, trusted)
}

#[tokio::test]
async fn a_real_collector_receives_the_same_by_grpc_over_tls() {
    let Some(program) = program().await else { return };
    let (collector, trusted) = over_tls(&program).await;
    let echo = Fixture::http("echo", "echo").start().await;
    let vmcp = Vmcp::new().backend(&echo).config(settings(&collector.grpc_endpoint, "grpc"));
    let vmcp = vmcp.env("SSL_CERT_FILE", &trusted.path().display().to_string()).start().await;
    everything_arrives(&collector, &vmcp).await;
}

#[tokio::test]
async fn a_real_collector_of_a_private_authority_is_trusted_by_its_bundle() {
    let Some(program) = program().await else { return };
    let (collector, trusted) = over_tls(&program).await;
    let echo = Fixture::http("echo", "echo").start().await;
    let mut settings = settings(&collector.grpc_endpoint, "grpc");
    settings["telemetry"]["caBundlePath"] = json!(trusted.path());
    let vmcp = Vmcp::new().backend(&echo).config(settings).start().await;
    everything_arrives(&collector, &vmcp).await;
}

#[tokio::test]
async fn the_variables_of_opentelemetry_choose_grpc() {
    let Some(program) = program().await else { return };
    let collector = OtelCollector::start(&program, None).await;
    let echo = Fixture::http("echo", "echo").start().await;
    let vmcp = Vmcp::new().backend(&echo).config(json!({"audit": {"enabled": true, "otlp": true}}));
    let vmcp = vmcp
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.grpc_endpoint)
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        .env("OTEL_TRACES_SAMPLER", "always_on")
        .env("OTEL_SERVICE_NAME", "vmcp-of-the-test")
        .env("OTEL_METRIC_EXPORT_INTERVAL", "1000")
        .start()
        .await;
    everything_arrives(&collector, &vmcp).await;
}

/// Checks that all signals of a workload arrive.
async fn everything_arrives(collector: &OtelCollector, vmcp: &Vmcp) {
    vmcp.with_tool("echo_add").await;
    let client = vmcp.modern();
    for _ in 0..3 {
        client.find_tool(json!({"tool_description": "add numbers"})).await;
    }
    let answer = client.call_found("echo_add", json!({"a": 2, "b": 3})).await;
    assert!(!answer.is_tool_error(), "{}", answer.text);

    // Traces: the request, and the call of the backend below it.
    let spans = collector
        .find("resourceSpans", |resources| {
            let spans: Vec<Value> = entries(resources, "scopeSpans", "spans").into_iter().cloned().collect();
            let has = |name: &str| spans.iter().any(|span| span["name"] == name);
            (has("tools/call optim.call_tool") && has("tools/call add")).then_some(spans)
        })
        .await;
    let span = |name: &str| spans.iter().find(|span| span["name"] == name).expect("a span");
    let (root, exchange) = (span("tools/call optim.call_tool"), span("tools/call add"));
    assert_eq!(root["kind"], SERVER, "{root}");
    assert_eq!(attribute(root, "mcp.method.name").as_deref(), Some("tools/call"), "{root}");
    assert_eq!(exchange["traceId"], root["traceId"], "one tree");
    let resources = collector.received("resourceSpans");
    let named = resources.iter().filter_map(|resource| attribute(&resource["resource"], "service.name"));
    assert!(named.clone().count() > 0 && named.into_iter().all(|name| name == "vmcp-of-the-test"));

    // Metrics: the count of searches, and the histogram of the conventions with its unit.
    collector
        .find("resourceMetrics", |resources| {
            (counter(resources, "vmcp_optimizer_find_tool_requests").as_deref() == Some("3")).then_some(())
        })
        .await;
    let resources = collector.received("resourceMetrics");
    let metrics = entries(&resources, "scopeMetrics", "metrics");
    let duration = metrics.iter().rfind(|metric| metric["name"] == "mcp.server.operation.duration");
    let duration = duration.expect("the histogram of the conventions");
    assert_eq!(duration["unit"], "s", "{duration}");
    let points = duration["histogram"]["dataPoints"].as_array().expect("points");
    let methods: Vec<_> = points.iter().filter_map(|point| attribute(point, "mcp.method.name")).collect();
    assert!(methods.iter().any(|method| method == "tools/call"), "{methods:?}");

    // Log records: lines of the process, and the audit event of the call within its trace.
    collector
        .find("resourceLogs", |resources| {
            let records = entries(resources, "scopeLogs", "logRecords");
            let is_line = |record: &Value| record["severityText"] == "INFO";
            let is_event = |record: &Value| {
                record["eventName"] == "mcp_tool_call" && record["traceId"] == root["traceId"]
            };
            (records.iter().any(|record| is_line(record)) && records.iter().any(|record| is_event(record)))
                .then_some(())
        })
        .await;

    assert_eq!(vmcp.metric("vmcp_telemetry_lost_total{signal=\"traces\"}").await, 0);
    let secret = "a message that no signal may carry";
    client.call_found("echo_echo", json!({"message": secret})).await;
    let trace = collector
        .find("resourceSpans", |resources| {
            let spans = entries(resources, "scopeSpans", "spans");
            let span = spans.into_iter().find(|span| span["name"] == "tools/call echo")?;
            Some(span["traceId"].clone())
        })
        .await;
    collector
        .find("resourceLogs", |resources| {
            let records = entries(resources, "scopeLogs", "logRecords");
            let is_event =
                |record: &&Value| record["eventName"] == "mcp_tool_call" && record["traceId"] == trace;
            records.iter().any(is_event).then_some(())
        })
        .await;
    // The next export may have been gathered before the call ended; the one after it was not.
    let exports = collector.received("resourceMetrics").len();
    collector.find("resourceMetrics", |resources| (resources.len() >= exports + 2).then_some(())).await;
    for signal in ["resourceSpans", "resourceMetrics", "resourceLogs"] {
        let received = Value::Array(collector.received(signal)).to_string();
        assert!(!received.contains(secret), "{signal} has an argument");
    }
}
