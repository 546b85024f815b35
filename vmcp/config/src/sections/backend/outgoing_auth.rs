//! `outgoingAuth`: the credentials that backends get besides their constant headers, resolved per backend:
//! its own entry, else the default, else none.

mod aws;
mod raw;
mod raw_aws;
mod token_url;
mod upstream_inject;
mod validation;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use url::Url;

pub use self::aws::{AwsKeys, AwsRoles, AwsSts};
pub use self::raw::{
    RawClientCredentials, RawCredentials, RawCredentialsType, RawHeaderInjection, RawOAuth, RawOnBehalfOf,
    RawOutgoingAuth, RawOutgoingAuthSource, RawPassthrough, RawTokenExchange, RawXaa,
};

pub use self::raw_aws::{RawAwsSts, RawRoleMapping};
pub use self::upstream_inject::{RawUpstreamInject, UpstreamInject};
pub(crate) use self::validation::OutgoingRules;
use crate::values::secret::Secret;

/// Credentials of a backend that are fetched, and expire.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Credentials {
    /// Nothing is configured: a login of `vmcp login` is used if there is one.
    #[default]
    Automatic,
    /// None, whatever logins there are.
    None,
    /// The access token of `vmcp login`, refreshed.
    OAuth(OAuthClient),
    /// A token for vmcp itself (RFC 6749, 4.4), the same for all clients.
    ClientCredentials(ClientCredentials),
    /// A token in exchange for the client's (RFC 8693).
    TokenExchange(TokenExchange),
    /// Cross-application access: an identity assertion (ID-JAG) from the client's identity provider, then a
    /// token of the backend's authorization server (RFC 7523).
    Xaa(Xaa),
    /// Microsoft Entra's on-behalf-of flow.
    OnBehalfOf(OnBehalfOf),
    /// Requests signed for AWS.
    AwsSts(AwsSts),
    /// The client's token of an upstream provider of `authServer`.
    UpstreamInject(UpstreamInject),
}

impl Credentials {
    /// Returns the name of the kind, as in the file.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Automatic => "automatic",
            Self::None => "unauthenticated",
            Self::OAuth(_) => "oauth",
            Self::ClientCredentials(_) => "clientCredentials",
            Self::TokenExchange(_) => "tokenExchange",
            Self::Xaa(_) => "xaa",
            Self::OnBehalfOf(_) => "obo",
            Self::AwsSts(_) => "awsSts",
            Self::UpstreamInject(_) => "upstreamInject",
        }
    }

    /// Returns [`Self::kind`], or `None` if nothing is fetched.
    pub fn fetched_kind(&self) -> Option<&'static str> {
        (!matches!(self, Self::Automatic | Self::None)).then(|| self.kind())
    }

    /// Returns when the person signed in whose login is used.
    pub fn signed_in_at(&self) -> Option<SystemTime> {
        let Self::OAuth(client) = self else { return None };
        client.signed_in_at.map(|at| UNIX_EPOCH + Duration::from_secs(at))
    }

    /// Returns true if each client gets credentials of its own.
    pub fn is_per_client(&self) -> bool {
        match self {
            Self::TokenExchange(_) | Self::Xaa(_) | Self::OnBehalfOf(_) | Self::UpstreamInject(_) => true,
            Self::AwsSts(aws) => aws.is_per_client(),
            _ => false,
        }
    }
}

/// A token endpoint, and vmcp as its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenEndpoint {
    /// The URL.
    pub url: Url,
    /// The identifier of the client.
    pub client_id: Option<String>,
    /// The secret of the client.
    pub client_secret: Option<Secret>,
}

/// A client registered by hand at the authorization server of a backend.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OAuthClient {
    /// The client; `None`: registered by `vmcp login`.
    pub client_id: Option<String>,
    /// The secret of the client.
    pub client_secret: Option<Secret>,
    /// Scopes to ask for; empty: those that the backend names.
    pub scopes: Vec<String>,
    /// Time of the login, in seconds since 1970; `None`: no person is signed in. See
    /// [`Config::sign_in`](crate::Config::sign_in).
    pub signed_in_at: Option<u64>,
}

/// Client credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCredentials {
    /// The authorization server.
    pub endpoint: TokenEndpoint,
    /// The `audience` parameter.
    pub audience: Option<String>,
    /// The `resource` parameter (RFC 8707).
    pub resource: Option<String>,
    /// Scopes of the token.
    pub scopes: Vec<String>,
}

/// Token exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenExchange {
    /// The authorization server.
    pub endpoint: TokenEndpoint,
    /// The `audience` parameter.
    pub audience: Option<String>,
    /// The `resource` parameter.
    pub resource: Option<String>,
    /// Scopes of the token.
    pub scopes: Vec<String>,
    /// URN of the type of the client's token.
    pub subject_token_type: String,
    /// Upstream provider whose token is exchanged; `None`: the client's own, or that of the first provider.
    pub subject_provider: Option<String>,
}

/// Cross-application access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Xaa {
    /// The identity provider of the clients.
    pub idp: TokenEndpoint,
    /// The authorization server of the backend.
    pub target: TokenEndpoint,
    /// The issuer of the backend's authorization server: the audience of the assertion.
    pub audience: String,
    /// The `resource` parameter.
    pub resource: Option<String>,
    /// Scopes of both tokens.
    pub scopes: Vec<String>,
    /// URN of the type of the client's token.
    pub subject_token_type: String,
    /// Upstream provider whose token is asserted; `None`: the client's own, or that of the first provider.
    pub subject_provider: Option<String>,
}

/// On-behalf-of flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnBehalfOf {
    /// The token endpoint of the tenant.
    pub endpoint: TokenEndpoint,
    /// Scopes of the token.
    pub scopes: Vec<String>,
    /// Upstream provider whose token is asserted; `None`: the client's own, or that of the first provider.
    pub subject_provider: Option<String>,
}
