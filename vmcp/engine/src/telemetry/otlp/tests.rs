//! Exports to a collector of the test, which decodes what arrives.

use std::collections::BTreeMap;
use std::net::TcpListener as StdListener;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use bytes::Bytes;
use opentelemetry::Key;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Kind;
use prost::Message as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::{info, info_span, subscriber};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use vmcp_config::Telemetry;

use super::losses::Signal;
use super::push::MetricsPush;
use super::waiting_records::MAX_WAITING_RECORDS;
use super::{TARGET, log_lines, resource};
use crate::metrics::Metrics;
use crate::telemetry::logs::LogSettings;
use crate::telemetry::traces::{Exporter, TraceSpan, ids};

/// One request to the collector.
struct Arrived {
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

struct Collector {
    endpoint: String,
    arrived: UnboundedReceiver<Arrived>,
}

impl Collector {
    async fn start() -> Collector {
        // An error means that a provider is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (sender, arrived) = unbounded_channel();
        let routes = axum::Router::new().fallback(receive).with_state(sender);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Collector { endpoint, arrived }
    }

    /// Waits for the next request for a path.
    async fn next(&mut self, path: &str) -> Arrived {
        loop {
            let arrived = self.arrived.recv().await.expect("the collector runs");
            if arrived.path == path {
                return arrived;
            }
        }
    }
}

async fn receive(State(sender): State<UnboundedSender<Arrived>>, uri: Uri, headers: HeaderMap, body: Bytes) {
    let _ = sender.send(Arrived { path: uri.path().to_owned(), headers, body });
}

fn settings(telemetry: &Value) -> Telemetry {
    let file = json!({ "telemetry": telemetry }).to_string();
    vmcp_config::load(&file, "f", &|_| None).unwrap().config.telemetry
}

fn text<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Kind::StringValue(text) => Some(text),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_arrive_with_the_resource_and_the_headers_of_the_file() {
    let mut collector = Collector::start().await;
    let settings = settings(&json!({
        "endpoint": collector.endpoint, "serviceName": "gateway", "headers": { "x-api-key": "secret" },
        "resourceAttributes": { "deployment.environment.name": "test" },
        "metrics": { "enabled": true }, "metricsInterval": "1h",
    }));
    let metrics = Arc::new(Metrics::new());
    metrics.find_tool_requests.inc_by(3);
    let push = MetricsPush::start(&settings, move || metrics.encode()).unwrap().unwrap();
    let finished = tokio::task::spawn_blocking(move || push.finish());
    let arrived = collector.next("/v1/metrics").await;
    finished.await.unwrap();
    assert_eq!(arrived.headers["x-api-key"], "secret");
    assert_eq!(arrived.headers["content-type"], "application/x-protobuf");
    let request = ExportMetricsServiceRequest::decode(arrived.body).unwrap();
    let of_process = &request.resource_metrics[0];
    let resource = &of_process.resource.as_ref().unwrap().attributes;
    assert_eq!(text(resource, "service.name"), Some("gateway"));
    assert_eq!(text(resource, "deployment.environment.name"), Some("test"));
    assert!(text(resource, "service.instance.id").is_some());
    let names: Vec<_> = of_process.scope_metrics[0].metrics.iter().map(|metric| &*metric.name).collect();
    assert!(names.contains(&"vmcp_optimizer_find_tool_requests"), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_arrive_with_the_resource_and_the_headers_of_the_file() {
    let mut collector = Collector::start().await;
    let settings = settings(&json!({
        "endpoint": collector.endpoint, "samplingRate": "1", "headers": { "x-api-key": "secret" },
        "resourceAttributes": { "deployment.environment.name": "test" },
    }));
    let exporter = Exporter::new(settings.traces.as_ref().unwrap(), &settings).unwrap();
    let layers = vec![exporter.layer().boxed()];
    subscriber::with_default(tracing_subscriber::registry().with(layers), || {
        TraceSpan::begin("request", |open| open.text("tool", "echo")).in_scope(|| {
            info!(target: "vmcp::request", "inside");
        });
    });
    let ended = tokio::task::spawn_blocking(move || exporter.shutdown());
    let arrived = collector.next("/v1/traces").await;
    ended.await.unwrap();
    let header = |name: &str| arrived.headers[name].to_str().unwrap();
    assert_eq!((header("x-api-key"), header("content-type")), ("secret", "application/x-protobuf"));
    assert!(header("user-agent").starts_with("vmcp/"));
    let request = ExportTraceServiceRequest::decode(arrived.body).unwrap();
    let of_process = &request.resource_spans[0];
    let resource = &of_process.resource.as_ref().unwrap().attributes;
    assert_eq!(text(resource, "deployment.environment.name"), Some("test"));
    assert!(text(resource, "service.instance.id").is_some());
    let scope = &of_process.scope_spans[0];
    assert_eq!(scope.scope.as_ref().unwrap().name, "vmcp");
    assert_eq!(
        (scope.spans[0].name.as_str(), text(&scope.spans[0].attributes, "tool")),
        ("request", Some("echo"))
    );
    assert_eq!(scope.spans[0].events[0].name, "inside");
}

#[tokio::test(flavor = "multi_thread")]
async fn log_lines_arrive_with_their_trace_and_span() {
    let _turn = crate::telemetry::logs::levels::TEST_TURN.lock().await;
    let mut collector = Collector::start().await;
    let settings = settings(&json!({
        "endpoint": collector.endpoint, "samplingRate": "1", "logs": { "enabled": true },
    }));
    let exporter = Exporter::new(settings.traces.as_ref().unwrap(), &settings).unwrap();
    let lines = log_lines::LogLines::start(settings.logs.as_ref().unwrap(), &settings).unwrap();
    let layers = vec![exporter.layer().boxed(), lines.layer(&LogSettings::default()).unwrap()];
    let span = subscriber::with_default(tracing_subscriber::registry().with(layers), || {
        info!(target: "hyper", "a line of a library");
        info!(target: TARGET, "a line about exports");
        tracing::debug!(target: "vmcp_edge", "below the level");
        TraceSpan::begin("request", |_| ()).in_scope(|| {
            info_span!(target: "vmcp_backend", "backend", backend = "jira").in_scope(|| {
                info!(target: "vmcp_backend", "said hello");
            });
            ids(&TraceSpan::current()).unwrap()
        })
    });
    let ended = tokio::task::spawn_blocking(move || lines.shutdown());
    let arrived = collector.next("/v1/logs").await;
    ended.await.unwrap();
    let request = ExportLogsServiceRequest::decode(arrived.body).unwrap();
    let records: Vec<_> =
        request.resource_logs[0].scope_logs.iter().flat_map(|scope| &scope.log_records).collect();
    let bodies: Vec<_> = records.iter().map(|record| record.body.as_ref().unwrap().value.clone()).collect();
    assert_eq!(bodies, [Some(Kind::StringValue("said hello".to_owned()))]);
    assert_eq!(text(&records[0].attributes, "backend"), Some("jira"));
    assert_eq!((&*records[0].trace_id, &*records[0].span_id), (&span.trace[..], &span.span[..]));
    assert_eq!(records[0].severity_text, "INFO");
}

#[test]
fn a_file_of_authorities_that_cannot_be_read_is_named_at_the_start() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    std::fs::write(&path, "no certificate").unwrap();
    for protocol in ["http/protobuf", "grpc"] {
        let settings = settings(&json!({
            "endpoint": "https://collector:4318", "protocol": protocol, "caBundlePath": path,
        }));
        let error = Exporter::new(settings.traces.as_ref().unwrap(), &settings).unwrap_err().to_string();
        assert!(error.contains("ca.pem of telemetry: it holds no certificate in PEM"), "{error}");
    }
}

#[test]
fn lines_beyond_the_queue_of_a_silent_collector_are_dropped_and_counted() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    // Takes connections and never answers.
    let silent = StdListener::bind("127.0.0.1:0").unwrap();
    let settings = settings(&json!({
        "endpoint": format!("http://{}", silent.local_addr().unwrap()), "timeout": "10m",
        "logs": { "enabled": true },
    }));
    let lines = log_lines::LogLines::start(settings.logs.as_ref().unwrap(), &settings).unwrap();
    let layer = lines.layer(&LogSettings::default()).unwrap();
    let (before, further) = (Signal::Logs.lost(), 1_000);
    subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        for line in 0..MAX_WAITING_RECORDS + further {
            info!(target: "vmcp_edge", line, "said");
        }
    });
    assert!(Signal::Logs.lost() - before >= further as u64);
    lines.shutdown();
}

#[test]
fn a_resource_names_its_process_unless_the_settings_do() {
    let id = Key::new("service.instance.id");
    let own = resource("vmcp", &BTreeMap::new()).get(&id);
    assert!(own.is_some());
    assert_eq!(own, resource("vmcp", &BTreeMap::new()).get(&id));
    let pod = BTreeMap::from([("service.instance.id".to_owned(), "pod-1".to_owned())]);
    assert_eq!(resource("vmcp", &pod).get(&id), Some("pod-1".into()));
}
