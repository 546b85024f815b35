//! [`SpentStates`]: states that came back from a provider. Each is of use once, so that neither an answer
//! that is replayed nor a second code under the same state is taken (RFC 9700, 4.7.1).
//!
//! States are sealed, and any replica opens them: a copy is noticed by the process that saw its original.
//! Between replicas, the challenge of PKCE, the nonce and the provider, which takes a code once, stand guard.

use std::num::NonZeroUsize;
use std::time::Instant;

use lru::LruCache;
use parking_lot::Mutex;

/// Most states that are kept; one more evicts the oldest. Only a person who has agreed to a sign-in, in the
/// browser that began it, spends one.
const MAX_STATES: NonZeroUsize = NonZeroUsize::new(16_384).unwrap();

/// The states that this process has seen, by their nonce, each until it expires.
pub(in crate::auth_server) struct SpentStates(Mutex<LruCache<String, Instant>>);

impl Default for SpentStates {
    fn default() -> Self {
        Self(Mutex::new(LruCache::sparse(MAX_STATES)))
    }
}

impl SpentStates {
    /// Spends a state; returns false if it was spent before. `until` is when its seal has surely expired.
    pub(in crate::auth_server) fn spend(&self, nonce: &str, until: Instant) -> bool {
        let (mut states, now) = (self.0.lock(), Instant::now());
        while states.peek_lru().is_some_and(|(_, oldest)| *oldest <= now) {
            states.pop_lru();
        }
        if states.contains(nonce) {
            return false;
        }
        states.put(nonce.to_owned(), until);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_state_is_spent_once_and_forgotten_when_its_seal_has_expired() {
        let (states, later) = (SpentStates::default(), Instant::now() + Duration::from_mins(1));
        assert!(states.spend("one", later));
        assert!(!states.spend("one", later));
        assert!(states.spend("two", Instant::now()));
        assert!(states.spend("three", later));
        assert_eq!(states.0.lock().len(), 3, "an older one that is still good keeps it");
        let soon = SpentStates::default();
        assert!(soon.spend("one", Instant::now()));
        assert!(soon.spend("two", later));
        assert_eq!(soon.0.lock().len(), 1);
    }
}
