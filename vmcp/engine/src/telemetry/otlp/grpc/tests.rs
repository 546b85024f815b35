//! Calls of an HTTP/2 server that reads messages and answers with trailers.

use std::net::TcpListener as StdListener;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request as Incoming, State};
use axum::response::Response;
use http::Version;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::{info, subscriber};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use vmcp_config::Telemetry;

use super::*;
use crate::metrics::Metrics;
use crate::telemetry::otlp::push::MetricsPush;
use crate::telemetry::traces::{Exporter, TraceSpan};

/// One call that arrived.
struct Arrived {
    method: String,
    version: Version,
    headers: HeaderMap,
    message: Bytes,
}

/// The answers of a collector.
#[derive(Clone)]
struct Answers {
    arrived: UnboundedSender<Arrived>,
    /// Pairs of the trailers.
    trailers: HeaderMap,
    message: Bytes,
}

/// Starts a collector that answers every call with these trailers.
async fn collector(trailers: &[(&'static str, &'static str)]) -> (String, UnboundedReceiver<Arrived>) {
    // An error means that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (sender, arrived) = unbounded_channel();
    let pairs = trailers
        .iter()
        .map(|&(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value)));
    let answers = Answers { arrived: sender, trailers: pairs.collect(), message: framed(b"").unwrap() };
    let routes = axum::Router::new().fallback(answer).with_state(answers);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (endpoint, arrived)
}

async fn answer(State(answers): State<Answers>, request: Incoming) -> Response {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let _ = answers.arrived.send(Arrived {
        method: head.uri.path().to_owned(),
        version: head.version,
        headers: head.headers,
        message: unframed(&body).unwrap(),
    });
    let trailers = answers.trailers;
    let body = Full::new(answers.message).with_trailers(async move { Some(Ok(trailers)) });
    let mut response = Response::new(Body::new(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc+proto"));
    response
}

fn settings(telemetry: &Value) -> Telemetry {
    let file = json!({ "telemetry": telemetry }).to_string();
    vmcp_config::load(&file, "f", &|_| None).unwrap().config.telemetry
}

/// Calls a method of the server at `endpoint` with a time limit.
async fn called(endpoint: &str, limit: Duration) -> Result<Bytes, String> {
    let uri: Uri = format!("{endpoint}/a.Service/Export").parse().unwrap();
    let call = move || GrpcClient::new(limit, &[]).call(uri, &HeaderMap::new(), b"message");
    tokio::task::spawn_blocking(call).await.unwrap().map_err(|error| error.to_string())
}

const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn metrics_arrive_as_a_call_with_the_headers_of_the_file() {
    let (endpoint, mut arrived) = collector(&[("grpc-status", "0")]).await;
    let settings = settings(&json!({
        "endpoint": endpoint, "protocol": "grpc", "headers": { "X-Api-Key": "secret" }, "timeout": "7s",
        "metrics": { "enabled": true }, "metricsInterval": "1h",
    }));
    let metrics = Arc::new(Metrics::new());
    metrics.find_tool_requests.inc_by(3);
    let push = MetricsPush::start(&settings, move || metrics.encode()).unwrap().unwrap();
    let finished = tokio::task::spawn_blocking(move || push.finish());
    let call = arrived.recv().await.unwrap();
    finished.await.unwrap();
    assert_eq!(call.version, Version::HTTP_2);
    assert_eq!(call.method, "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export");
    let header = |name: &str| call.headers[name].to_str().unwrap();
    assert_eq!(header("content-type"), "application/grpc");
    assert_eq!((header("te"), header("grpc-timeout"), header("x-api-key")), ("trailers", "7000m", "secret"));
    let request = ExportMetricsServiceRequest::decode(call.message).unwrap();
    let of_process = &request.resource_metrics[0];
    let names: Vec<_> = of_process.scope_metrics[0].metrics.iter().map(|metric| &*metric.name).collect();
    assert!(names.contains(&"vmcp_optimizer_find_tool_requests"), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_arrive_as_calls() {
    let (endpoint, mut arrived) = collector(&[("grpc-status", "0")]).await;
    let settings = settings(&json!({ "endpoint": endpoint, "protocol": "grpc", "samplingRate": "1" }));
    let exporter = Exporter::new(settings.traces.as_ref().unwrap(), &settings).unwrap();
    let layers = vec![exporter.layer().boxed()];
    subscriber::with_default(tracing_subscriber::registry().with(layers), || {
        TraceSpan::begin("tools/list", |_| ()).in_scope(|| info!("inside"));
    });
    // Ends the exporter, which sends the spans that wait.
    let ended = tokio::task::spawn_blocking(move || exporter.shutdown());
    let call = arrived.recv().await.unwrap();
    ended.await.unwrap();
    assert_eq!(call.method, "/opentelemetry.proto.collector.trace.v1.TraceService/Export");
    let request = ExportTraceServiceRequest::decode(call.message).unwrap();
    assert_eq!(request.resource_spans[0].scope_spans[0].spans[0].name, "tools/list");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_call_says_why() {
    let refused = [("grpc-status", "16"), ("grpc-message", "no%20such%20key")];
    let (endpoint, _arrived) = collector(&refused).await;
    let said = called(&endpoint, LIMIT).await.unwrap_err();
    assert_eq!(said, "the collector answered with gRPC status 16 (UNAUTHENTICATED): no such key");
    let (endpoint, _arrived) = collector(&[]).await;
    let said = called(&endpoint, LIMIT).await.unwrap_err();
    assert!(said.ends_with("(UNKNOWN): the answer ended without a status"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_of_http_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, axum::Router::new()).await });
    let said = called(&endpoint, LIMIT).await.unwrap_err();
    assert!(said.contains("does not speak gRPC") && said.contains("404"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_collector_costs_the_time_limit_alone() {
    // Takes connections and never answers.
    let silent = StdListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let said = called(&endpoint, Duration::from_millis(300)).await.unwrap_err();
    assert!(said.contains("DEADLINE_EXCEEDED") && said.contains("300ms"), "{said}");
}

#[test]
fn a_message_has_its_length_before_it() {
    let body = framed(b"hello").unwrap();
    assert_eq!(&body[..], b"\0\0\0\0\x05hello");
    assert_eq!(&unframed(&body).unwrap()[..], b"hello");
    assert_eq!(unframed(&framed(b"").unwrap()).unwrap(), Bytes::new());
}

#[test]
fn a_message_that_is_cut_off_or_compressed_is_an_error() {
    for body in [&b""[..], b"\0\0\0\0", b"\0\0\0\0\x05hell", b"\0\0\0\0\x05hello!", b"\x01\0\0\0\x01h"] {
        let error = unframed(&Bytes::copy_from_slice(body)).unwrap_err().to_string();
        assert!(error.contains("cut off or compressed"), "{body:?}: {error}");
    }
}
