//! The W3C trace context of a message: from its `_meta`, and over HTTP also from the headers.

use std::borrow::Cow;

use http::HeaderMap;
use vmcp_wire::meta::{self, Trace};
use vmcp_wire::owned::OwnedMeta;

use vmcp_engine::telemetry::traces::{IncomingTrace, TraceContext};

/// Returns the trace in a message's `_meta`.
pub(super) fn of_message(meta: OwnedMeta<'_>) -> TraceContext {
    let Trace { traceparent, tracestate, baggage } = meta.trace();
    let owned = |text: Option<Cow<'_, str>>| text.map(|text| Cow::Owned(text.into_owned()));
    TraceContext { traceparent: owned(traceparent), tracestate: owned(tracestate), baggage: owned(baggage) }
}

/// Returns the trace of an HTTP message: `_meta`, the protocol's own carrier, or else the headers that
/// proxies and other clients set. Headers of another span than that of `_meta` are its ambient one.
pub(super) fn of_http(meta: OwnedMeta<'_>, headers: &HeaderMap) -> IncomingTrace {
    let header = |name| -> Option<&str> { headers.get(name)?.to_str().ok() };
    let traceparent = header(meta::TRACEPARENT).filter(|text| meta::is_traceparent(text));
    let carried = of_message(meta);
    if let Some(own) = carried.traceparent.as_deref() {
        let ambient = traceparent.filter(|text| *text != own).map(Box::from);
        return IncomingTrace { context: carried, ambient };
    }
    let owned = |text: &str| Cow::Owned(text.to_owned());
    let context = match traceparent {
        None => TraceContext::default(),
        Some(traceparent) => TraceContext {
            traceparent: Some(owned(traceparent)),
            tracestate: header(meta::TRACESTATE).map(owned),
            baggage: header(meta::BAGGAGE).map(owned),
        },
    };
    IncomingTrace { context, ambient: None }
}
