//! States of runs that were used: what follows an answer may not be repeated, so an answer is good once.

use std::num::NonZeroUsize;

use lru::LruCache;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

/// States that are remembered: each is sealed for ten minutes, so this is 100 answers a second.
const MAX_STATES: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();

/// The used states of this process. Another replica does not know them.
pub struct UsedStates(Mutex<LruCache<[u8; 32], ()>>);

impl UsedStates {
    /// Notes that a state is used; returns false if it has been used before.
    pub fn take(&self, state: &str) -> bool {
        self.0.lock().put(Sha256::digest(state).into(), ()).is_none()
    }
}

impl Default for UsedStates {
    fn default() -> UsedStates {
        UsedStates(Mutex::new(LruCache::new(MAX_STATES)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_good_once() {
        let used = UsedStates::default();
        assert!(used.take("one") && used.take("other"));
        assert!(!used.take("one"));
    }
}
