//! Exports spans over OTLP, and carries W3C trace context in and out.
//!
//! Only the exporter enables spans: without one, a span costs an atomic load.
//!
//! | room | holds |
//! |---|---|
//! | `trace_span` | handles of spans under way, and the span that a thread is in |
//! | `in_span` | futures that run inside a span |
//! | `open_span` | the span behind a handle, encoded as it grows |
//! | `message_trace` | the trace in the parameters of a message |
//! | `span_events` | log lines as events of a span |
//! | `span_queue` | spans that wait, and the thread that exports them |
//! | `span_message`, `protobuf` | messages of OTLP |

mod in_span;
mod message_trace;
mod open_span;
mod protobuf;
mod span_events;
mod span_message;
mod span_queue;
#[cfg(test)]
mod tests;
mod trace_span;

use std::borrow::Cow;

use bytes::Bytes;
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::registry::LookupSpan;
use vmcp_config::{SignalExport, Telemetry};
use vmcp_wire::meta::{Trace, is_traceparent};

pub use self::in_span::{InSpan, in_span};
pub use self::message_trace::{params_in_trace, trace_of_params};
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

    /// Returns the layer that adds vmcp's own log lines to spans. In tests, spans find this exporter by it.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        SpanEvents { exporter: self.spans.clone() }.with_filter(own_lines())
    }

    /// Exports the spans of all threads. The layer serves the threads of its subscriber too, at the cost of a
    /// look through the layers for each request.
    pub(super) fn serve_process(&self) {
        self.spans.serve_process();
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
    TraceSpan::fill_current(|open| open.note_request_id(id));
}

/// The trace context of a request as it came.
#[derive(Debug, Clone, Default)]
pub struct IncomingTrace {
    /// The context that the request continues: the message's own, else that of its HTTP request.
    pub context: TraceContext,
    /// The `traceparent` of the HTTP request, where the message has another one of its own.
    pub ambient: Option<Box<str>>,
}

/// Begins a span that continues the caller's trace, and links it to the span of the HTTP request if that is
/// another. Without a caller's trace, it is as [`TraceSpan::begin`] makes it.
pub fn begin_continued(
    name: &'static str,
    caller: &IncomingTrace,
    fill: impl FnOnce(&mut OpenSpan),
) -> TraceSpan {
    if !trace_span::is_exporting() {
        return TraceSpan::none();
    }
    let (parent, linked) = (parent(caller), linked(caller));
    let fill = |open: &mut OpenSpan| {
        fill(open);
        if let Some(linked) = &linked {
            open.link(linked);
        }
    };
    match parent {
        Some(parent) => TraceSpan::remote(name, &parent, fill),
        None => TraceSpan::begin(name, fill),
    }
}

/// Makes `span`, a [root](TraceSpan::root), continue the caller's trace, and links it to the caller's other
/// span if there is one. [`begin_continued`] costs less where the trace is known.
pub fn continue_trace(span: &TraceSpan, caller: &IncomingTrace) {
    if span.is_none() {
        return;
    }
    let (parent, linked) = (parent(caller), linked(caller));
    span.fill(|open| {
        if let Some(parent) = &parent {
            open.continue_trace(parent);
        }
        if let Some(linked) = &linked {
            open.link(linked);
        }
    });
}

/// Returns the span that a caller's request continues.
fn parent(caller: &IncomingTrace) -> Option<SpanContext> {
    let TraceContext { traceparent, tracestate, .. } = &caller.context;
    span_context(traceparent.as_deref()?, tracestate.as_deref())
}

/// Returns the span of the HTTP request, where the message has another one.
fn linked(caller: &IncomingTrace) -> Option<SpanContext> {
    span_context(caller.ambient.as_deref()?, None)
}

/// Returns the span that a caller names. The propagator of the SDK returns the same one in a context of its
/// own, which takes several allocations.
fn span_context(traceparent: &str, tracestate: Option<&str>) -> Option<SpanContext> {
    if !is_traceparent(traceparent) {
        return None;
    }
    // Each field has its place.
    let (trace, span, flags) = (traceparent.get(3..35)?, traceparent.get(36..52)?, traceparent.get(53..55)?);
    let (mut trace_id, mut span_id) = ([0; 16], [0; 8]);
    hex::decode_to_slice(trace, &mut trace_id).ok()?;
    hex::decode_to_slice(span, &mut span_id).ok()?;
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
    let state = tracestate.and_then(|state| state.parse().ok()).unwrap_or_default();
    Some(SpanContext::new(TraceId::from_bytes(trace_id), SpanId::from_bytes(span_id), flags, true, state))
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
        let state = open.context().trace_state();
        let tracestate = (*state != TraceState::NONE).then(|| state.header());
        TraceContext {
            traceparent: traceparent(open.context()).map(Cow::Owned),
            tracestate: tracestate.filter(|state| !state.is_empty()).map(Cow::Owned),
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

/// Returns the id of a request's trace: that of its span when spans are exported, else the client's.
pub fn trace_of(span: &TraceSpan, caller: &TraceContext) -> Option<[u8; 16]> {
    ids(span).map_or_else(|| trace_id(caller), |ids| Some(ids.trace))
}

/// Returns the trace id of a context.
fn trace_id(context: &TraceContext) -> Option<[u8; 16]> {
    let mut id = [0; 16];
    let digits = context.traceparent.as_deref()?.split('-').nth(1)?;
    hex::decode_to_slice(digits, &mut id).ok().map(|()| id)
}
