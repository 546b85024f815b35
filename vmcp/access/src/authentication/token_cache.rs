//! [`TokenCache`]: verified tokens, so that a request costs a SHA-256 and not a signature.

use std::num::NonZeroUsize;

use lru::LruCache;
use parking_lot::Mutex;

use crate::identity::{Identity, KnownIdentity};
use crate::oidc::possession::Confirmation;

/// Most tokens that are kept (LRU).
const MAX_TOKENS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
/// Most bytes of the kept tokens and of their claims as JSON, 32 MiB (LRU). Usual tokens have 1 to 2 KiB.
const MAX_BYTES: usize = 32 << 20;

/// Verified tokens by their SHA-256.
#[derive(Debug, Default)]
pub(crate) struct TokenCache(Mutex<KeptTokens>);

#[derive(Debug)]
struct KeptTokens {
    by_digest: LruCache<[u8; 32], Verified>,
    /// Sum of [`Verified::bytes`].
    bytes: usize,
}

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

impl Verified {
    fn bytes(&self) -> usize {
        self.identity.as_known().map_or(0, KnownIdentity::bytes)
    }
}

impl Default for KeptTokens {
    fn default() -> Self {
        Self { by_digest: LruCache::sparse(MAX_TOKENS), bytes: 0 }
    }
}

impl KeptTokens {
    fn remove(&mut self, digest: &[u8; 32]) {
        if let Some(removed) = self.by_digest.pop(digest) {
            self.bytes -= removed.bytes();
        }
    }
}

impl TokenCache {
    /// Returns a token that has not expired; `keys` returns the version of an issuer's present keys.
    pub(crate) fn get(&self, digest: &[u8; 32], now: u64, keys: impl Fn(usize) -> u64) -> Option<Verified> {
        let mut tokens = self.0.lock();
        let known = tokens.by_digest.get(digest)?;
        if known.until > now && known.keys == keys(known.issuer) {
            return Some(known.clone());
        }
        tokens.remove(digest);
        None
    }

    /// Returns the identity of each token of a client, by [`Identity::digest`], that has not expired.
    pub(crate) fn identities_of(&self, client: &[u8; 32], now: u64) -> Vec<Identity> {
        let tokens = self.0.lock();
        let of_client = tokens.by_digest.iter().map(|(_, verified)| verified);
        let of_client = of_client.filter(|it| it.until > now && it.identity.digest() == *client);
        of_client.map(|verified| verified.identity.clone()).collect()
    }

    /// Keeps a verified token.
    pub(crate) fn insert(&self, digest: [u8; 32], verified: Verified) {
        let mut tokens = self.0.lock();
        tokens.bytes += verified.bytes();
        // Either this token's own entry, or the least recently used one of too many.
        if let Some((_, replaced)) = tokens.by_digest.push(digest, verified) {
            tokens.bytes -= replaced.bytes();
        }
        while tokens.bytes > MAX_BYTES
            && let Some((_, oldest)) = tokens.by_digest.pop_lru()
        {
            tokens.bytes -= oldest.bytes();
        }
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

    #[test]
    fn many_large_tokens_take_no_more_than_their_room() {
        let cache = TokenCache::default();
        let verified = |bytes: usize| {
            // Half of them are the token, half the claims: {"c":"…"}.
            let claims = serde_json::json!({ "c": "c".repeat(bytes / 2 - 8) }).as_object().cloned().unwrap();
            let token = Some("t".repeat(bytes / 2).into_boxed_str());
            let identity = Identity::known("https://idp", "ann", claims, token);
            Verified { identity, until: 100, keys: 1, issuer: 0, confirmation: Confirmation::default() }
        };
        let digest =
            |number: usize| std::array::from_fn(|at| number.to_le_bytes().get(at).copied().unwrap_or(0));
        let (large, most) = (32 << 10, MAX_BYTES / (32 << 10));
        for number in 0..=most {
            cache.insert(digest(number), verified(large));
        }
        let kept = |number| cache.get(&digest(number), 99, |_| 1).is_some();
        assert!(!kept(0) && kept(1) && kept(most));
        cache.insert(digest(1), verified(16));
        assert_eq!(cache.0.lock().bytes, (most - 1) * large + 16, "replaced");
        assert!(cache.get(&digest(1), 100, |_| 1).is_none(), "expired");
        let tokens = cache.0.lock();
        assert_eq!((tokens.bytes, tokens.by_digest.len()), ((most - 1) * large, most - 1));
    }

    #[test]
    fn the_tokens_of_a_client_are_found_until_they_expire() {
        let cache = TokenCache::default();
        let known = |subject| Identity::known("https://idp", subject, serde_json::Map::new(), None);
        for (number, subject, until) in [(1, "ann", 100), (2, "ann", 200), (3, "bob", 200)] {
            let verified = Verified {
                identity: known(subject),
                until,
                keys: 1,
                issuer: 0,
                confirmation: Confirmation::default(),
            };
            cache.insert([number; 32], verified);
        }
        let ann = known("ann").digest();
        assert_eq!(ann, Identity::digest_of("https://idp", "ann"));
        let count = |client, now| cache.identities_of(client, now).len();
        assert_eq!((count(&ann, 99), count(&ann, 100), count(&ann, 200)), (2, 1, 0));
        assert_eq!(cache.identities_of(&ann, 99)[0], known("ann"));
        assert_eq!(count(&[0; 32], 99), 0);
    }
}
