//! [`UpstreamProvider`]: one identity provider at which people sign in, with vmcp as its client. Everything
//! goes through the SSRF guard of issuers.

pub(super) mod console_sign_in;
mod user_info;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::Instant;
use url::Url;
use vmcp_config::{AuthServer, OidcIssuer, TokenEndpoint, Upstream, UpstreamKind};

use super::client::authorization_request::challenge_of;
use crate::clock::now;
use crate::oidc::guarded_http::{GuardRules, GuardedClient};
use crate::oidc::issuer::Issuer;
use crate::oidc::key_source::Timing;
use crate::oidc::metadata::{self, ProviderMetadata};
use crate::oidc::rejection::Rejection;
use crate::oidc::verify;
use crate::outgoing::provider::{HttpClient, Provider, TokenAnswer};

/// Time for which the endpoints that a provider names are used.
const METADATA_LIFE: Duration = Duration::from_mins(10);
/// Bytes of a token that a provider gives. Several of them travel in one header.
const MAX_TOKEN_BYTES: usize = 8 << 10;

/// A provider.
#[derive(Debug)]
pub(super) struct UpstreamProvider {
    pub(super) config: Arc<Upstream>,
    /// The keys of ID tokens.
    issuer: Option<Issuer>,
    /// Metadata, and the moment at which they were fetched.
    metadata: tokio::sync::Mutex<Option<(Instant, Arc<ProviderMetadata>)>>,
}

/// The tokens that a person has from one provider. Sealed wherever they go.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ProviderTokens {
    #[serde(rename = "p")]
    pub(super) provider: String,
    #[serde(rename = "a")]
    pub(super) access: String,
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub(super) refresh: Option<String>,
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    /// Expiry of the access token, in seconds since 1970; `None`: not told.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub(super) expires: Option<u64>,
}

/// Answer of a provider, as the browser brought it back.
#[derive(Debug)]
pub(super) struct Brought<'a> {
    pub(super) code: &'a str,
    /// The `iss` parameter (RFC 9207).
    pub(super) issuer: Option<&'a str>,
    pub(super) verifier: &'a str,
    pub(super) nonce: &'a str,
    pub(super) redirect_uri: &'a str,
}

/// A person who has signed in at a provider.
#[derive(Debug)]
pub(super) struct SignedIn {
    pub(super) tokens: ProviderTokens,
    /// `None`: the provider tells nothing about the person.
    pub(super) subject: Option<String>,
    pub(super) claims: Map<String, Value>,
}

/// Tokens that a provider has renewed.
#[derive(Debug)]
pub(super) struct RenewedTokens {
    pub(super) tokens: ProviderTokens,
    /// Subject and claims of the person, if the provider told them again by an ID token.
    pub(super) person: Option<(Option<String>, Map<String, Value>)>,
}

/// A sign-in or a renewal that failed. No text shows a token or a secret.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpstreamError {
    /// The provider does not answer; later it may.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// The person has to sign in again.
    #[error("it refused: {0}")]
    Refused(String),
    /// The answer breaks the protocol.
    #[error("{0}")]
    Wrong(String),
}

impl std::fmt::Debug for ProviderTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProviderTokens").field("provider", &self.provider).finish_non_exhaustive()
    }
}

impl ProviderTokens {
    /// True if access tokens for clients carry the token of this provider.
    pub(super) fn is_carried(&self, config: &AuthServer) -> bool {
        config.access_tokens_of.contains(&self.provider) || config.id_tokens_of.contains(&self.provider)
    }

    /// The seconds for which the access token is good; `None`: not told.
    pub(super) fn life(&self) -> Option<u64> {
        self.expires.map(|expires| expires.saturating_sub(now()))
    }

    fn new(provider: &str, answer: &TokenAnswer) -> Result<Self, UpstreamError> {
        let (access, refresh) = (answer.access_token.expose(), answer.refresh_token.as_ref());
        let refresh = refresh.map(|token| token.expose().to_owned());
        let id = answer.id_token.as_ref().map(|token| token.expose().to_owned());
        let texts = [Some(access), refresh.as_deref(), id.as_deref()];
        if texts.into_iter().flatten().any(|text| text.len() > MAX_TOKEN_BYTES) {
            return Err(UpstreamError::Wrong("it gave a token of more than 8 KiB".to_owned()));
        }
        let expires = answer.life().map(|life| now().saturating_add(life.as_secs()));
        Ok(Self { provider: provider.to_owned(), access: access.to_owned(), refresh, id, expires })
    }
}

impl UpstreamProvider {
    /// Begins to fetch keys of ID tokens, so it needs a tokio runtime.
    pub(super) fn start(config: Arc<Upstream>, timing: Timing) -> Self {
        let issuer = match &config.kind {
            UpstreamKind::Oidc { issuer, .. } => Some(Issuer::start(Arc::clone(issuer), timing)),
            UpstreamKind::OAuth2 { .. } => None,
        };
        Self { config, issuer, metadata: tokio::sync::Mutex::default() }
    }

    /// Returns true if a URL has the origin of this provider.
    pub(super) fn is_at(&self, url: &str) -> bool {
        let own = match &self.config.kind {
            UpstreamKind::Oidc { issuer, .. } => &issuer.issuer_url,
            UpstreamKind::OAuth2 { authorization_endpoint, .. } => authorization_endpoint,
        };
        Url::parse(url).is_ok_and(|url| url.origin() == own.origin())
    }

    /// Returns the URL at which a person signs in.
    pub(super) async fn authorization_url(
        &self,
        redirect_uri: &str,
        state: &str,
        verifier: &str,
        nonce: &str,
    ) -> Result<Url, UpstreamError> {
        let mut url = match &self.config.kind {
            UpstreamKind::OAuth2 { authorization_endpoint, .. } => authorization_endpoint.clone(),
            UpstreamKind::Oidc { .. } => self.metadata().await?.authorization_endpoint.clone(),
        };
        let mut query = url.query_pairs_mut();
        query.extend_pairs([
            ("response_type", "code"),
            ("client_id", self.config.client_id.as_str()),
            ("redirect_uri", redirect_uri),
            ("state", state),
            ("code_challenge", &challenge_of(verifier)),
            ("code_challenge_method", "S256"),
        ]);
        if !self.config.scopes.is_empty() {
            query.append_pair("scope", &self.config.scopes.join(" "));
        }
        if self.issuer.is_some() {
            query.append_pair("nonce", nonce);
        }
        query.extend_pairs(&self.config.parameters);
        drop(query);
        Ok(url)
    }

    /// Exchanges a code, and finds out who the person is.
    pub(super) async fn sign_in(&self, brought: Brought<'_>) -> Result<SignedIn, UpstreamError> {
        self.check_issuer(brought.issuer).await?;
        let form = [
            ("grant_type", "authorization_code"),
            ("code", brought.code),
            ("redirect_uri", brought.redirect_uri),
            ("code_verifier", brought.verifier),
        ];
        let answer = self.ask(&form).await?;
        let tokens = ProviderTokens::new(&self.config.name, &answer)?;
        let (subject, claims) = match (&self.config.kind, &self.issuer) {
            (UpstreamKind::Oidc { subject_claim, .. }, Some(issuer)) => {
                let claims = self.id_token(&tokens, issuer, Some(brought.nonce)).await?;
                (user_info::text(&claims, std::slice::from_ref(subject_claim)), claims)
            }
            (UpstreamKind::OAuth2 { user_info: Some(info), .. }, _) => {
                let (http, access) = (self.http()?, tokens.access.as_str());
                user_info::fetch(&http, info, access).await.map_err(UpstreamError::Wrong)?
            }
            _ => (None, Map::new()),
        };
        Ok(SignedIn { tokens, subject, claims })
    }

    /// Renews tokens. A provider that gives no new refresh token keeps the old one. A new ID token is
    /// verified, and tells the person's present claims (OpenID Connect Core, 12.2).
    pub(super) async fn renew(&self, tokens: &ProviderTokens) -> Result<RenewedTokens, UpstreamError> {
        let Some(refresh) = &tokens.refresh else {
            return Err(UpstreamError::Refused("there is no refresh token".to_owned()));
        };
        let answer = self.ask(&[("grant_type", "refresh_token"), ("refresh_token", refresh)]).await?;
        let mut renewed = ProviderTokens::new(&self.config.name, &answer)?;
        let person = match (&self.config.kind, &self.issuer, &renewed.id) {
            (UpstreamKind::Oidc { subject_claim, .. }, Some(issuer), Some(_)) => {
                match self.id_token(&renewed, issuer, None).await {
                    Ok(claims) => {
                        Some((user_info::text(&claims, std::slice::from_ref(subject_claim)), claims))
                    }
                    // Without the provider's keys the claims stay; the renewed tokens are kept all the same.
                    Err(UpstreamError::Unreachable(_)) => None,
                    Err(error) => return Err(error),
                }
            }
            _ => None,
        };
        renewed.refresh = renewed.refresh.or_else(|| tokens.refresh.clone());
        renewed.id = renewed.id.or_else(|| tokens.id.clone());
        Ok(RenewedTokens { tokens: renewed, person })
    }

    async fn ask(&self, form: &[(&str, &str)]) -> Result<TokenAnswer, UpstreamError> {
        let url = match &self.config.kind {
            UpstreamKind::OAuth2 { token_endpoint, .. } => token_endpoint.clone(),
            UpstreamKind::Oidc { .. } => self.metadata().await?.token_endpoint.clone(),
        };
        let http = self.http()?;
        http.check(&url).await.map_err(|error| UpstreamError::Wrong(error.to_string()))?;
        let endpoint = TokenEndpoint {
            url,
            client_id: Some(self.config.client_id.clone()),
            client_secret: self.config.client_secret.clone(),
        };
        let provider = Provider::new(endpoint, HttpClient::from_client(http.client().clone()));
        provider.access_token_or_code(form).await.map_err(|failed| match failed.refused {
            Some(_) => UpstreamError::Refused(failed.error.reason),
            None => UpstreamError::Unreachable(failed.error.detail),
        })
    }

    /// Verifies the ID token, and that it was made for the sign-in of this `nonce`. `None` stands for a
    /// renewal, whose ID token has no nonce of its own.
    async fn id_token(
        &self,
        tokens: &ProviderTokens,
        issuer: &Issuer,
        nonce: Option<&str>,
    ) -> Result<Map<String, Value>, UpstreamError> {
        let wrong = |reason: &str| UpstreamError::Wrong(format!("its ID token is not accepted: {reason}"));
        let token = tokens.id.as_deref().ok_or_else(|| wrong("there is none; ask for the scope `openid`"))?;
        let header = verify::header(token).map_err(|error| wrong(&error.to_string()))?;
        let verified = issuer.verify(token, &header).await.map_err(|error| match error {
            Rejection::Unavailable => UpstreamError::Unreachable(error.to_string()),
            error => wrong(&error.to_string()),
        })?;
        let claims = verified.0.all;
        if nonce.is_some() && claims.get("nonce").and_then(Value::as_str) != nonce {
            return Err(wrong("it is of another sign-in (nonce)"));
        }
        // The client is among the audiences, which were checked with the signature. For several audiences,
        // `azp` names the client of the token (OpenID Connect Core, 3.1.3.7).
        let for_several = claims.get("aud").and_then(Value::as_array).is_some_and(|aud| aud.len() > 1);
        match claims.get("azp") {
            Some(azp) if azp.as_str() != Some(self.config.client_id.as_str()) => {
                Err(wrong("it is for another client (azp)"))
            }
            None if for_several => Err(wrong("it is for several clients and names none as its own (azp)")),
            _ => Ok(claims),
        }
    }

    /// Refuses an answer of another provider than this one (mix-up, RFC 9207).
    async fn check_issuer(&self, given: Option<&str>) -> Result<(), UpstreamError> {
        let UpstreamKind::Oidc { issuer, .. } = &self.config.kind else { return Ok(()) };
        let needed = self.metadata().await?.names_itself;
        match given {
            Some(given) if given != issuer.issuer => {
                Err(UpstreamError::Wrong("the answer is of another issuer (iss)".to_owned()))
            }
            None if needed => Err(UpstreamError::Wrong("the answer names no issuer (iss)".to_owned())),
            _ => Ok(()),
        }
    }

    async fn metadata(&self) -> Result<Arc<ProviderMetadata>, UpstreamError> {
        let UpstreamKind::Oidc { issuer, .. } = &self.config.kind else {
            return Err(UpstreamError::Wrong("it has no metadata".to_owned()));
        };
        // Single flight: further callers wait here, and find the first caller's result.
        let mut cached = self.metadata.lock().await;
        if let Some((at, metadata)) = &*cached
            && at.elapsed() < METADATA_LIFE
        {
            return Ok(Arc::clone(metadata));
        }
        match self.fetch_metadata(issuer).await {
            Ok(metadata) => {
                let metadata = Arc::new(metadata);
                *cached = Some((Instant::now(), Arc::clone(&metadata)));
                Ok(metadata)
            }
            // An older answer is better than none.
            Err(error) => cached.as_ref().map(|(_, metadata)| Arc::clone(metadata)).ok_or(error),
        }
    }

    async fn fetch_metadata(&self, issuer: &OidcIssuer) -> Result<ProviderMetadata, UpstreamError> {
        let http = self.http()?;
        let metadata = metadata::of_provider(&http, &issuer.issuer_url, &issuer.issuer).await;
        metadata.map_err(|error| UpstreamError::Unreachable(error.to_string()))
    }

    fn http(&self) -> Result<GuardedClient, UpstreamError> {
        let rules = GuardRules {
            allow_http: self.config.allow_http,
            allow_private: self.config.allow_private_addresses,
            private_setting: "allowPrivateIPs",
        };
        GuardedClient::with_rules(rules, None).map_err(|error| UpstreamError::Unreachable(error.to_string()))
    }
}
