//! Collector of traces that speaks OTLP over HTTP in protobuf.

use parking_lot::Mutex;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
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
    /// Its attributes as `key=value`.
    pub attributes: Vec<String>,
}

/// A collector that keeps every span.
pub struct Collector {
    /// URL for `telemetry.endpoint`.
    pub endpoint: String,
    spans: Spans,
}

type Spans = Arc<Mutex<Vec<Span>>>;

impl Collector {
    /// Starts a collector on a free port; it ends with the test.
    pub async fn start() -> Self {
        let spans = Spans::default();
        let routes = axum::Router::new().route("/v1/traces", post(receive)).with_state(Arc::clone(&spans));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { endpoint, spans }
    }

    /// Returns the spans that arrived so far.
    pub fn spans(&self) -> Vec<Span> {
        self.spans.lock().clone()
    }
}

async fn receive(State(spans): State<Spans>, body: Bytes) -> StatusCode {
    let Ok(request) = ExportTraceServiceRequest::decode(body) else { return StatusCode::BAD_REQUEST };
    let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
    let arrived = scopes.flat_map(|scope| scope.spans).map(span);
    spans.lock().extend(arrived);
    StatusCode::OK
}

fn span(span: WireSpan) -> Span {
    let attributes = span.attributes.iter().map(|entry| format!("{}={:?}", entry.key, entry.value)).collect();
    Span {
        name: span.name,
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        attributes,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string");
        text
    })
}
