//! [`Grant`]: the rights that a person has given to a client, sealed in its refresh token.

use serde::{Deserialize, Serialize};
use vmcp_config::AuthServer;

use super::families::FamilyId;
use crate::auth_server::sign_in::person::Person;
use crate::auth_server::upstream_provider::ProviderTokens;
use crate::identity::upstream_tokens::UpstreamToken;

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
    /// Time of the sign-in, in seconds since 1970; 0 in a token of an earlier version.
    #[serde(rename = "i", default)]
    pub(in crate::auth_server) signed_in: u64,
    #[serde(rename = "p")]
    pub(in crate::auth_server) person: Person,
    #[serde(rename = "t")]
    pub(in crate::auth_server) tokens: Vec<ProviderTokens>,
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
