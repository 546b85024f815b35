//! `authServer`: the embedded authorization server. It gives clients tokens of vmcp's own, and keeps those of
//! upstream identity providers for backends.

mod raw;
mod upstream;
mod validation;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

pub use self::raw::{
    RawAuthServer, RawFieldMapping, RawOAuth2Upstream, RawOidcUpstream, RawTokenLifespans,
    RawUpstreamProvider, RawUpstreamType, RawUserInfo,
};
pub(crate) use self::upstream::oidc_upstream;
pub use self::upstream::{Upstream, UpstreamKind, UserInfo};
pub(crate) use self::validation::is_loopback;
use crate::values::secret::Secret;

/// The embedded authorization server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthServer {
    /// Issuer, as in the claim `iss`; the endpoints lie below it.
    pub issuer: String,
    /// The issuer as a URL.
    pub issuer_url: Url,
    /// Private keys (PEM): the first signs tokens, all verify them. Empty: derived from the secrets.
    pub signing_keys: Vec<Secret>,
    /// Secrets that seal what clients carry: the first seals, all open. Empty: one is generated.
    pub sealing_secrets: Vec<Secret>,
    /// Longest life of an access token.
    pub access_life: Duration,
    /// Life of a refresh token.
    pub refresh_life: Duration,
    /// Life of an authorization code, and time for a person to sign in.
    pub code_life: Duration,
    /// Identity providers, in the order in which a person signs in. The first one tells who the person is.
    pub upstreams: Vec<Arc<Upstream>>,
    /// Audience of the tokens.
    pub audience: String,
    /// URL of the MCP endpoint that the tokens are for.
    pub resource: Url,
    /// Scopes that clients may get.
    pub scopes: Vec<String>,
    /// Names of the providers whose access tokens backends need: no others travel in access tokens.
    pub access_tokens_of: BTreeSet<String>,
    /// Names of the providers whose ID tokens are needed.
    pub id_tokens_of: BTreeSet<String>,
}

impl AuthServer {
    /// Returns the provider of that name.
    pub fn upstream(&self, name: &str) -> Option<&Arc<Upstream>> {
        self.upstreams.iter().find(|upstream| upstream.name == name)
    }

    /// Carries a provider's token, as credentials of a backend need it.
    pub(crate) fn carry_token_of(&mut self, provider: &str, is_id_token: bool) {
        let tokens = if is_id_token { &mut self.id_tokens_of } else { &mut self.access_tokens_of };
        tokens.insert(provider.to_owned());
    }
}
