//! [`AnswerCache`]: the latest answers by their URLs, LRU with a time to live.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use lru::LruCache;
use parking_lot::Mutex;

use crate::answers::FoundTools;

/// Answers that are kept; beyond it, the least recently used one is dropped.
const MAX_ANSWERS: NonZeroUsize = NonZeroUsize::new(20).unwrap();
/// Age at which an answer is fetched again, because tools come and go.
const TIME_TO_LIVE: Duration = Duration::from_mins(1);

/// The latest answers.
pub(crate) struct AnswerCache(Mutex<LruCache<String, (Instant, FoundTools)>>);

impl Default for AnswerCache {
    fn default() -> Self {
        AnswerCache(Mutex::new(LruCache::sparse(MAX_ANSWERS)))
    }
}

impl AnswerCache {
    /// Returns the answer of a URL, unless it is too old at `now`.
    pub(crate) fn get(&self, url: &str, now: Instant) -> Option<FoundTools> {
        let mut answers = self.0.lock();
        let (since, found) = answers.get(url)?;
        (now.duration_since(*since) < TIME_TO_LIVE).then(|| found.clone())
    }

    /// Keeps the answer of a URL.
    pub(crate) fn put(&self, url: String, now: Instant, found: FoundTools) {
        self.0.lock().put(url, (now, found));
    }

    /// Forgets all answers.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_kept_for_a_minute_and_twenty_of_them() {
        let (cache, now) = (AnswerCache::default(), Instant::now());
        for number in 0..21 {
            cache.put(number.to_string(), now, FoundTools::default());
        }
        assert!(cache.get("0", now).is_none(), "the first one made room");
        assert!(cache.get("1", now + Duration::from_secs(59)).is_some());
        assert!(cache.get("1", now + TIME_TO_LIVE).is_none());
        cache.clear();
        assert!(cache.get("20", now).is_none());
    }
}
