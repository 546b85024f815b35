//! [`StepUp`]: the challenge to a client whose token lacks the scopes of a tool (RFC 6750, 3.1; MCP,
//! authorization, scope challenge). The client asks its user for a token with more, and repeats the call.

use http::StatusCode;
use vmcp_route::ScopeChallenge;

use super::challenge::{Challenge, CredentialError};
use crate::transport::http::exchange::{Received, Response, Service};

/// The layer that writes challenges for more scopes, which only the answer to a message can tell.
pub(crate) struct StepUp<S> {
    inner: S,
}

impl<S> StepUp<S> {
    /// Writes the challenges of answers of `inner`.
    pub(crate) fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S: Service<Received>> Service<Received> for StepUp<S> {
    async fn call(&self, request: Received) -> Response {
        let authentication = &request.snapshot.authentication;
        if authentication.config().tool_scopes.is_empty() {
            return self.inner.call(request).await;
        }
        let challenge = Challenge::new(&request.head, authentication);
        let mut response = self.inner.call(request).await;
        if let Some(ScopeChallenge { scopes, description }) = response.extensions_mut().remove() {
            let code = "insufficient_scope";
            let error = CredentialError { code, description: &description, is_about_proofs: false };
            challenge.add(response.headers_mut(), Some(&error), &scopes);
            *response.status_mut() = StatusCode::FORBIDDEN;
        }
        response
    }
}
