//! Challenges: the answers to clients that are not let in (RFC 6750, RFC 9449, RFC 9728).

use std::borrow::Cow;
use std::fmt::Write as _;

use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use vmcp_access::authentication::Authentication;
use vmcp_access::oidc::verify::TokenError;
use vmcp_access::rejection::Rejection;
use vmcp_wire::codes;

use super::super::resource_metadata;
use crate::transport::http::exchange::Response;
use crate::transport::http::refuse::error_response;

/// Value of `Retry-After`, in seconds, while tokens cannot be verified.
const PROVIDER_RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");

/// Returns the answer to a request that was rejected.
pub(super) fn response(rejection: &Rejection, head: &Parts, authentication: &Authentication) -> Response {
    let (status, error) = match rejection {
        Rejection::Missing => (StatusCode::UNAUTHORIZED, None),
        Rejection::Malformed => (StatusCode::BAD_REQUEST, Some("invalid_request")),
        Rejection::Token(_) | Rejection::Unknown | Rejection::Withdrawn => {
            (StatusCode::UNAUTHORIZED, Some("invalid_token"))
        }
        Rejection::Proof(_) => (StatusCode::UNAUTHORIZED, Some("invalid_dpop_proof")),
        Rejection::InsufficientScope { .. } => (StatusCode::FORBIDDEN, Some("insufficient_scope")),
        Rejection::Unavailable | Rejection::Busy => (StatusCode::SERVICE_UNAVAILABLE, None),
    };
    let message = rejection.to_string();
    let mut response = error_response(status, None, codes::INVALID_REQUEST, &message);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, PROVIDER_RETRY_AFTER);
        return response;
    }
    let mut parameters: Vec<(&str, Cow<'_, str>)> = Vec::new();
    if let Some(error) = error {
        parameters.push(("error", error.into()));
        parameters.push(("error_description", message.as_str().into()));
    }
    let scopes = match rejection {
        Rejection::InsufficientScope { required } => required.join(" "),
        _ => resource_metadata::scopes(authentication).join(" "),
    };
    if !scopes.is_empty() {
        parameters.push(("scope", scopes.into()));
    }
    if let Some(url) = resource_metadata::metadata_url(head, authentication) {
        parameters.push(("resource_metadata", String::from(url).into()));
    }
    let algorithms = || ("algs", Cow::from(resource_metadata::proof_algorithms().join(" ")));
    let proves = resource_metadata::proves(authentication);
    // RFC 9449, 7.1: a client that uses, or must use, proofs is told in their scheme.
    let is_about_proofs = matches!(
        rejection,
        Rejection::Proof(_) | Rejection::Token(TokenError::NoProof | TokenError::Unbound)
    );
    if proves && (is_about_proofs || resource_metadata::requires_proofs(authentication)) {
        parameters.insert(0, algorithms());
        add(&mut response, "DPoP", &parameters);
    } else {
        add(&mut response, "Bearer", &parameters);
        if proves {
            add(&mut response, "DPoP", &[algorithms()]);
        }
    }
    response
}

/// Adds a challenge. Values that no header can hold leave it out.
fn add(response: &mut Response, scheme: &str, parameters: &[(&str, Cow<'_, str>)]) {
    let mut challenge = scheme.to_owned();
    for (position, (name, value)) in parameters.iter().enumerate() {
        let separator = if position == 0 { ' ' } else { ',' };
        // Writing to a string does not fail.
        let _ = write!(challenge, "{separator}{name}=\"{}\"", quoted(value));
    }
    if let Ok(challenge) = HeaderValue::try_from(challenge) {
        response.headers_mut().append(WWW_AUTHENTICATE, challenge);
    }
}

/// Escapes a value for a quoted string (RFC 9110, 5.6.4).
fn quoted(value: &str) -> Cow<'_, str> {
    if value.contains(['"', '\\']) {
        value.replace('\\', "\\\\").replace('"', "\\\"").into()
    } else {
        value.into()
    }
}
