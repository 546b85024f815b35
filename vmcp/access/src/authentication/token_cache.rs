//! [`TokenCache`]: verified tokens, so that a request costs a SHA-256 and not a signature.

use std::num::NonZeroUsize;

use lru::LruCache;
use parking_lot::Mutex;

use crate::identity::Identity;
use crate::oidc::possession::Confirmation;

/// Most tokens that are kept (LRU).
const MAX_TOKENS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// Verified tokens by their SHA-256.
#[derive(Debug)]
pub(crate) struct TokenCache(Mutex<LruCache<[u8; 32], Verified>>);

/// A token that was verified.
#[derive(Debug, Clone)]
pub(crate) struct Verified {
    pub(crate) identity: Identity,
    /// Seconds since 1970 up to which the token is good, skew included; with introspection, up to which the
    /// issuer's answer counts.
    pub(crate) until: u64,
    /// [`KeyState::version`](crate::oidc::key_source::KeyState::version) of the keys that verified it: a
    /// token does not outlive a key that its issuer withdrew.
    pub(crate) keys: u64,
    /// Position of the issuer.
    pub(crate) issuer: usize,
    /// Keys of the holder that the token is bound to; checked with each request.
    pub(crate) confirmation: Confirmation,
}

impl Default for TokenCache {
    fn default() -> Self {
        Self(Mutex::new(LruCache::sparse(MAX_TOKENS)))
    }
}

impl TokenCache {
    /// Returns a token that has not expired; `keys` returns the version of an issuer's present keys.
    pub(crate) fn get(&self, digest: &[u8; 32], now: u64, keys: impl Fn(usize) -> u64) -> Option<Verified> {
        let mut tokens = self.0.lock();
        let known = tokens.get(digest)?;
        if known.until > now && known.keys == keys(known.issuer) {
            return Some(known.clone());
        }
        tokens.pop(digest);
        None
    }

    /// Keeps a verified token.
    pub(crate) fn insert(&self, digest: [u8; 32], verified: Verified) {
        self.0.lock().put(digest, verified);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_kept_until_it_expires_or_its_keys_change() {
        let cache = TokenCache::default();
        let verified = Verified {
            identity: Identity::Anonymous,
            until: 100,
            keys: 1,
            issuer: 0,
            confirmation: Confirmation::default(),
        };
        cache.insert([1; 32], verified.clone());
        assert!(cache.get(&[1; 32], 99, |_| 1).is_some());
        assert!(cache.get(&[2; 32], 99, |_| 1).is_none());
        assert!(cache.get(&[1; 32], 100, |_| 1).is_none(), "expired");
        cache.insert([1; 32], verified);
        assert!(cache.get(&[1; 32], 99, |_| 2).is_none(), "other keys");
    }
}
