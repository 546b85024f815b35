//! Keys of `authServer`, as written.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::values::duration::{self, RawDuration};
use crate::values::secret::Secret;

/// Range of the life of access tokens.
pub(super) const ACCESS_LIFE: RangeInclusive<Duration> = Duration::from_mins(1)..=Duration::from_hours(24);
/// Range of the life of refresh tokens, up to 90 days.
pub(super) const REFRESH_LIFE: RangeInclusive<Duration> =
    Duration::from_mins(5)..=Duration::from_hours(24 * 90);
/// Range of the life of codes: a person needs some time to sign in.
pub(super) const CODE_LIFE: RangeInclusive<Duration> = Duration::from_mins(1)..=Duration::from_hours(1);

/// Embedded OAuth 2.1 authorization server: a person signs in at the upstream providers, the client gets a
/// token of vmcp's own, and backends with `upstreamInject` get the provider's. Clients need tokens then; no
/// other block of `incomingAuth` is required.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "AuthServer")]
pub struct RawAuthServer {
    /// Required. URL at which clients and browsers reach this server, such as `https://tools.example.com`:
    /// the claim `iss` of its tokens.
    #[schemars(required)]
    pub issuer: Option<String>,
    /// Private keys (PEM, PKCS #8; P-256, P-384 or RSA of 2048 to 4096 bits) that sign tokens: the first
    /// signs, all verify. Write `${file:/path}`. Default: keys derived from the secrets that seal.
    pub signing_keys: Vec<Secret>,
    /// Secrets of at least 32 characters that seal client identifiers, refresh tokens and the tokens of
    /// providers: the first seals, all open. Default: `server.sessionKeys`, else one made at the start, so
    /// that people sign in again after a restart.
    pub hmac_secrets: Vec<Secret>,
    /// Lives of tokens.
    pub token_lifespans: RawTokenLifespans,
    /// Required. Identity providers at which a person signs in, one after the other, at most 8. The first
    /// one tells who the person is.
    #[schemars(required)]
    pub upstream_providers: Vec<RawUpstreamProvider>,
    /// Allow an `issuer` of plain HTTP that is no loopback address: whoever listens gets the tokens.
    pub insecure_allow_http: bool,
}

/// Lives of tokens.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "TokenLifespans")]
pub struct RawTokenLifespans {
    /// Access tokens; shorter where a provider's token ends earlier.
    #[schemars(extend("x-range" = duration::words(&ACCESS_LIFE)))]
    pub access_token_lifespan: RawDuration,
    /// Refresh tokens; each use gives a new one.
    #[schemars(extend("x-range" = duration::words(&REFRESH_LIFE)))]
    pub refresh_token_lifespan: RawDuration,
    /// Authorization codes, and the time for a person to sign in.
    #[schemars(extend("x-range" = duration::words(&CODE_LIFE)))]
    pub auth_code_lifespan: RawDuration,
}

impl Default for RawTokenLifespans {
    fn default() -> Self {
        Self {
            access_token_lifespan: "1h".into(),
            refresh_token_lifespan: "168h".into(),
            auth_code_lifespan: "10m".into(),
        }
    }
}

/// An upstream identity provider: a `type`, and the block for it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "UpstreamProvider")]
pub struct RawUpstreamProvider {
    /// Required. Name, for `upstreamInject` and `subjectProviderName`: lower-case letters, digits, hyphens.
    #[schemars(required)]
    pub name: Option<String>,
    /// Required. Kind of provider.
    #[serde(rename = "type")]
    #[schemars(required)]
    pub kind: Option<RawUpstreamType>,
    /// `oidc`: a provider of OpenID Connect.
    pub oidc_config: Option<RawOidcUpstream>,
    /// `oauth2`: a plain OAuth 2.0 server.
    pub oauth2_config: Option<RawOAuth2Upstream>,
}

/// Kinds of providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "UpstreamType")]
pub enum RawUpstreamType {
    /// OpenID Connect: endpoints by discovery, the person by the ID token.
    Oidc,
    /// OAuth 2.0: endpoints as written, the person by a userinfo endpoint.
    Oauth2,
}

/// A provider of OpenID Connect.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "OidcUpstream")]
pub struct RawOidcUpstream {
    /// Required. Issuer, exactly as in its metadata and ID tokens.
    #[schemars(required)]
    pub issuer_url: Option<String>,
    /// Required. Client identifier of vmcp at the provider.
    #[schemars(required)]
    pub client_id: Option<String>,
    /// Client secret. Default: none, a public client with PKCE.
    pub client_secret: Option<Secret>,
    /// Redirect URI registered at the provider. Default: `ISSUER/oauth/callback`.
    pub redirect_uri: Option<String>,
    /// Scopes to ask for. Default: `openid` and `offline_access`.
    pub scopes: Vec<String>,
    /// Claim of the ID token that identifies the person. Default: `sub`; for Microsoft Entra `oid`.
    pub subject_claim: Option<String>,
    /// Further parameters of authorization requests, such as `access_type: offline`.
    pub additional_authorization_params: BTreeMap<String, String>,
    /// Reach the provider over plain HTTP too. For development.
    pub insecure_allow_http: bool,
    /// Reach the provider at private and loopback addresses too, such as one in the cluster.
    #[serde(rename = "allowPrivateIPs")]
    pub allow_private_ips: bool,
}

/// A plain OAuth 2.0 server.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "OAuth2Upstream")]
pub struct RawOAuth2Upstream {
    /// Required. Authorization endpoint.
    #[schemars(required)]
    pub authorization_endpoint: Option<String>,
    /// Required. Token endpoint.
    #[schemars(required)]
    pub token_endpoint: Option<String>,
    /// Endpoint that tells who the person is. Required of the first provider.
    pub user_info: Option<RawUserInfo>,
    /// Required. Client identifier of vmcp at the provider.
    #[schemars(required)]
    pub client_id: Option<String>,
    /// Client secret. Default: none, a public client with PKCE.
    pub client_secret: Option<Secret>,
    /// Redirect URI registered at the provider. Default: `ISSUER/oauth/callback`.
    pub redirect_uri: Option<String>,
    /// Scopes to ask for.
    pub scopes: Vec<String>,
    /// Further parameters of authorization requests.
    pub additional_authorization_params: BTreeMap<String, String>,
    /// Reach the provider over plain HTTP too. For development.
    pub insecure_allow_http: bool,
    /// Reach the provider at private and loopback addresses too, such as one in the cluster.
    #[serde(rename = "allowPrivateIPs")]
    pub allow_private_ips: bool,
}

/// A userinfo endpoint.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "UserInfo")]
pub struct RawUserInfo {
    /// Required. The URL.
    #[schemars(required)]
    pub endpoint_url: Option<String>,
    /// `GET` (default) or `POST`.
    #[schemars(extend("enum" = ["GET", "POST", null]))]
    pub http_method: Option<String>,
    /// Further headers of the request, such as GitHub's `Accept`.
    pub additional_headers: BTreeMap<String, Secret>,
    /// Names of the answer's keys.
    pub field_mapping: Option<RawFieldMapping>,
}

/// Names of the keys of a userinfo answer; of several, the first that is there.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "FieldMapping")]
pub struct RawFieldMapping {
    /// The person's identifier, a text or a number. Default: `sub`.
    pub subject_fields: Vec<String>,
    /// The person's name. Default: `name`.
    pub name_fields: Vec<String>,
    /// The person's mail address. Default: `email`.
    pub email_fields: Vec<String>,
}
