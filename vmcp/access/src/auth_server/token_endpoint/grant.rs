//! [`Grant`]: what a person has allowed a client, as a refresh token carries it, sealed; and the claims of
//! access tokens that come of it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use vmcp_config::AuthServer;

use super::families::FamilyId;
use crate::auth_server::upstream_provider::ProviderTokens;
use crate::identity::upstream_tokens::UpstreamToken;

/// Bytes of a person's claims. A sign-in with more is refused, because a policy could miss left-out claims.
const MAX_CLAIM_BYTES: usize = 8 << 10;
/// Claims that speak about a token and not about the person.
const TOKEN_CLAIMS: [&str; 27] = [
    "iss",
    "sub",
    "aud",
    "exp",
    "iat",
    "nbf",
    "jti",
    "nonce",
    "azp",
    "at_hash",
    "c_hash",
    "s_hash",
    "sid",
    "auth_time",
    "acr",
    "amr",
    "cnf",
    "client_id",
    "scope",
    "scp",
    "act",
    "may_act",
    "typ",
    "rh",
    "uti",
    "aio",
    "ver",
];

/// A person, as the first provider tells.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::auth_server) struct Person {
    #[serde(rename = "s")]
    pub(in crate::auth_server) subject: String,
    #[serde(rename = "c", default, skip_serializing_if = "Map::is_empty")]
    pub(in crate::auth_server) claims: Map<String, Value>,
}

/// A grant.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::auth_server) struct Grant {
    #[serde(rename = "f")]
    pub(in crate::auth_server) family: FamilyId,
    #[serde(rename = "g")]
    pub(in crate::auth_server) generation: u64,
    /// Digest of the client's identifier.
    #[serde(rename = "c")]
    pub(in crate::auth_server) client: String,
    #[serde(rename = "o", default)]
    pub(in crate::auth_server) scope: String,
    #[serde(rename = "p")]
    pub(in crate::auth_server) person: Person,
    #[serde(rename = "t")]
    pub(in crate::auth_server) tokens: Vec<ProviderTokens>,
}

impl Person {
    /// Keeps the claims that are about the person; `None` if they are too large.
    pub(in crate::auth_server) fn new(subject: String, claims: Map<String, Value>) -> Option<Self> {
        let claims: Map<_, _> =
            claims.into_iter().filter(|(name, _)| !TOKEN_CLAIMS.contains(&name.as_str())).collect();
        let size = serde_json::to_string(&claims).map_or(usize::MAX, |text| text.len());
        (size <= MAX_CLAIM_BYTES).then_some(Self { subject, claims })
    }
}

impl Grant {
    /// Returns the tokens that backends need, as an access token carries them.
    pub(in crate::auth_server) fn needed_tokens(&self, config: &AuthServer) -> Vec<UpstreamToken> {
        let token = |tokens: &ProviderTokens| {
            let access = config.access_tokens_of.contains(&tokens.provider);
            let id = config.id_tokens_of.contains(&tokens.provider);
            let token = UpstreamToken {
                provider: tokens.provider.clone(),
                access: access.then(|| tokens.access.clone()),
                id: tokens.id.clone().filter(|_| id),
            };
            (access || id).then_some(token)
        };
        self.tokens.iter().filter_map(token).collect()
    }

    /// Returns the expiry of the access token: the end of its own life or of the first token that it carries.
    pub(in crate::auth_server) fn expires(&self, config: &AuthServer, now: u64) -> u64 {
        let carried = self.tokens.iter().filter(|tokens| tokens.is_carried(config));
        let ends = carried.filter_map(|tokens| tokens.expires);
        ends.fold(now.saturating_add(config.access_life.as_secs()), u64::min)
    }
}
