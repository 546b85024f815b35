//! Answers to clients that are not let in: statuses and errors of RFC 6750 and RFC 9449.

use http::header::RETRY_AFTER;
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use vmcp_access::authentication::Authentication;
use vmcp_access::oidc::rejection::{Rejection, TokenError};
use vmcp_wire::codes;

use super::super::challenge::{Challenge, CredentialError};
use super::super::resource_metadata;
use crate::transport::http::exchange::Response;
use crate::transport::http::refuse::error_response;

/// Value of `Retry-After`, in seconds, while tokens cannot be verified.
const PROVIDER_RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");

/// Returns the answer to a request that was rejected.
pub(super) fn response(rejection: &Rejection, head: &Parts, authentication: &Authentication) -> Response {
    let (status, code) = match rejection {
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
    let scopes = match rejection {
        Rejection::InsufficientScope { required } => required.join(" "),
        _ => resource_metadata::scopes(authentication).join(" "),
    };
    let is_about_proofs = matches!(
        rejection,
        Rejection::Proof(_) | Rejection::Token(TokenError::NoProof | TokenError::Unbound)
    );
    let error = code.map(|code| CredentialError { code, description: &message, is_about_proofs });
    Challenge::new(head, authentication).add(response.headers_mut(), error.as_ref(), &scopes);
    response
}
