//! Exports spans over OTLP, and carries W3C trace context in and out.
//!
//! Only the exporter enables spans: without one, a span costs an atomic load.
//!
//! | room | holds |
//! |---|---|
//! | `trace_span` | handles of spans under way, and the span that a thread is in |
//! | `in_span` | futures that run inside a span |
//! | `open_span` | the span behind a handle, encoded as it grows |
//! | `span_events` | log lines as events of a span |
//! | `span_queue` | spans that wait, and the thread that exports them |
//! | `span_message`, `protobuf` | messages of OTLP |

mod in_span;
mod open_span;
mod protobuf;
mod span_events;
mod span_message;
mod span_queue;
mod trace_span;

use std::borrow::Cow;

use bytes::Bytes;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{SpanContext, TraceContextExt as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::registry::LookupSpan;
use vmcp_config::{SignalExport, Telemetry};
use vmcp_wire::meta::Trace;

pub use self::in_span::{InSpan, in_span};
pub use self::open_span::OpenSpan;
use self::open_span::Sampling;
use self::span_events::SpanEvents;
use self::span_message::ResourceMessage;
use self::span_queue::SpanQueue;
use self::trace_span::SpanExporter;
pub use self::trace_span::{EnteredSpan, TraceSpan};
use super::TelemetryError;
use super::logs::BACKENDS;
use super::otlp::{self, OtlpClient};
use crate::metrics::TraceLabels;

/// A W3C trace context that owns its parts.
pub type TraceContext = Trace<'static>;

/// Target prefix of vmcp's own spans; those of libraries are not exported.
const OWN: &str = "vmcp";

/// A running batch exporter.
#[derive(Debug)]
pub struct Exporter {
    spans: SpanExporter,
}

impl Exporter {
    /// Connects lazily: a collector that is down costs spans and nothing else. A client's sampling decision
    /// is always followed.
    pub fn new(export: &SignalExport, telemetry: &Telemetry) -> Result<Self, TelemetryError> {
        let (client, url, limit) = (OtlpClient::new(export)?, export.url.clone(), export.timeout);
        let send = move |request: Bytes| client.export(url.as_str(), &request, limit);
        let resource = otlp::resource(&telemetry.service_name, &telemetry.resource_attributes);
        let queue = SpanQueue::start(ResourceMessage::from(&resource), send)
            .map_err(|error| TelemetryError::Exporter(error.to_string()))?;
        let sampling = Sampling::new(f64::from(telemetry.sampling_rate));
        // Backends number their requests.
        vmcp_backend::observe_request_ids(note_request_id);
        Ok(Self { spans: SpanExporter::new(queue, sampling) })
    }

    /// Returns the layer by which spans find this exporter. It adds vmcp's own log lines to them.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        SpanEvents { exporter: self.spans.clone() }.with_filter(own_lines())
    }

    pub(super) fn shutdown(self) {
        if let Err(error) = self.spans.queue.finish() {
            tracing::warn!(%error, "the last spans may be lost");
        }
    }
}

/// Returns the filter of lines that become events: those of vmcp, and none of backends, which say much.
fn own_lines() -> Targets {
    Targets::new().with_target(OWN, LevelFilter::INFO).with_target(BACKENDS, LevelFilter::OFF)
}

/// Notes the id of a request to a backend in the span of that request.
fn note_request_id(id: u64) {
    TraceSpan::current().fill(|open| open.note_request_id(id));
}

/// The trace context of a request as it came.
#[derive(Debug, Clone, Default)]
pub struct IncomingTrace {
    /// The context that the request continues: the message's own, else that of its HTTP request.
    pub context: TraceContext,
    /// The `traceparent` of the HTTP request, where the message has another one of its own.
    pub ambient: Option<Box<str>>,
}

/// Makes `span`, the first one of its trace, continue the caller's trace, and links it to the span of the
/// HTTP request if that is another.
pub fn continue_trace(span: &TraceSpan, caller: &IncomingTrace) {
    if span.is_none() {
        return;
    }
    let extracted = |context: &TraceContext| {
        let context = TraceContextPropagator::new().extract(&IncomingContext(context));
        context.span().span_context().clone()
    };
    let parent = caller.context.traceparent.is_some().then(|| extracted(&caller.context));
    let linked = caller.ambient.as_deref().map(|ambient| {
        let traceparent = Some(Cow::Owned(ambient.to_owned()));
        extracted(&TraceContext { traceparent, ..TraceContext::default() })
    });
    if parent.is_none() && linked.is_none() {
        return;
    }
    span.fill(|open| {
        if let Some(parent) = &parent {
            open.continue_trace(parent);
        }
        if let Some(linked) = &linked {
            open.link(linked);
        }
    });
}

/// The ids of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpanIds {
    /// Id of the trace.
    pub(crate) trace: [u8; 16],
    /// Id of the span.
    pub(crate) span: [u8; 8],
    /// True if a collector will have the span.
    pub(crate) is_sampled: bool,
}

/// Returns the ids of a span; `None` unless spans are exported.
pub(crate) fn ids(span: &TraceSpan) -> Option<SpanIds> {
    span.read_mut(|open| {
        let context = open.context();
        let (trace, span) = (context.trace_id().to_bytes(), context.span_id().to_bytes());
        SpanIds { trace, span, is_sampled: context.is_sampled() }
    })
}

/// Returns the exemplar that names a span; `None` for a span that no collector will have.
pub(crate) fn exemplar(span: &TraceSpan) -> Option<TraceLabels> {
    let ids = ids(span).filter(|ids| ids.is_sampled)?;
    Some(TraceLabels { trace_id: ids.trace, span_id: ids.span })
}

/// Returns the trace context to send on from inside `span`: the span's own when it is exported, else the
/// client's.
pub fn outgoing(span: &TraceSpan, caller: &TraceContext) -> TraceContext {
    let within = span.read_mut(|open| {
        let tracestate = open.context().trace_state().header();
        TraceContext {
            traceparent: traceparent(open.context()).map(Cow::Owned),
            tracestate: (!tracestate.is_empty()).then_some(Cow::Owned(tracestate)),
            baggage: caller.baggage.clone(),
        }
    });
    within.unwrap_or_else(|| caller.clone())
}

/// Returns the `traceparent` of W3C: version, trace, span and the flag that the trace is sampled. The
/// propagator of the SDK formats each part by itself, at ten times the instructions.
fn traceparent(context: &SpanContext) -> Option<String> {
    let (mut trace, mut span) = ([0; 32], [0; 16]);
    hex::encode_to_slice(context.trace_id().to_bytes(), &mut trace).ok()?;
    hex::encode_to_slice(context.span_id().to_bytes(), &mut span).ok()?;
    let flags: &[u8] = if context.is_sampled() { b"-01" } else { b"-00" };
    String::from_utf8([&b"00-"[..], trace.as_slice(), b"-", span.as_slice(), flags].concat()).ok()
}

/// Returns the trace id of a context.
pub fn trace_id(context: &TraceContext) -> Option<[u8; 16]> {
    let mut id = [0; 16];
    let digits = context.traceparent.as_deref()?.split('-').nth(1)?;
    hex::decode_to_slice(digits, &mut id).ok().map(|()| id)
}

struct IncomingContext<'a>(&'a TraceContext);

impl Extractor for IncomingContext<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            "traceparent" => self.0.traceparent.as_deref(),
            "tracestate" => self.0.tracestate.as_deref(),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc;

    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::trace::v1::Span as WireSpan;
    use opentelemetry_proto::tonic::trace::v1::span::Event;
    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData};
    use prost::Message as _;
    use serde_json::json;
    use tracing::field::Empty;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn a_redirect_takes_the_key_to_no_other_host() {
        // An error means that a provider is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (collector, other) = (listen(), listen());
        let file = json!({ "telemetry": {
            "endpoint": format!("http://{}", collector.local_addr().unwrap()),
            "samplingRate": "1", "headers": { "x-api-key": "secret" },
        } });
        let settings = vmcp_config::load(&file.to_string(), "f", &|_| None).unwrap().config.telemetry;
        let elsewhere = other.local_addr().unwrap();
        let redirecting = std::thread::spawn(move || {
            let (mut client, _) = collector.accept().unwrap();
            let mut request = [0; 4096];
            let length = client.read(&mut request).unwrap();
            let answer = "content-length: 0\r\nconnection: close";
            write!(client, "HTTP/1.1 307 x\r\nlocation: http://{elsewhere}/v1/traces\r\n{answer}\r\n\r\n")
                .unwrap();
            String::from_utf8_lossy(&request[..length]).into_owned()
        });
        let exporter = Exporter::new(settings.traces.as_ref().unwrap(), &settings).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(exporter.layer()), || {
            drop(TraceSpan::begin("request", OpenSpan::server));
        });
        exporter.shutdown();
        assert!(redirecting.join().unwrap().contains("x-api-key: secret"), "the collector itself gets it");
        other.set_nonblocking(true).unwrap();
        assert!(other.accept().is_err(), "the other host was asked");
    }

    /// Returns a layer whose spans are told, and the receiver of them.
    pub(super) fn told_layer() -> (SpanEvents, mpsc::Receiver<WireSpan>) {
        let (tell, told) = mpsc::channel();
        let send = move |request: Bytes| {
            let request = ExportTraceServiceRequest::decode(request).unwrap();
            let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
            for span in scopes.flat_map(|scope| scope.spans) {
                // The test may have ended.
                let _ = tell.send(span);
            }
            Ok(Bytes::new())
        };
        let queue = SpanQueue::start(ResourceMessage::default(), send).unwrap();
        (SpanEvents { exporter: SpanExporter::new(queue, Sampling::new(1.0)) }, told)
    }

    /// Tells the spans that `tracing-opentelemetry` makes.
    #[derive(Debug)]
    struct Telling(mpsc::Sender<WireSpan>);

    impl opentelemetry_sdk::trace::SpanExporter for Telling {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            for span in batch {
                // The test may have ended.
                let _ = self.0.send(span.into());
            }
            Ok(())
        }
    }

    /// Writes lines, three of them to be events.
    fn some_lines() {
        let is_new = true;
        let name = "hello";
        tracing::info!(target: "vmcp_edge", tool = "echo", number = 7, share = 0.5, is_new, "said {name}");
        tracing::info!(target: "vmcp_edge", count = 3_u64, of = ?["a"], "said more");
        tracing::warn!(target: "vmcp_edge", error = "slow", "without an answer");
        tracing::debug!(target: "vmcp_edge", "below the level");
        tracing::error!(target: "hyper", "of a library");
        tracing::error!(target: "vmcp_backend", "of a backend");
    }

    /// Makes spans and events of each form that the code has.
    fn own_spans() {
        let root = TraceSpan::begin("request", |open| {
            open.rename(&["tools/call", " ", "echo"]);
            open.server();
            open.text("tool", "echo");
            open.optional("absent", None);
            open.optional("present", Some("yes"));
            open.number("count", 3);
        });
        root.in_scope(|| {
            some_lines();
            let below = TraceSpan::begin("search.keyword", |open| open.number("matches", 3));
            below.in_scope(|| tracing::error!(target: "vmcp_search", error = "no index", "it failed"));
        });
        drop(root.below("exchange", OpenSpan::client));
        root.text("later", "value");
        root.fill(OpenSpan::succeed);
    }

    /// Makes the same spans as [`own_spans`], for the library.
    fn spans_of_tracing() {
        let root = tracing::info_span!(
            target: "vmcp::request", "request", otel.name = "tools/call echo", otel.kind = "server",
            tool = "echo", absent = None::<&str>, present = "yes", count = 3_i64,
            later = Empty, otel.status_code = Empty
        );
        root.in_scope(|| {
            some_lines();
            let below = tracing::info_span!(target: "vmcp::search", "search.keyword", matches = 3_i64);
            below.in_scope(|| tracing::error!(target: "vmcp_search", error = "no index", "it failed"));
        });
        drop(tracing::info_span!(target: "vmcp::request", parent: &root, "exchange", otel.kind = "client"));
        root.record("later", "value").record("otel.status_code", "OK");
    }

    /// Returns spans in the order of their names, with the name of the parent as its id. Other ids and times,
    /// which differ from run to run, are left out, and so is the target, which the library adds.
    fn comparable(spans: &[WireSpan]) -> Vec<WireSpan> {
        let name = |id: &[u8]| {
            let found = spans.iter().find(|span| !id.is_empty() && span.span_id == id);
            found.map(|span| span.name.clone().into_bytes()).unwrap_or_default()
        };
        let mut comparable: Vec<_> = spans
            .iter()
            .cloned()
            .map(|span| WireSpan {
                parent_span_id: name(&span.parent_span_id),
                trace_id: Vec::new(),
                span_id: Vec::new(),
                start_time_unix_nano: 0,
                end_time_unix_nano: 0,
                attributes: span.attributes.into_iter().filter(|it| it.key != "target").collect(),
                events: span.events.into_iter().map(|event| Event { time_unix_nano: 0, ..event }).collect(),
                ..span
            })
            .collect();
        comparable.sort_by(|one, other| one.name.cmp(&other.name));
        comparable
    }

    #[test]
    fn spans_are_those_of_the_library_without_targets_source_lines_threads_and_busy_times() {
        let (layer, told) = told_layer();
        let exporter = layer.exporter.clone();
        let subscriber = tracing_subscriber::registry().with(layer.with_filter(own_lines()));
        tracing::subscriber::with_default(subscriber, own_spans);
        exporter.queue.finish().unwrap();
        let own = comparable(&told.try_iter().collect::<Vec<_>>());

        let (tell, told) = mpsc::channel();
        let provider = SdkTracerProvider::builder().with_simple_exporter(Telling(tell)).build();
        let library = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let library = library.with_location(false).with_threads(false).with_tracked_inactivity(false);
        let subscriber = tracing_subscriber::registry().with(library.with_filter(own_lines()));
        tracing::subscriber::with_default(subscriber, spans_of_tracing);
        let theirs = comparable(&told.try_iter().collect::<Vec<_>>());

        assert_eq!(own.len(), 3, "{own:#?}");
        assert_eq!(own.iter().map(|span| span.events.len()).sum::<usize>(), 4, "{own:#?}");
        assert_eq!(own, theirs);
    }

    #[test]
    fn a_span_ends_with_its_last_handle_after_those_below_it_or_before() {
        let (layer, told) = told_layer();
        let exporter = layer.exporter.clone();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let root = TraceSpan::begin("root", |_| ());
            let (other, below) = (root.clone(), root.below("below", |_| ()));
            drop(root);
            other.text("still", "open");
            drop(other);
            // The trace of a span that has ended goes on.
            drop(below.below("last", |_| ()));
        });
        exporter.queue.finish().unwrap();
        let spans: Vec<_> = told.try_iter().collect();
        let names: Vec<_> = spans.iter().map(|span| &*span.name).collect();
        assert_eq!(names, ["root", "last", "below"]);
        assert_eq!(spans[0].attributes.len(), 1);
        assert_eq!(spans[2].parent_span_id, spans[0].span_id);
        assert!(spans.iter().all(|span| span.trace_id == spans[0].trace_id));
        assert!(spans[2].start_time_unix_nano <= spans[1].start_time_unix_nano);
    }

    #[test]
    fn the_trace_that_is_sent_on_is_that_of_the_span_with_the_baggage_of_the_caller() {
        let of_client = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
        let caller = TraceContext {
            traceparent: Some(of_client.into()),
            tracestate: Some("vendor=1".into()),
            baggage: Some("user=alice".into()),
        };
        let spans = tracing_subscriber::registry().with(told_layer().0);
        tracing::subscriber::with_default(spans, || {
            let span = TraceSpan::begin("request", |_| ());
            continue_trace(&span, &IncomingTrace { context: caller.clone(), ambient: None });
            let sent = outgoing(&span, &caller);
            assert_eq!(sent.tracestate.as_deref(), Some("vendor=1"));
            assert_eq!(sent.baggage.as_deref(), Some("user=alice"));
            let traceparent = sent.traceparent.clone().unwrap();
            let own = hex::encode(ids(&span).unwrap().span);
            assert_eq!(traceparent, format!("00-0af7651916cd43dd8448eb211c80319c-{own}-01"));
            assert_ne!(traceparent, of_client);
            let below = span.below("exchange", |_| ());
            assert_eq!(trace_id(&outgoing(&below, &TraceContext::default())), trace_id(&caller));
        });
        assert_eq!(outgoing(&TraceSpan::none(), &caller).traceparent, caller.traceparent);
    }

    #[test]
    fn a_client_that_does_not_sample_gets_no_spans_and_its_trace_goes_on() {
        let (layer, told) = told_layer();
        let exporter = layer.exporter.clone();
        let traceparent = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-00";
        let context = TraceContext { traceparent: Some(traceparent.into()), ..TraceContext::default() };
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let span = TraceSpan::begin("request", |open| open.text("tool", "echo"));
            continue_trace(&span, &IncomingTrace { context: context.clone(), ambient: None });
            let below = span.in_scope(|| TraceSpan::begin("backend.call", OpenSpan::call));
            assert_eq!(exemplar(&span), None);
            let sent = outgoing(&below, &context).traceparent.unwrap();
            assert!(sent.starts_with("00-0af7651916cd43dd8448eb211c80319c-"), "{sent}");
            assert!(sent.ends_with("-00") && sent != traceparent, "{sent}");
        });
        exporter.queue.finish().unwrap();
        assert_eq!(told.try_iter().count(), 0);
    }

    fn listen() -> TcpListener {
        TcpListener::bind(("127.0.0.1", 0)).unwrap()
    }
}
