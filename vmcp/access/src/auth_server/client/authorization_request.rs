//! [`AuthorizationRequest`]: the request of a client for a code, checked.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use url::Url;
use vmcp_config::AuthServer;

use super::form::Form;
use super::registration::Client;
use crate::auth_server::oauth_error::{OAuthError, error};
use crate::auth_server::seals::Seals;

/// Bytes of a client's `state`: it travels in URLs.
const MAX_STATE_BYTES: usize = 2048;
/// Characters of a SHA-256 in base64url.
const CHALLENGE_CHARS: usize = 43;
/// Scope that asks for a refresh token, which every client gets.
pub(in crate::auth_server) const OFFLINE_ACCESS: &str = "offline_access";

/// A request for a code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::auth_server) struct AuthorizationRequest {
    /// [`digest`] of the client's identifier.
    #[serde(rename = "c")]
    pub(in crate::auth_server) client: String,
    /// Name of the client, as it says.
    #[serde(rename = "n", default)]
    pub(in crate::auth_server) client_name: String,
    #[serde(rename = "r")]
    pub(in crate::auth_server) redirect_uri: String,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub(in crate::auth_server) state: Option<String>,
    /// The PKCE challenge (S256).
    #[serde(rename = "h")]
    pub(in crate::auth_server) challenge: String,
    /// Granted scopes, separated by spaces.
    #[serde(rename = "o", default)]
    pub(in crate::auth_server) scope: String,
}

/// A request that is refused.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::auth_server) enum RefusedAuthorization {
    /// The redirect URI is not proved to be the client's: the person sees a page instead of a redirect (open
    /// redirect).
    Page(&'static str),
    /// The client is told, at its own redirect URI.
    Redirect { redirect_uri: String, state: Option<String>, error: OAuthError },
}

impl AuthorizationRequest {
    /// Checks the parameters of a request.
    pub(in crate::auth_server) fn read(
        form: &Form,
        config: &AuthServer,
        seals: &Seals,
    ) -> Result<Self, RefusedAuthorization> {
        let id = form.get("client_id").ok_or(RefusedAuthorization::Page("The request names no client."))?;
        let client = Client::from_id(id, seals).ok_or(RefusedAuthorization::Page(
            "This client is not registered here. It may have been registered before the keys of this server \
             changed; remove the server from the client and add it again.",
        ))?;
        let redirect_uri = form
            .get("redirect_uri")
            .or_else(|| client.only_redirect_uri())
            .filter(|uri| client.has(uri))
            .ok_or(RefusedAuthorization::Page(
                "The redirect URI is not one that the client has registered.",
            ))?;
        let state = form.get("state").map(str::to_owned);
        let refused = |error: OAuthError| RefusedAuthorization::Redirect {
            redirect_uri: redirect_uri.to_owned(),
            state: state.clone().filter(|state| state.len() <= MAX_STATE_BYTES),
            error,
        };
        if form.get("response_type") != Some("code") {
            return Err(refused(error("unsupported_response_type", "response_type must be code")));
        }
        if state.as_ref().is_some_and(|state| state.len() > MAX_STATE_BYTES) {
            return Err(refused(error("invalid_request", "the state is longer than 2048 bytes")));
        }
        if form.get("code_challenge_method") != Some("S256") {
            return Err(refused(error(
                "invalid_request",
                "PKCE is required: code_challenge_method must be S256",
            )));
        }
        let challenge = form.get("code_challenge").filter(|challenge| is_challenge(challenge));
        let challenge = challenge.ok_or_else(|| {
            refused(error("invalid_request", "code_challenge must be a SHA-256 in base64url"))
        })?;
        check_resources(form, config).map_err(refused)?;
        Ok(Self {
            client: digest(id),
            client_name: client.name.clone(),
            redirect_uri: redirect_uri.to_owned(),
            challenge: challenge.to_owned(),
            scope: granted(form.get("scope"), &config.scopes),
            state,
        })
    }

    /// Returns true if the challenge was made of `verifier`.
    pub(in crate::auth_server) fn is_verified_by(&self, verifier: &str) -> bool {
        let made = challenge_of(verifier);
        // Both are hashes: their comparison in constant time costs nothing and leaves no question.
        subtle::ConstantTimeEq::ct_eq(made.as_bytes(), self.challenge.as_bytes()).into()
    }

    /// Returns the URL that gives the client an answer.
    pub(in crate::auth_server) fn answer(&self, issuer: &str, parameters: &[(&str, &str)]) -> Option<Url> {
        client_answer(&self.redirect_uri, self.state.as_deref(), issuer, parameters)
    }
}

/// Returns the URL that gives a client an answer: with its state, and with the issuer (RFC 9207), so that the
/// client does not take the code to another server (mix-up).
pub(in crate::auth_server) fn client_answer(
    redirect_uri: &str,
    state: Option<&str>,
    issuer: &str,
    parameters: &[(&str, &str)],
) -> Option<Url> {
    let mut url = Url::parse(redirect_uri).ok()?;
    let mut query = url.query_pairs_mut();
    query.extend_pairs(parameters);
    if let Some(state) = state {
        query.append_pair("state", state);
    }
    query.append_pair("iss", issuer);
    drop(query);
    Some(url)
}

/// Refuses resources that are not this server (RFC 8707).
pub(in crate::auth_server) fn check_resources(form: &Form, config: &AuthServer) -> Result<(), OAuthError> {
    let is_own = |text: &str| {
        let Ok(url) = Url::parse(text) else { return false };
        let (path, own) = (url.path().trim_end_matches('/'), config.resource.path().trim_end_matches('/'));
        let below = path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        // Some clients name the server by its origin.
        url.origin() == config.resource.origin() && url.fragment().is_none() && (below || path.is_empty())
    };
    if form.all("resource").all(|text| is_own(text) || text == config.audience) {
        Ok(())
    } else {
        Err(error("invalid_target", "this server gives tokens for its own resource only"))
    }
}

/// Returns the scopes that a client gets: the asked ones among `scopes`, or all without a question.
fn granted(asked: Option<&str>, scopes: &[String]) -> String {
    let Some(asked) = asked else { return scopes.join(" ") };
    let asked: Vec<_> = asked.split_ascii_whitespace().collect();
    let granted = scopes.iter().filter(|scope| asked.contains(&scope.as_str()));
    granted.map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// Returns the SHA-256 of an identifier, in base64url.
pub(in crate::auth_server) fn digest(text: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(text))
}

/// Returns the PKCE challenge of a verifier (RFC 7636).
pub(in crate::auth_server) fn challenge_of(verifier: &str) -> String {
    digest(verifier)
}

fn is_challenge(text: &str) -> bool {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    text.len() == CHALLENGE_CHARS && text.bytes().all(is_base64)
}
