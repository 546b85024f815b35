//! What a POST carries: its bytes within the limit, and its trace.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::HeaderMap;
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use vmcp_wire::meta::{self, Meta};

use crate::edge::carried_trace;
use crate::route::TraceContext;

/// Why there is no body.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error("the body is larger than {limit} bytes (optimizer.limits.bodyBytes)")]
    TooLarge { limit: usize },
    #[error("the body broke off")]
    Broken,
}

/// Reads a body of at most `limit` bytes.
pub(super) async fn read(body: Body, limit: usize) -> Result<Bytes, BodyError> {
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge { limit }),
        Err(_) => Err(BodyError::Broken),
    }
}

/// The trace of a message: `_meta` is the protocol's carrier, the HTTP header what proxies and other clients use.
pub(super) fn trace(meta: &Meta<'_>, headers: &HeaderMap) -> TraceContext {
    let carried = carried_trace(meta);
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
