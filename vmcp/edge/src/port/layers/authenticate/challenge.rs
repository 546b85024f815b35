//! Challenges: the answers to clients that are not let in (RFC 6750, RFC 9728).

use std::borrow::Cow;
use std::fmt::Write as _;

use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use vmcp_access::authentication::Authentication;
use vmcp_access::rejection::Rejection;
use vmcp_wire::codes;

use super::super::resource_metadata;
use crate::transport::http::exchange::Response;
use crate::transport::http::refuse::error_response;

/// Value of `Retry-After`, in seconds, while the keys of a provider cannot be fetched.
const PROVIDER_RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");

/// Returns the answer to a request that was rejected.
pub(super) fn response(rejection: &Rejection, head: &Parts, authentication: &Authentication) -> Response {
    let (status, error) = match rejection {
        Rejection::Missing => (StatusCode::UNAUTHORIZED, None),
        Rejection::Malformed => (StatusCode::BAD_REQUEST, Some("invalid_request")),
        Rejection::Token(_) | Rejection::Unknown | Rejection::Withdrawn => {
            (StatusCode::UNAUTHORIZED, Some("invalid_token"))
        }
        Rejection::InsufficientScope { .. } => (StatusCode::FORBIDDEN, Some("insufficient_scope")),
        Rejection::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, None),
    };
    let message = rejection.to_string();
    let mut response = error_response(status, None, codes::INVALID_REQUEST, &message);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, PROVIDER_RETRY_AFTER);
        return response;
    }
    let mut challenge = "Bearer".to_owned();
    let mut parameter = |name: &str, value: &str| {
        let separator = if challenge.len() == "Bearer".len() { ' ' } else { ',' };
        // Writing to a string does not fail.
        let _ = write!(challenge, "{separator}{name}=\"{}\"", quoted(value));
    };
    if let Some(error) = error {
        parameter("error", error);
        parameter("error_description", &message);
    }
    let scopes = match rejection {
        Rejection::InsufficientScope { required } => required.join(" "),
        _ => resource_metadata::scopes(authentication).join(" "),
    };
    if !scopes.is_empty() {
        parameter("scope", &scopes);
    }
    if let Some(url) = resource_metadata::metadata_url(head, authentication) {
        parameter("resource_metadata", url.as_str());
    }
    if let Ok(challenge) = HeaderValue::try_from(challenge) {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}

/// Escapes a value for a quoted string (RFC 9110, 5.6.4).
fn quoted(value: &str) -> Cow<'_, str> {
    if value.contains(['"', '\\']) {
        value.replace('\\', "\\\\").replace('"', "\\\"").into()
    } else {
        value.into()
    }
}
