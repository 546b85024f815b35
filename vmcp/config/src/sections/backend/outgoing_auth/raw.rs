//! Keys of `outgoingAuth`, as written.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::raw_aws::RawAwsSts;
use super::upstream_inject::RawUpstreamInject;
use crate::values::secret::Secret;

/// Credentials for backends besides their constant `headers`: the entry of a backend, else `default`, else
/// none.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "OutgoingAuth")]
pub struct RawOutgoingAuth {
    /// Where credentials are configured; `inline`, in this file, is all there is here.
    pub source: RawOutgoingAuthSource,
    /// Credentials of backends with a `url` that have no entry below and no `Authorization` among their
    /// `headers`.
    pub default: Option<RawCredentials>,
    /// Credentials by name of the backend.
    pub backends: BTreeMap<String, RawCredentials>,
}

/// Sources of credentials.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "OutgoingAuthSource")]
pub enum RawOutgoingAuthSource {
    /// This file.
    #[default]
    Inline,
    /// This file too: in Kubernetes the operator writes it from what it discovered.
    Discovered,
}

/// Kinds of credentials. snake_case is accepted too (`token_exchange`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CredentialsType")]
pub enum RawCredentialsType {
    /// None.
    #[default]
    Unauthenticated,
    /// One constant header.
    HeaderInjection,
    /// Headers of the client, passed on.
    Passthrough,
    /// The token of `vmcp login`.
    Oauth,
    /// A token for vmcp itself (RFC 6749, 4.4).
    ClientCredentials,
    /// A token in exchange for the client's (RFC 8693).
    TokenExchange,
    /// Cross-application access (ID-JAG).
    Xaa,
    /// Microsoft Entra's on-behalf-of flow.
    Obo,
    /// Requests signed for AWS.
    AwsSts,
    /// The client's token of an upstream provider of `authServer`.
    UpstreamInject,
}

/// Credentials of one backend: a `type`, and the block of that name.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Credentials")]
pub struct RawCredentials {
    /// Required. Kind of credentials; snake_case is accepted too.
    #[serde(rename = "type")]
    #[schemars(required)]
    pub kind: Option<RawCredentialsType>,
    /// `headerInjection`: one constant header.
    pub header_injection: Option<RawHeaderInjection>,
    /// `passthrough`: headers of the client's request that the backend gets unchanged.
    pub passthrough: Option<RawPassthrough>,
    /// `oauth`: the token of `vmcp login`; the block is optional.
    pub oauth: Option<RawOAuth>,
    /// `clientCredentials`: a token for vmcp itself, the same for all clients.
    pub client_credentials: Option<RawClientCredentials>,
    /// `tokenExchange`: a token in exchange for the one that the client has shown to vmcp.
    pub token_exchange: Option<RawTokenExchange>,
    /// `xaa`: an identity assertion of the client's identity provider, then a token of the backend's.
    pub xaa: Option<RawXaa>,
    /// `obo`: Microsoft Entra's on-behalf-of flow.
    pub obo: Option<RawOnBehalfOf>,
    /// `awsSts`: requests signed for AWS (Signature Version 4).
    pub aws_sts: Option<RawAwsSts>,
    /// `upstreamInject`: the token that an upstream provider of `authServer` gave to the person who calls.
    pub upstream_inject: Option<RawUpstreamInject>,
}

/// One constant header.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "HeaderInjection")]
pub struct RawHeaderInjection {
    /// Required. Name of the header.
    #[schemars(required)]
    pub header_name: Option<String>,
    /// Required. Value of the header.
    #[schemars(required)]
    pub header_value: Option<Secret>,
}

/// Headers of the client.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Passthrough")]
pub struct RawPassthrough {
    /// Required. Names of the headers. `Authorization` must be named to be passed on: the backend then gets
    /// the very token that the client shows to vmcp.
    #[schemars(required)]
    pub headers: Vec<String>,
}

/// A client registered by hand, for authorization servers without dynamic registration.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "OAuth")]
pub struct RawOAuth {
    /// Client identifier. Default: `vmcp login` registers one.
    pub client_id: Option<String>,
    /// Client secret.
    pub client_secret: Option<Secret>,
    /// Scopes to ask for. Default: those that the backend names.
    pub scopes: Vec<String>,
}

/// Client credentials (RFC 6749, 4.4).
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ClientCredentials")]
pub struct RawClientCredentials {
    /// Required. Token endpoint; https, but for a loopback address.
    #[schemars(required)]
    pub token_url: Option<String>,
    /// Required. Client identifier.
    #[schemars(required)]
    pub client_id: Option<String>,
    /// Required. Client secret.
    #[schemars(required)]
    pub client_secret: Option<Secret>,
    /// The `audience` parameter.
    pub audience: Option<String>,
    /// The `resource` parameter (RFC 8707).
    pub resource: Option<String>,
    /// Scopes of the token.
    pub scopes: Vec<String>,
    /// Allow an http `tokenUrl` that is no loopback address: whoever listens gets secret and tokens.
    pub insecure_allow_http: bool,
}

/// Token exchange (RFC 8693). Requests of vmcp's own, such as listings, get a token by client credentials if
/// there is a secret, else none.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "TokenExchange")]
pub struct RawTokenExchange {
    /// Required. Token endpoint; https, but for a loopback address.
    #[schemars(required)]
    pub token_url: Option<String>,
    /// The `audience` parameter: the backend, as the authorization server knows it.
    pub audience: Option<String>,
    /// The `resource` parameter (RFC 8707).
    pub resource: Option<String>,
    /// Client identifier.
    pub client_id: Option<String>,
    /// Client secret.
    pub client_secret: Option<Secret>,
    /// Scopes of the token.
    pub scopes: Vec<String>,
    /// Type of the client's token: `access_token` (default), `id_token`, `jwt`, or the URN of one.
    pub subject_token_type: Option<String>,
    /// Provider of `authServer` whose token is exchanged. Default: the client's own token; where `authServer`
    /// gave that, the token of its first provider.
    pub subject_provider_name: Option<String>,
    /// Allow an http `tokenUrl` that is no loopback address: whoever listens gets secret and tokens.
    pub insecure_allow_http: bool,
}

/// Cross-application access: RFC 8693 at the identity provider, RFC 7523 at the backend's authorization
/// server.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Xaa")]
pub struct RawXaa {
    /// Required. Token endpoint of the identity provider that the client's token is of.
    #[schemars(required)]
    pub idp_token_url: Option<String>,
    /// Client identifier there.
    pub idp_client_id: Option<String>,
    /// Client secret there.
    pub idp_client_secret: Option<Secret>,
    /// Required. Token endpoint of the backend's authorization server.
    #[schemars(required)]
    pub target_token_url: Option<String>,
    /// Required. Issuer of that server: the audience of the assertion.
    #[schemars(required)]
    pub target_audience: Option<String>,
    /// The `resource` parameter: the backend itself.
    pub target_resource: Option<String>,
    /// Client identifier there.
    pub target_client_id: Option<String>,
    /// Client secret there.
    pub target_client_secret: Option<Secret>,
    /// Scopes of both tokens.
    pub scopes: Vec<String>,
    /// Type of the client's token: `id_token` (default), `access_token`, `jwt`, or the URN of one.
    pub subject_token_type: Option<String>,
    /// Provider of `authServer` whose token is exchanged. Default: the client's own token; where `authServer`
    /// gave that, the token of its first provider.
    pub subject_provider_name: Option<String>,
    /// Allow an http `targetTokenUrl` that is no loopback address.
    pub insecure_target_token_url: bool,
}

/// Microsoft Entra's on-behalf-of flow.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "OnBehalfOf")]
pub struct RawOnBehalfOf {
    /// Required. Directory (tenant) identifier.
    #[schemars(required)]
    pub tenant_id: Option<String>,
    /// Login host. Default: `https://login.microsoftonline.com`.
    pub authority: Option<String>,
    /// Required. Application (client) identifier.
    #[schemars(required)]
    pub client_id: Option<String>,
    /// Required. Client secret.
    #[schemars(required)]
    pub client_secret: Option<Secret>,
    /// Identifier of the backend; asks for `<audience>/.default` unless there are `scopes`.
    pub audience: Option<String>,
    /// Scopes of the token.
    pub scopes: Vec<String>,
    /// Provider of `authServer` whose token is exchanged. Default: the client's own token; where `authServer`
    /// gave that, the token of its first provider.
    pub subject_token_provider_name: Option<String>,
}
