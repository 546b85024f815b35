//! [`Families`]: rotation of refresh tokens (OAuth 2.1, 4.3.1). All tokens of one sign-in are a family; each
//! refresh token has the next generation. A second use shows a stolen copy: the family ends.
//!
//! The token seals its generation, so that any replica can continue. Each process keeps the generations that
//! it has seen, so the process that saw the original notices the copy; the provider's own rotation is the
//! second guard.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lru::LruCache;
use parking_lot::Mutex;

/// Families whose generation is kept; a further one evicts the least recently used (LRU).
const MAX_FAMILIES: NonZeroUsize = NonZeroUsize::new(16_384).unwrap();
/// Answers that can be repeated.
const MAX_ANSWERS: NonZeroUsize = NonZeroUsize::new(256).unwrap();
/// Time in which the same refresh token gets the same answer again, for clients that refresh twice at once or
/// lost their connection.
const GRACE: Duration = Duration::from_secs(10);

/// Identifier of a family.
pub(in crate::auth_server) type FamilyId = [u8; 16];

/// A family, locked while one of its tokens is exchanged (single flight).
#[derive(Debug, Default)]
pub(in crate::auth_server) struct Family {
    /// The least generation that may be used.
    next: u64,
    revoked: bool,
}

/// The families that this process has seen.
pub(in crate::auth_server) struct Families {
    known: Mutex<LruCache<FamilyId, Arc<tokio::sync::Mutex<Family>>>>,
    answers: Mutex<LruCache<(FamilyId, u64), (Instant, String)>>,
}

/// Outcome of presenting a token.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::auth_server) enum Use {
    /// The token may be exchanged.
    First,
    /// The token was exchanged before, and its family has ended with this.
    Reused,
    /// The family had ended before.
    Ended,
}

impl Default for Families {
    fn default() -> Self {
        Self {
            known: Mutex::new(LruCache::sparse(MAX_FAMILIES)),
            answers: Mutex::new(LruCache::sparse(MAX_ANSWERS)),
        }
    }
}

impl Families {
    /// Returns a family.
    pub(in crate::auth_server) fn get(&self, id: FamilyId) -> Arc<tokio::sync::Mutex<Family>> {
        Arc::clone(self.known.lock().get_or_insert(id, Arc::default))
    }

    /// Returns the answer that a token got a moment ago.
    pub(in crate::auth_server) fn repeated(&self, id: FamilyId, generation: u64) -> Option<String> {
        let mut answers = self.answers.lock();
        forget(&mut answers);
        answers.get(&(id, generation)).map(|(_, answer)| answer.clone())
    }

    /// Forgets the answers, as time does.
    #[cfg(test)]
    pub(in crate::auth_server) fn forget_answers(&self) {
        self.answers.lock().clear();
    }

    /// Keeps the answer to a token for [`GRACE`].
    pub(in crate::auth_server) fn answered(&self, id: FamilyId, generation: u64, answer: &str) {
        let mut answers = self.answers.lock();
        forget(&mut answers);
        answers.put((id, generation), (Instant::now(), answer.to_owned()));
    }
}

fn forget(answers: &mut LruCache<(FamilyId, u64), (Instant, String)>) {
    let old: Vec<_> =
        answers.iter().filter(|(_, (at, _))| at.elapsed() >= GRACE).map(|(key, _)| *key).collect();
    for key in old {
        answers.pop(&key);
    }
}

impl Family {
    /// Tells whether the token of a generation may be exchanged.
    pub(in crate::auth_server) fn check(&mut self, generation: u64) -> Use {
        if self.revoked {
            return Use::Ended;
        }
        if generation >= self.next {
            return Use::First;
        }
        self.revoked = true;
        Use::Reused
    }

    /// Notes that the token of a generation was exchanged.
    pub(in crate::auth_server) fn used(&mut self, generation: u64) {
        self.next = self.next.max(generation.saturating_add(1));
    }

    /// Ends the family.
    pub(in crate::auth_server) fn end(&mut self) {
        self.revoked = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_comes_again_ends_its_family() {
        let mut family = Family::default();
        assert_eq!(family.check(1), Use::First);
        family.used(1);
        assert_eq!(family.check(2), Use::First);
        family.used(2);
        assert_eq!(family.check(1), Use::Reused);
        assert_eq!(family.check(3), Use::Ended, "whoever has the newest one");
        // Another replica went on meanwhile.
        let mut family = Family::default();
        assert_eq!(family.check(7), Use::First);
        family.used(7);
        assert_eq!(family.check(8), Use::First);
    }

    #[test]
    fn the_same_token_gets_the_same_answer_for_a_moment() {
        let families = Families::default();
        families.answered([1; 16], 3, "answer");
        assert_eq!(families.repeated([1; 16], 3).as_deref(), Some("answer"));
        assert_eq!(families.repeated([1; 16], 2), None);
        assert_eq!(families.repeated([2; 16], 3), None);
    }
}
