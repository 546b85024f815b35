//! Exports spans over OTLP, and carries W3C trace context in and out.
//!
//! Only the exporter enables spans: without one, a span costs an atomic load.

mod in_span;
mod protobuf;
mod span_message;
mod span_queue;

use std::borrow::Cow;

use bytes::Bytes;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{SpanContext, TraceContextExt as _, TracerProvider as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use tracing::{Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::registry::LookupSpan;
use vmcp_config::{SignalExport, Telemetry};
use vmcp_wire::meta::Trace;

pub use self::in_span::{InSpan, in_span};
use self::span_queue::SpanQueue;
use super::TelemetryError;
use super::logs::BACKENDS;
use super::otlp::{self, OtlpClient};

/// A W3C trace context that owns its parts.
pub type TraceContext = Trace<'static>;

/// Target prefix of vmcp's own spans; those of libraries are not exported.
const OWN: &str = "vmcp";

/// A running batch exporter.
#[derive(Debug)]
pub struct Exporter {
    provider: SdkTracerProvider,
    /// True if log lines are exported too.
    marks_lines: bool,
}

impl Exporter {
    /// Connects lazily: a collector that is down costs spans and nothing else. A client's sampling decision
    /// is always followed.
    pub fn new(export: &SignalExport, telemetry: &Telemetry) -> Result<Self, TelemetryError> {
        let (client, url, limit) = (OtlpClient::new(export)?, export.url.clone(), export.timeout);
        let send = move |request: Bytes| client.export(url.as_str(), &request, limit);
        let queue = SpanQueue::start(send).map_err(|error| TelemetryError::Exporter(error.to_string()))?;
        let root = Sampler::TraceIdRatioBased(f64::from(telemetry.sampling_rate));
        let provider = SdkTracerProvider::builder()
            .with_span_processor(queue)
            .with_sampler(Sampler::ParentBased(Box::new(root)))
            .with_resource(otlp::resource(&telemetry.service_name, &telemetry.resource_attributes))
            .build();
        Ok(Self { provider, marks_lines: telemetry.logs.is_some() })
    }

    /// Returns the layer that turns spans of `tracing` into exported ones.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        own_spans(self.provider.tracer("vmcp"), self.marks_lines)
    }

    pub(super) fn shutdown(self) {
        if let Err(error) = self.provider.shutdown() {
            tracing::warn!(%error, "the last spans may be lost");
        }
    }
}

/// Returns the layer that starts and ends vmcp's own spans at `tracer`. Source lines, threads, and busy and
/// idle times are left out: they are seven attributes of each span, about as many as its own, and describe
/// the program instead of the call. `marks_lines`: exported log lines take their trace from OpenTelemetry's
/// context of the thread, which costs each entry of a span a clone of its context and a look-up.
fn own_spans<S>(tracer: SdkTracer, marks_lines: bool) -> impl Layer<S> + Send + Sync + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    let layer = tracing_opentelemetry::layer().with_tracer(tracer);
    let layer = layer.with_location(false).with_threads(false).with_tracked_inactivity(false);
    let layer = layer.with_context_activation(marks_lines);
    layer.with_filter(
        Targets::new().with_target(OWN, LevelFilter::INFO).with_target(BACKENDS, LevelFilter::OFF),
    )
}

/// The trace context of a request as it came.
#[derive(Debug, Clone, Default)]
pub struct IncomingTrace {
    /// The context that the request continues: the message's own, else that of its HTTP request.
    pub context: TraceContext,
    /// The `traceparent` of the HTTP request, where the message has another one of its own.
    pub ambient: Option<Box<str>>,
}

/// Makes `span` continue the caller's trace, and links it to the span of the HTTP request if that is another.
pub fn continue_trace(span: &Span, caller: &IncomingTrace) {
    if span.is_disabled() {
        return;
    }
    let extracted = |context| TraceContextPropagator::new().extract(&IncomingContext(context));
    if caller.context.traceparent.is_some() {
        // An error means that the span has begun already, which a span made for this request cannot have.
        let _ = span.set_parent(extracted(&caller.context));
    }
    if let Some(ambient) = caller.ambient.as_deref() {
        let traceparent = Some(Cow::Owned(ambient.to_owned()));
        let context = TraceContext { traceparent, ..TraceContext::default() };
        span.add_link(extracted(&context).span().span_context().clone());
    }
}

/// Returns the trace context to send on from inside `span`: the span's own when it is exported, else the
/// client's.
pub fn outgoing(span: &Span, caller: &TraceContext) -> TraceContext {
    if span.is_disabled() {
        return caller.clone();
    }
    let context = span.context();
    let within = context.span();
    let within = within.span_context();
    if !within.is_valid() {
        return caller.clone();
    }
    let tracestate = within.trace_state().header();
    TraceContext {
        traceparent: traceparent(within).map(Cow::Owned),
        tracestate: (!tracestate.is_empty()).then_some(Cow::Owned(tracestate)),
        baggage: caller.baggage.clone(),
    }
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

    use opentelemetry::trace::Tracer as _;
    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::trace::{SpanData, SpanExporter};
    use serde_json::json;
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
        drop(exporter.provider.tracer("test").start("a span"));
        let _ = exporter.provider.force_flush();
        assert!(redirecting.join().unwrap().contains("x-api-key: secret"), "the collector itself gets it");
        other.set_nonblocking(true).unwrap();
        assert!(other.accept().is_err(), "the other host was asked");
    }

    /// Tells the names of the attributes of each span.
    #[derive(Debug)]
    struct Telling(mpsc::Sender<Vec<String>>);

    impl SpanExporter for Telling {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            for span in batch {
                let names = span.attributes.iter().map(|attribute| attribute.key.to_string());
                // The test may have ended.
                let _ = self.0.send(names.collect());
            }
            Ok(())
        }
    }

    #[test]
    fn a_span_has_its_own_attributes_and_none_of_source_lines_threads_and_busy_times() {
        let (tell, told) = mpsc::channel();
        let provider = SdkTracerProvider::builder().with_simple_exporter(Telling(tell)).build();
        let spans = tracing_subscriber::registry().with(own_spans(provider.tracer("test"), false));
        tracing::subscriber::with_default(spans, || {
            let span = tracing::info_span!(target: "vmcp::request", "request", tool = "echo");
            span.in_scope(|| ());
        });
        assert_eq!(told.recv().unwrap(), ["target", "tool"]);
    }

    #[test]
    fn the_trace_that_is_sent_on_is_that_of_the_span_with_the_baggage_of_the_caller() {
        let of_client = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
        let caller = TraceContext {
            traceparent: Some(of_client.into()),
            tracestate: Some("vendor=1".into()),
            baggage: Some("user=alice".into()),
        };
        let provider = SdkTracerProvider::builder().build();
        let spans = tracing_subscriber::registry().with(own_spans(provider.tracer("test"), false));
        tracing::subscriber::with_default(spans, || {
            let span = tracing::info_span!(target: "vmcp::request", "request");
            continue_trace(&span, &IncomingTrace { context: caller.clone(), ambient: None });
            let sent = outgoing(&span, &caller);
            let mut by_library = std::collections::HashMap::<String, String>::new();
            TraceContextPropagator::new().inject_context(&span.context(), &mut by_library);
            assert_eq!(sent.traceparent.as_deref(), by_library.get("traceparent").map(String::as_str));
            assert_eq!(sent.tracestate.as_deref(), Some("vendor=1"));
            assert_eq!(sent.baggage.as_deref(), Some("user=alice"));
            let traceparent = sent.traceparent.clone().unwrap();
            assert!(traceparent.starts_with("00-0af7651916cd43dd8448eb211c80319c-"), "{traceparent}");
            assert_ne!(traceparent, of_client);
            let below = tracing::info_span!(target: "vmcp::request", parent: &span, "exchange");
            assert_eq!(trace_id(&outgoing(&below, &TraceContext::default())), trace_id(&caller));
        });
        assert_eq!(outgoing(&Span::none(), &caller).traceparent, caller.traceparent);
    }

    fn listen() -> TcpListener {
        TcpListener::bind(("127.0.0.1", 0)).unwrap()
    }
}
