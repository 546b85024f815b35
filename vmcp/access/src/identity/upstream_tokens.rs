//! [`UpstreamTokens`]: tokens that a person got from upstream providers when they signed in through vmcp.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use vmcp_config::Secret;

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
    /// The tokens, and when they expire.
    tokens: Mutex<Option<(UpstreamTokens, SystemTime)>>,
    /// Notified when the first tokens arrive.
    first: Notify,
}

impl LatestTokens {
    /// Notes the tokens of a client, which are good until `expires`, in seconds since 1970.
    pub(crate) fn note(&self, tokens: &UpstreamTokens, expires: u64) {
        if tokens.is_empty() {
            return;
        }
        let expires = SystemTime::UNIX_EPOCH + Duration::from_secs(expires);
        let mut known = self.0.tokens.lock();
        if known.as_ref().is_some_and(|(_, before)| *before > expires) {
            return;
        }
        let before = known.replace((tokens.clone(), expires));
        if before.is_none_or(|(_, expires)| expires <= SystemTime::now()) {
            self.0.first.notify_one();
        }
    }

    /// Waits for the first tokens.
    pub async fn first(&self) {
        self.0.first.notified().await;
    }

    /// Returns the access token of a provider, unless it has expired.
    pub(crate) fn access(&self, provider: &str) -> Option<Secret> {
        let mut latest = self.0.tokens.lock();
        if latest.as_ref().is_some_and(|(_, expires)| *expires <= SystemTime::now()) {
            *latest = None;
        }
        latest.as_ref().and_then(|(tokens, _)| tokens.access(provider)).map(Secret::from)
    }
}

impl fmt::Debug for LatestTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LatestTokens")
    }
}
