//! [`StepUp`]: the challenge to a client whose token lacks the scopes of a tool (RFC 6750, 3.1; MCP,
//! authorization, scope challenge). The client asks its user for a token with more, and repeats the call.

use http::header::WWW_AUTHENTICATE;
use http::{HeaderValue, StatusCode};
use url::Url;
use vmcp_route::ScopeChallenge;

use super::resource_metadata;
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
        let metadata = resource_metadata::metadata_url(&request.head, authentication);
        let mut response = self.inner.call(request).await;
        if let Some(challenge) = response.extensions_mut().remove::<ScopeChallenge>() {
            if let Ok(value) = HeaderValue::try_from(challenge_text(&challenge, metadata.as_ref())) {
                response.headers_mut().insert(WWW_AUTHENTICATE, value);
            }
            *response.status_mut() = StatusCode::FORBIDDEN;
        }
        response
    }
}

/// Writes the challenge. Scopes hold neither quotes nor backslashes, nor does the URL.
fn challenge_text(challenge: &ScopeChallenge, metadata: Option<&Url>) -> String {
    let ScopeChallenge { scopes, description } = challenge;
    let text =
        format!(r#"Bearer error="insufficient_scope",error_description="{description}",scope="{scopes}""#);
    match metadata {
        Some(url) => format!(r#"{text},resource_metadata="{url}""#),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_names_the_scopes_and_the_metadata() {
        let challenge = ScopeChallenge {
            scopes: "read write".to_owned(),
            description: "the token lacks the scope write".to_owned(),
        };
        let url = Url::parse("https://vmcp.example/.well-known/oauth-protected-resource/mcp").unwrap();
        let without = concat!(
            r#"Bearer error="insufficient_scope",error_description="the token lacks the scope write","#,
            r#"scope="read write""#
        );
        let with = r#",resource_metadata="https://vmcp.example/.well-known/oauth-protected-resource/mcp""#;
        assert_eq!(challenge_text(&challenge, None), without);
        assert_eq!(challenge_text(&challenge, Some(&url)), format!("{without}{with}"));
    }
}
