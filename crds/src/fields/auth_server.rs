//! The embedded authorization server, with ToolHive's field names.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vmcp_config::raw::RawDuration;

use crate::fields::cel_rules::rules;
use crate::fields::references::SecretKeyReference;
use crate::fields::yaml_block::Block;
use crate::fields::yaml_block::escape;

/// Embedded OAuth 2.1 authorization server: a person signs in at the providers, the client gets a token of
/// this server, and backends with credentials of type `upstreamInject` get the provider's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthServerConfig {
    /// URL at which clients and browsers reach this server: the claim `iss` of its tokens.
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"^https?://[^\s?#]+[^/\s?#]$"))]
    pub issuer: String,
    /// Secret keys with private keys (PEM, PKCS #8): the first signs tokens, all verify. Default:
    /// keys derived from the secrets that seal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5), extend("x-kubernetes-list-type" = "atomic"))]
    pub signing_key_secret_refs: Vec<SecretKeyReference>,
    /// Secret keys with secrets of at least 32 characters that seal refresh tokens and the tokens of
    /// providers: the first seals, all open. Default: the session key that the operator generates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5), extend("x-kubernetes-list-type" = "atomic"))]
    pub hmac_secret_refs: Vec<SecretKeyReference>,
    /// Lives of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_lifespans: Option<TokenLifespans>,
    /// Identity providers at which a person signs in, one after the other. The first one, or
    /// `primaryUpstreamProvider`, tells who the person is.
    #[schemars(
        length(min = 1, max = 8),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub upstream_providers: Vec<UpstreamProvider>,
    /// Provider that tells who the person is, and whose claims policies read. Default: the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub primary_upstream_provider: Option<String>,
    /// Allows an `issuer` of plain HTTP at another address than loopback: an attacker in the network gets the
    /// tokens.
    #[serde(default, rename = "insecureAllowHTTP")]
    pub insecure_allow_http: bool,
    /// Fields that are accepted and not followed yet, as written.
    #[serde(flatten)]
    #[schemars(skip)]
    pub pending: Block,
}

/// Lives of tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenLifespans {
    /// Access tokens, 1 hour by default; shorter where a provider's token ends earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_token_lifespan: Option<RawDuration>,
    /// Refresh tokens, 7 days by default; each use gives a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token_lifespan: Option<RawDuration>,
    /// Authorization codes, and the time for a person to sign in; 10 minutes by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_code_lifespan: Option<RawDuration>,
}

/// An upstream identity provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "self.type == 'oidc' ? (has(self.oidcConfig) && !has(self.oauth2Config)) : (has(self.oauth2Config) && !has(self.oidcConfig))",
    "oidcConfig goes with type: oidc, oauth2Config with type: oauth2; give the one of the type",
)])))]
pub struct UpstreamProvider {
    /// Name, for `upstreamInject` and `subjectProviderName`.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"))]
    pub name: String,
    /// Kind of provider.
    #[serde(rename = "type")]
    pub kind: UpstreamType,
    /// A provider of OpenID Connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oidc_config: Option<OidcUpstream>,
    /// A plain OAuth 2.0 server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth2_config: Option<OAuth2Upstream>,
}

/// Kinds of providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum UpstreamType {
    /// OpenID Connect.
    Oidc,
    /// OAuth 2.0.
    Oauth2,
}

/// A provider of OpenID Connect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OidcUpstream {
    /// Issuer, exactly as in its metadata and ID tokens.
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"^https?://.*$"))]
    pub issuer_url: String,
    /// Client identifier of vmcp at the provider.
    #[schemars(length(min = 1, max = 1024))]
    pub client_id: String,
    /// Secret key that holds the client secret. Default: none, a public client with PKCE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret_ref: Option<SecretKeyReference>,
    /// Redirect URI registered at the provider. Default: `ISSUER/oauth/callback`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub redirect_uri: Option<String>,
    /// Scopes to ask for. Default: `openid` and `offline_access`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub scopes: Vec<String>,
    /// Claim of the ID token that identifies the person. Default: `sub`; for Microsoft Entra `oid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128), regex(pattern = r"^([a-zA-Z_][a-zA-Z0-9_]*)?$"))]
    pub subject_claim: Option<String>,
    /// Further parameters of authorization requests, such as `access_type: offline`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub additional_authorization_params: BTreeMap<String, String>,
    /// Reaches the provider over plain HTTP too. For development.
    #[serde(default, rename = "insecureAllowHTTP")]
    pub insecure_allow_http: bool,
    /// Reaches the provider at private addresses too, such as one in the cluster.
    #[serde(default, rename = "allowPrivateIPs")]
    pub allow_private_ips: bool,
}

/// A plain OAuth 2.0 server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OAuth2Upstream {
    /// Authorization endpoint.
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"^https?://.*$"))]
    pub authorization_endpoint: String,
    /// Token endpoint.
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"^https?://.*$"))]
    pub token_endpoint: String,
    /// Endpoint that tells who the person is. Required of the provider that tells so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_info: Option<UserInfo>,
    /// Client identifier of vmcp at the provider.
    #[schemars(length(min = 1, max = 1024))]
    pub client_id: String,
    /// Secret key that holds the client secret. Default: none, a public client with PKCE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret_ref: Option<SecretKeyReference>,
    /// Redirect URI registered at the provider. Default: `ISSUER/oauth/callback`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub redirect_uri: Option<String>,
    /// Scopes to ask for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub scopes: Vec<String>,
    /// Further parameters of authorization requests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub additional_authorization_params: BTreeMap<String, String>,
    /// Reaches the provider over plain HTTP too. For development.
    #[serde(default, rename = "insecureAllowHTTP")]
    pub insecure_allow_http: bool,
    /// Reaches the provider at private addresses too, such as one in the cluster.
    #[serde(default, rename = "allowPrivateIPs")]
    pub allow_private_ips: bool,
}

/// A userinfo endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserInfo {
    /// The URL.
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"^https?://.*$"))]
    pub endpoint_url: String,
    /// `GET` (default) or `POST`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^(GET|POST)$"))]
    pub http_method: Option<String>,
    /// Further headers of the request, such as GitHub's `Accept`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub additional_headers: BTreeMap<String, String>,
    /// Names of the answer's keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_mapping: Option<FieldMapping>,
}

/// Names of the keys of a userinfo answer; of several, the first that is there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldMapping {
    /// The person's identifier. Default: `sub`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub subject_fields: Vec<String>,
    /// The person's name. Default: `name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub name_fields: Vec<String>,
    /// The person's mail address. Default: `email`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub email_fields: Vec<String>,
}

impl AuthServerConfig {
    /// Returns a server that has a provider of this name, to check credentials that need one.
    pub fn stand_in(provider: &str) -> Self {
        Self {
            issuer: "https://example.com".to_owned(),
            signing_key_secret_refs: Vec::new(),
            hmac_secret_refs: Vec::new(),
            token_lifespans: None,
            upstream_providers: vec![UpstreamProvider {
                name: provider.to_owned(),
                kind: UpstreamType::Oidc,
                oidc_config: Some(OidcUpstream {
                    issuer_url: "https://example.com".to_owned(),
                    client_id: provider.to_owned(),
                    client_secret_ref: None,
                    redirect_uri: None,
                    scopes: Vec::new(),
                    subject_claim: None,
                    additional_authorization_params: BTreeMap::new(),
                    insecure_allow_http: false,
                    allow_private_ips: false,
                }),
                oauth2_config: None,
            }],
            primary_upstream_provider: None,
            insecure_allow_http: false,
            pending: Block::new(),
        }
    }

    /// Returns true if there is a provider of this name.
    pub fn has_provider(&self, name: &str) -> bool {
        self.upstream_providers.iter().any(|provider| provider.name == name)
    }

    /// Returns the Secrets that the server refers to.
    pub fn secret_references(&self) -> Vec<SecretKeyReference> {
        let mut found = Vec::new();
        self.lower(&mut |secret| {
            found.push(secret.clone());
            Value::Null
        });
        found
    }

    /// Returns the block `authServer`; `refer` returns the reference to a Secret's value.
    pub(crate) fn lower(&self, refer: &mut dyn FnMut(&SecretKeyReference) -> Value) -> Value {
        let mut block = Block::new();
        block.insert("issuer".to_owned(), escape(self.issuer.as_str().into()));
        for (key, secrets) in
            [("signingKeys", &self.signing_key_secret_refs), ("hmacSecrets", &self.hmac_secret_refs)]
        {
            if !secrets.is_empty() {
                block.insert(key.to_owned(), secrets.iter().map(&mut *refer).collect());
            }
        }
        if let Some(lifespans) = &self.token_lifespans {
            block.insert("tokenLifespans".to_owned(), escape(json!(lifespans)));
        }
        if self.insecure_allow_http {
            block.insert("insecureAllowHttp".to_owned(), true.into());
        }
        let is_primary = |provider: &&UpstreamProvider| {
            self.primary_upstream_provider.as_ref().is_some_and(|name| *name == provider.name)
        };
        let first = self.upstream_providers.iter().filter(is_primary);
        let others = self.upstream_providers.iter().filter(|provider| !is_primary(provider));
        let providers = first.chain(others).map(|provider| provider.lower(refer));
        block.insert("upstreamProviders".to_owned(), providers.collect());
        block.into()
    }
}

impl UpstreamProvider {
    fn lower(&self, refer: &mut dyn FnMut(&SecretKeyReference) -> Value) -> Value {
        let mut block = Block::new();
        block.insert("name".to_owned(), self.name.as_str().into());
        block.insert("type".to_owned(), json!(self.kind));
        if let Some(oidc) = &self.oidc_config {
            block.insert("oidcConfig".to_owned(), written(oidc, refer));
        }
        if let Some(oauth2) = &self.oauth2_config {
            block.insert("oauth2Config".to_owned(), written(oauth2, refer));
        }
        block.into()
    }
}

/// Writes a provider as the file has it.
fn written(provider: &impl Serialize, refer: &mut dyn FnMut(&SecretKeyReference) -> Value) -> Value {
    let Ok(Value::Object(fields)) = serde_json::to_value(provider) else { return Value::Null };
    let field = |(name, value): (String, Value)| match name.as_str() {
        "clientSecretRef" => {
            let secret: Option<SecretKeyReference> = serde_json::from_value(value).ok();
            ("clientSecret".to_owned(), secret.map_or(Value::Null, |secret| refer(&secret)))
        }
        "insecureAllowHTTP" => ("insecureAllowHttp".to_owned(), value),
        _ => (name, escape(value)),
    };
    Value::Object(fields.into_iter().map(field).collect())
}
