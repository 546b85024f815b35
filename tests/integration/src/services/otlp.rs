//! Collector of traces and log records that speaks OTLP over HTTP in protobuf.

use parking_lot::Mutex;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as WireValue;
use opentelemetry_proto::tonic::logs::v1::LogRecord as WireRecord;
use opentelemetry_proto::tonic::trace::v1::Span as WireSpan;
use prost::Message as _;
use tokio::net::TcpListener;

/// A span that arrived.
#[derive(Clone, Debug)]
pub struct Span {
    /// Its name.
    pub name: String,
    /// Id of its trace, in hexadecimal.
    pub trace: String,
    /// Its id, in hexadecimal.
    pub id: String,
    /// Id of its parent, in hexadecimal; empty without a parent.
    pub parent: String,
    /// Its kind, as OTLP numbers it: 1 internal, 2 server, 3 client.
    pub kind: i32,
    /// Description of its status, if that is an error.
    pub failure: Option<String>,
    /// Ids of the spans that it links to, in hexadecimal.
    pub links: Vec<String>,
    /// Its attributes as `key=value`.
    pub attributes: Vec<String>,
}

impl Span {
    /// Returns the value of an attribute.
    pub fn attribute(&self, key: &str) -> Option<&str> {
        let mut pairs = self.attributes.iter().filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
    }
}

/// Status of a failed span, as OTLP numbers it.
const ERROR: i32 = 2;

/// A log record that arrived.
#[derive(Clone, Debug)]
pub struct LogRecord {
    /// Its text.
    pub body: String,
    /// Name of the event.
    pub event: String,
    /// Id of its trace, in hexadecimal; empty without one.
    pub trace: String,
    /// Id of its span, in hexadecimal; empty without one.
    pub span: String,
    /// `service.name` and the other attributes of its resource, as `key=value`.
    pub resource: Vec<String>,
}

/// A collector that keeps every span and log record.
pub struct Collector {
    /// URL for `telemetry.endpoint`.
    pub endpoint: String,
    spans: Spans,
    records: Records,
}

type Spans = Arc<Mutex<Vec<Span>>>;
type Records = Arc<Mutex<Vec<LogRecord>>>;

impl Collector {
    /// Starts a collector on a free port; it ends with the test.
    pub async fn start() -> Self {
        let spans = Spans::default();
        let records = Records::default();
        let traces = axum::Router::new().route("/v1/traces", post(receive)).with_state(Arc::clone(&spans));
        let logs = axum::Router::new().route("/v1/logs", post(receive_logs)).with_state(Arc::clone(&records));
        let routes = traces.merge(logs);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { endpoint, spans, records }
    }

    /// Returns the spans that arrived so far.
    pub fn spans(&self) -> Vec<Span> {
        self.spans.lock().clone()
    }

    /// Returns the log records that arrived so far.
    pub fn records(&self) -> Vec<LogRecord> {
        self.records.lock().clone()
    }
}

async fn receive(State(spans): State<Spans>, body: Bytes) -> StatusCode {
    let Ok(request) = ExportTraceServiceRequest::decode(body) else { return StatusCode::BAD_REQUEST };
    let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
    let arrived = scopes.flat_map(|scope| scope.spans).map(span);
    spans.lock().extend(arrived);
    StatusCode::OK
}

async fn receive_logs(State(records): State<Records>, body: Bytes) -> StatusCode {
    let Ok(request) = ExportLogsServiceRequest::decode(body) else { return StatusCode::BAD_REQUEST };
    for logs in request.resource_logs {
        let attributes = logs.resource.map(|resource| resource.attributes).unwrap_or_default();
        let resource: Vec<_> =
            attributes.iter().map(|entry| format!("{}={}", entry.key, text(entry.value.as_ref()))).collect();
        let arrived = logs.scope_logs.into_iter().flat_map(|scope| scope.log_records);
        records.lock().extend(arrived.map(|record| log_record(&record, &resource)));
    }
    StatusCode::OK
}

fn log_record(record: &WireRecord, resource: &[String]) -> LogRecord {
    LogRecord {
        body: text(record.body.as_ref()),
        event: record.event_name.clone(),
        trace: hex(&record.trace_id),
        span: hex(&record.span_id),
        resource: resource.to_vec(),
    }
}

fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(WireValue::StringValue(text)) => text.clone(),
        Some(WireValue::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}

fn span(span: WireSpan) -> Span {
    let attributes = span.attributes.iter();
    let attributes =
        attributes.map(|entry| format!("{}={}", entry.key, text(entry.value.as_ref()))).collect();
    Span {
        name: span.name,
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        kind: span.kind,
        failure: span.status.filter(|status| status.code == ERROR).map(|status| status.message),
        links: span.links.iter().map(|link| hex(&link.span_id)).collect(),
        attributes,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string");
        text
    })
}
