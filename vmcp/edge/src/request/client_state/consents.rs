//! [`Consents`]: the user's yes to a call that goes on in another request. A backend that asks a question of
//! its own answers the call before it is done; the client repeats the request with a sealed state, which
//! names the consent. A consent is taken once, in the process that heard the yes: another use of the state,
//! or another process, asks the user again.

use parking_lot::Mutex;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use lru::LruCache;
use vmcp_engine::random::random;

/// Most consents that wait for their request; one more drops the oldest, whose user is asked again.
const MAX_CONSENTS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// Names a consent in a sealed state.
pub(crate) type ConsentId = [u8; 16];

/// The consents of this process that no request has taken yet.
pub(crate) struct Consents(Mutex<LruCache<ConsentId, (Box<str>, Instant)>>);

impl Default for Consents {
    fn default() -> Self {
        // Grows with its entries: most processes never have one.
        Self(Mutex::new(LruCache::unbounded()))
    }
}

impl Consents {
    /// Keeps the consent to a call of a tool for `lifetime`.
    pub(crate) fn keep(&self, tool: Box<str>, lifetime: Duration) -> ConsentId {
        let id = random();
        let mut consents = self.0.lock();
        consents.put(id, (tool, Instant::now() + lifetime));
        if consents.len() > MAX_CONSENTS.get() {
            consents.pop_lru();
        }
        id
    }

    /// Takes a consent: the tool that the user has allowed. `None` if it was taken before, has expired, or
    /// was given in another process.
    pub(crate) fn take(&self, id: &ConsentId) -> Option<Box<str>> {
        let (tool, until) = self.0.lock().pop(id)?;
        (Instant::now() < until).then_some(tool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consent_counts_once_and_for_its_time() {
        let consents = Consents::default();
        let id = consents.keep("pay".into(), Duration::from_mins(1));
        assert_eq!(Consents::default().take(&id), None, "in another process");
        assert_eq!(consents.take(&id).as_deref(), Some("pay"));
        assert_eq!(consents.take(&id), None, "a second time");
        let expired = consents.keep("pay".into(), Duration::ZERO);
        assert_eq!(consents.take(&expired), None);
        for _ in 0..=MAX_CONSENTS.get() {
            consents.keep("pay".into(), Duration::from_mins(1));
        }
        assert_eq!(consents.0.lock().len(), MAX_CONSENTS.get());
    }
}
