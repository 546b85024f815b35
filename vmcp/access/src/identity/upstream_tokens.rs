//! [`UpstreamTokens`]: tokens that a person got from upstream providers when they signed in through vmcp.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use vmcp_config::Secret;

use super::Identity;

/// Tokens of one person, in the order in which they signed in at the providers.
#[derive(Clone, Default)]
pub struct UpstreamTokens(Arc<[UpstreamToken]>);

/// The tokens of one provider, as sealed into an access token.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct UpstreamToken {
    #[serde(rename = "p")]
    pub(crate) provider: String,
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub(crate) access: Option<String>,
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
}

impl UpstreamTokens {
    pub(crate) fn new(tokens: Vec<UpstreamToken>) -> Self {
        Self(tokens.into())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the access token of a provider. Secret.
    pub fn access(&self, provider: &str) -> Option<&str> {
        self.token_of(provider)?.access.as_deref()
    }

    /// Returns the ID token of a provider. Secret.
    pub fn id(&self, provider: &str) -> Option<&str> {
        self.token_of(provider)?.id.as_deref()
    }

    /// Returns the name of the first provider.
    pub fn first(&self) -> Option<&str> {
        self.0.first().map(|token| token.provider.as_str())
    }

    fn token_of(&self, provider: &str) -> Option<&UpstreamToken> {
        self.0.iter().find(|token| token.provider == provider)
    }
}

/// Shows the names of the providers.
impl fmt::Debug for UpstreamTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|token| &token.provider)).finish()
    }
}

/// Tokens of the signed-in client whose tokens last longest. vmcp lists with them backends that require a
/// person's token.
#[derive(Clone, Default)]
pub struct LatestTokens(Arc<Latest>);

#[derive(Default)]
struct Latest {
    /// The client with its tokens, and when they expire.
    client: Mutex<Option<(Identity, SystemTime)>>,
    /// Notified when the first tokens arrive.
    first: Notify,
}

impl LatestTokens {
    /// Notes a client, whose tokens are good until `expires`, in seconds since 1970.
    pub(crate) fn note(&self, client: &Identity, expires: u64) {
        if client.as_known().is_none_or(|known| known.upstream_tokens().is_empty()) {
            return;
        }
        let expires = SystemTime::UNIX_EPOCH + Duration::from_secs(expires);
        let mut known = self.0.client.lock();
        if known.as_ref().is_some_and(|(_, before)| *before > expires) {
            return;
        }
        let before = known.replace((client.clone(), expires));
        if before.is_none_or(|(_, expires)| expires <= SystemTime::now()) {
            self.0.first.notify_one();
        }
    }

    /// Waits for the first tokens.
    pub async fn first(&self) {
        self.0.first.notified().await;
    }

    /// Forgets the client if `is_meant` says so: vmcp lists with the tokens of the next one who signs in.
    pub fn forget_if(&self, is_meant: impl Fn(&Identity) -> bool) {
        let mut latest = self.0.client.lock();
        if latest.as_ref().is_some_and(|(client, _)| is_meant(client)) {
            *latest = None;
        }
    }

    /// Returns the access token of a provider, unless it has expired.
    pub(crate) fn access(&self, provider: &str) -> Option<Secret> {
        let mut latest = self.0.client.lock();
        if latest.as_ref().is_some_and(|(_, expires)| *expires <= SystemTime::now()) {
            *latest = None;
        }
        let known = latest.as_ref().and_then(|(client, _)| client.as_known())?;
        known.upstream_tokens().access(provider).map(Secret::from)
    }
}

impl fmt::Debug for LatestTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LatestTokens")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    fn client(subject: &str, access: &str) -> Identity {
        let (provider, access) = ("forge".to_owned(), Some(access.to_owned()));
        let tokens = UpstreamTokens::new(vec![UpstreamToken { provider, access, id: None }]);
        Identity::signed_in("https://vmcp", subject, Map::new(), None, tokens)
    }

    #[test]
    fn listings_have_the_tokens_of_the_last_client_until_it_is_forgotten() {
        let latest = LatestTokens::default();
        let access = |provider: &str| latest.access(provider).map(|token| token.expose().to_owned());
        latest.note(&Identity::Anonymous, u64::MAX >> 8);
        latest.note(&client("alice", "of-alice"), 4_000_000_000);
        latest.note(&client("bob", "of-bob"), 3_999_999_999);
        assert_eq!(access("forge").as_deref(), Some("of-alice"), "hers last longer");
        assert_eq!(access("other"), None);
        latest.forget_if(|client| client.subject() == "bob");
        assert!(access("forge").is_some());
        latest.forget_if(|client| client.subject() == "alice");
        assert_eq!(access("forge"), None);
        latest.note(&client("bob", "of-bob"), 3_999_999_999);
        assert_eq!(access("forge").as_deref(), Some("of-bob"));
    }
}
