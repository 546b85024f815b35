//! The W3C trace context that a message carries, per transport.

use std::borrow::Cow;

use axum::http::HeaderMap;
use vmcp_wire::meta::{self, Meta, Trace};

use crate::telemetry::traces::TraceContext;

/// The trace that a message carries in its `_meta`.
pub(super) fn of_message(meta: &Meta<'_>) -> TraceContext {
    let Trace { traceparent, tracestate, baggage } = meta.trace();
    let owned = |text: Option<Cow<'_, str>>| text.map(|text| Cow::Owned(text.into_owned()));
    TraceContext { traceparent: owned(traceparent), tracestate: owned(tracestate), baggage: owned(baggage) }
}

/// The trace of an HTTP message: `_meta` is the protocol's carrier and wins; the HTTP header is what proxies and other
/// clients use.
pub(super) fn of_http(meta: &Meta<'_>, headers: &HeaderMap) -> TraceContext {
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
