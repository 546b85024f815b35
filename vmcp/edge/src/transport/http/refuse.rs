//! Refusals: requests that are not served, each with the HTTP status and the JSON-RPC error that the protocol
//! asks for.

use std::borrow::Cow;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::value::RawValue;
use vmcp_json::json_rope::JsonRope;
use vmcp_json::text;
use vmcp_wire::codes;
use vmcp_wire::envelope::EnvelopeError;
use vmcp_wire::rpc::{self, Refusal};

use super::exchange::Response;
use super::request_permit::QuotaExceeded;
use super::respond;
use crate::session::sessions::SessionNotFound;
use vmcp_engine::access::identity::Principal;

/// The reason why a request was refused, in words that show no credential.
#[derive(Debug, Clone)]
pub(crate) struct RefusalReason {
    pub(crate) words: Cow<'static, str>,
    /// The client, once it is known.
    pub(crate) principal: Option<Principal>,
}

impl RefusalReason {
    /// Notes the reason on a response, in place of an earlier one.
    pub(crate) fn note(mut response: Response, words: impl Into<Cow<'static, str>>) -> Response {
        response.extensions_mut().insert(RefusalReason { words: words.into(), principal: None });
        response
    }

    /// Adds the client to the reason on a response, if it has one.
    pub(crate) fn name_client(response: &mut Response, principal: impl FnOnce() -> Principal) {
        if let Some(reason) = response.extensions_mut().get_mut::<RefusalReason>() {
            reason.principal.get_or_insert_with(principal);
        }
    }
}

/// Value of `Retry-After`, in seconds, where a limit is reached or a program starts.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// `Content-Type` and `Accept` as the SDKs of MCP write them. A call of theirs is not parsed further.
const JSON: &str = "application/json";
const EITHER_ANSWER: &str = "application/json, text/event-stream";

/// Encodes a JSON-RPC error with an HTTP status.
pub(crate) fn error_response(
    status: StatusCode,
    id: Option<&RawValue>,
    code: i64,
    message: &str,
) -> Response {
    let error = format!(r#"{{"code":{code},"message":{}}}"#, text::quoted(message));
    let response = respond::json_text(status, rpc::error(id, JsonRope::from(error)));
    RefusalReason::note(response, message.to_owned())
}

/// 429 with `Retry-After`: a principal at its limits.
pub(crate) fn quota(exceeded: QuotaExceeded) -> Response {
    later(StatusCode::TOO_MANY_REQUESTS, &exceeded.to_string())
}

/// Refuses, with `Retry-After`, a request that may succeed a little later.
pub(crate) fn later(status: StatusCode, message: &str) -> Response {
    let mut response = error_response(status, None, codes::INTERNAL_ERROR, message);
    response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
    response
}

/// Checks the media types of a POST: the body must be JSON (415), and the client must accept JSON (406).
pub(crate) fn media_types(headers: &HeaderMap) -> Result<(), Box<Response>> {
    let refuse =
        |status, message| Err(Box::new(error_response(status, None, codes::INVALID_REQUEST, message)));
    if !headers.get(header::CONTENT_TYPE).is_some_and(is_json) {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json");
    }
    if !accepts(headers, JSON) {
        return refuse(StatusCode::NOT_ACCEPTABLE, "Accept must list application/json and text/event-stream");
    }
    Ok(())
}

/// True for the media type of JSON, whatever its parameters.
fn is_json(content_type: &HeaderValue) -> bool {
    if content_type == JSON {
        return true;
    }
    let essence = content_type.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(JSON)
}

/// Returns true if the client accepts a stream of events.
pub(crate) fn accepts_streams(headers: &HeaderMap) -> bool {
    accepts(headers, "text/event-stream")
}

/// Reads `Accept` as HTTP defines it: lists, wildcards, parameters; no header accepts everything. `wanted` is
/// JSON or a stream of events.
fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let (kind, _) = wanted.split_once('/').unwrap_or((wanted, ""));
    let fits = |range: &[u8]| {
        let end = memchr::memchr(b';', range).unwrap_or(range.len());
        let range = range.get(..end).unwrap_or_default().trim_ascii();
        range == b"*/*"
            || range.eq_ignore_ascii_case(wanted.as_bytes())
            || range.strip_suffix(b"/*").is_some_and(|range| range.eq_ignore_ascii_case(kind.as_bytes()))
    };
    let mut has_none = true;
    for value in headers.get_all(header::ACCEPT) {
        if value == EITHER_ANSWER || value.as_bytes().split(|byte| *byte == b',').any(fits) {
            return true;
        }
        // A value beyond ASCII says nothing.
        has_none &= value.to_str().is_err();
    }
    has_none
}

/// 400: no JSON-RPC message.
pub(crate) fn envelope(error: &EnvelopeError) -> Response {
    error_response(StatusCode::BAD_REQUEST, error.id.as_deref(), error.code(), &error.to_string())
}

/// A violation of the protocol; the refusal names its own status.
pub(crate) fn protocol(id: Option<&RawValue>, refusal: &Refusal) -> Response {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST);
    let response = respond::json_text(status, rpc::error(id, JsonRope::from(refusal.error.to_json())));
    RefusalReason::note(response, refusal.error.message.clone())
}

/// 400: a legacy request without a session id.
pub(crate) fn session_required() -> Response {
    let message = "Mcp-Session-Id is required; begin with initialize, or speak 2026-07-28";
    error_response(StatusCode::BAD_REQUEST, None, codes::INVALID_REQUEST, message)
}

/// 404: a session that expired or was ended; the client opens a new one.
pub(crate) fn session_not_found(error: &SessionNotFound) -> Response {
    let response = error_response(StatusCode::NOT_FOUND, None, codes::INVALID_REQUEST, &error.to_string());
    match error {
        // The client is not told; the record is.
        SessionNotFound::OfAnotherIdentity => RefusalReason::note(response, "session id of another identity"),
        SessionNotFound::Unknown(_) | SessionNotFound::Ended => response,
    }
}

/// 503 with `Retry-After`: a bridge whose program has not introduced itself yet. vmcp cannot answer in its
/// place.
pub(crate) fn not_up_yet() -> Response {
    later(
        StatusCode::SERVICE_UNAVAILABLE,
        "the server behind this one is being started; /readyz of the admin port says more",
    )
}

/// 404: a path below `/mcp` that names no profile.
pub(crate) fn no_profile() -> Response {
    let response = respond::text(
        StatusCode::NOT_FOUND,
        "there is no profile of this name: `/mcp` serves everything, `profiles` of the configuration names parts\n",
    );
    RefusalReason::note(response, "no profile of this name")
}

/// 405: GET or DELETE without a session.
pub(crate) fn post_only() -> Response {
    let mut response =
        respond::text(StatusCode::METHOD_NOT_ALLOWED, "without a session, only POST is served here\n");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
    RefusalReason::note(response, "no session")
}

/// 406: a stream for a client that accepts none.
pub(crate) fn streams_only() -> Response {
    let words = "the stream is text/event-stream; send it in Accept\n";
    RefusalReason::note(respond::text(StatusCode::NOT_ACCEPTABLE, words), "no stream accepted")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(accept: &[&str]) -> HeaderMap {
        accept.iter().map(|value| (header::ACCEPT, value.parse().unwrap())).collect()
    }

    #[test]
    fn the_body_is_json_whatever_its_parameters() {
        let refused = |kind: &[&str]| {
            let kinds = kind.iter().map(|value| (header::CONTENT_TYPE, value.parse().unwrap()));
            media_types(&kinds.collect()).is_err_and(|response| response.status() == 415)
        };
        for kind in ["application/json", "Application/JSON", " application/json ; charset=utf-8"] {
            assert!(!refused(&[kind]), "{kind}");
        }
        for kind in ["", "text/plain", "application/json5", "application/json, text/plain"] {
            assert!(refused(&[kind]), "{kind}");
        }
        assert!(refused(&[]));
    }

    #[test]
    fn accept_is_read_as_http_defines_it() {
        for accept in [
            &[][..],
            &["*/*"],
            &["application/*"],
            &["text/html, Application/JSON;q=0.5"],
            &["text/html", "*/*"],
        ] {
            assert!(accepts(&headers(accept), "application/json"), "{accept:?}");
        }
        assert!(!accepts(&headers(&["text/event-stream"]), "application/json"));
        assert!(!accepts_streams(&headers(&["application/json"])));
        assert!(accepts_streams(&headers(&["application/json, text/event-stream"])));
        assert!(accepts(&headers(&["application/json, text/event-stream"]), "application/json"));
    }
}
