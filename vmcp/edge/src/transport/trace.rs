//! The W3C trace context of a message: from its `_meta`, and over HTTP also from the headers.

use std::borrow::Cow;

use http::HeaderMap;
use vmcp_wire::meta::{self, Trace};
use vmcp_wire::owned::OwnedMeta;

use vmcp_engine::telemetry::traces::TraceContext;

/// Returns the trace in a message's `_meta`.
pub(super) fn of_message(meta: OwnedMeta<'_>) -> TraceContext {
    let Trace { traceparent, tracestate, baggage } = meta.trace();
    let owned = |text: Option<Cow<'_, str>>| text.map(|text| Cow::Owned(text.into_owned()));
    TraceContext { traceparent: owned(traceparent), tracestate: owned(tracestate), baggage: owned(baggage) }
}

/// Returns the trace of an HTTP message: `_meta`, the protocol's own carrier, or else the headers that
/// proxies and other clients set.
pub(super) fn of_http(meta: OwnedMeta<'_>, headers: &HeaderMap) -> TraceContext {
    let carried = of_message(meta);
    if carried.traceparent.is_some() {
        return carried;
    }
    let header =
        |name| -> Option<Cow<'static, str>> { Some(headers.get(name)?.to_str().ok()?.to_owned().into()) };
    match header(meta::TRACEPARENT).filter(|text| meta::is_traceparent(text)) {
        None => TraceContext::default(),
        traceparent => {
            TraceContext { traceparent, tracestate: header(meta::TRACESTATE), baggage: header(meta::BAGGAGE) }
        }
    }
}
