//! Cache of tokens by subject: LRU, single flight for each subject, renewal ahead of expiry.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;
use vmcp_config::Secret;

use super::OutgoingError;

/// Subjects of one backend whose tokens are kept; one more evicts the least recently used.
const MAX_SUBJECTS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
/// Longest time before its expiry at which a token is renewed; at most a fifth of its life.
const MAX_SKEW: Duration = Duration::from_mins(1);
/// Life of a token whose provider names none.
const DEFAULT_LIFE: Duration = Duration::from_mins(5);
/// Longest time for which a token is kept, whatever its provider says.
const MAX_LIFE: Duration = Duration::from_hours(24);
/// Interval in which a failure is the answer to all callers: they waited for the same request.
const FAILURE_LIFE: Duration = Duration::from_secs(2);
/// Shortest interval between two renewals because of refusals: a backend that refuses every token must not
/// make vmcp flood the provider.
const MIN_RENEWAL_INTERVAL: Duration = Duration::from_secs(10);

/// The key of a subject; the default is vmcp's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SubjectKey {
    /// Digest of the identity.
    pub(super) identity: [u8; 32],
    /// Digest of the identity's token, which may have narrower rights than another one of it.
    pub(super) token: [u8; 32],
}

/// A token as its provider gave it.
#[derive(Clone, Debug)]
pub(super) struct FetchedToken {
    pub(super) token: Secret,
    /// The rest of its life; `None`: not told.
    pub(super) life: Option<Duration>,
}

/// Tokens of one backend.
pub(super) struct TokenCache(Mutex<LruCache<SubjectKey, Arc<tokio::sync::Mutex<Slot>>>>);

/// The token of one subject.
#[derive(Default)]
struct Slot {
    token: Option<CachedToken>,
    failure: Option<(Instant, OutgoingError)>,
    /// Time of the last renewal because of a refusal.
    renewed: Option<Instant>,
}

struct CachedToken {
    token: Secret,
    renew_at: Instant,
    expires: Instant,
}

impl Default for TokenCache {
    fn default() -> Self {
        Self(Mutex::new(LruCache::sparse(MAX_SUBJECTS)))
    }
}

impl std::fmt::Debug for TokenCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenCache").field("subjects", &self.0.lock().len()).finish()
    }
}

impl TokenCache {
    /// Returns the token of a subject; fetches a missing one, one about to expire, or the `refused` one,
    /// which `fetch` is told. A failing renewal keeps a valid token.
    pub(super) async fn token<Fetch: Future<Output = Result<FetchedToken, OutgoingError>> + Send>(
        &self,
        key: SubjectKey,
        refused: Option<&str>,
        fetch: impl FnOnce(bool) -> Fetch + Send,
    ) -> Result<Secret, OutgoingError> {
        let slot = Arc::clone(self.0.lock().get_or_insert(key, Arc::default));
        // Single flight: further callers wait here, and find the first caller's result.
        let mut slot = slot.lock().await;
        let now = Instant::now();
        let is_refused = refused.is_some_and(|refused| slot.is_renewable(refused, now));
        if is_refused {
            slot.token = None;
            slot.renewed = Some(now);
        }
        if let Some(cached) = slot.token.as_ref().filter(|cached| now < cached.renew_at) {
            return Ok(cached.token.clone());
        }
        if let Some((since, error)) = &slot.failure
            && now.duration_since(*since) < FAILURE_LIFE
        {
            return slot.still_valid(now).ok_or_else(|| error.clone());
        }
        match fetch(is_refused).await {
            Ok(fetched) => {
                slot.failure = None;
                let life = fetched.life.unwrap_or(DEFAULT_LIFE).min(MAX_LIFE);
                // Counted from before the request: the answer took its time.
                let skew = (life / 5).min(MAX_SKEW);
                let (renew_at, expires) = (now + life.saturating_sub(skew), now + life);
                slot.token = Some(CachedToken { token: fetched.token.clone(), renew_at, expires });
                Ok(fetched.token)
            }
            Err(error) => {
                slot.failure = Some((Instant::now(), error.clone()));
                slot.still_valid(now).ok_or(error)
            }
        }
    }
}

impl TokenCache {
    /// Returns the rest of the life of each token of an identity; a token that is being fetched is left out.
    pub(super) fn lives(&self, identity: &[u8; 32]) -> Vec<Duration> {
        let now = Instant::now();
        let slots: Vec<_> = {
            let known = self.0.lock();
            let of_identity = known.iter().filter(|(key, _)| key.identity == *identity);
            of_identity.map(|(_, slot)| Arc::clone(slot)).collect()
        };
        let life = |slot: &Arc<tokio::sync::Mutex<Slot>>| {
            let expires = slot.try_lock().ok()?.token.as_ref()?.expires;
            expires.checked_duration_since(now).filter(|life| !life.is_zero())
        };
        slots.iter().filter_map(life).collect()
    }

    /// Forgets the tokens of an identity, and returns how many places it had. The next call fetches again.
    pub(super) fn forget(&self, identity: &[u8; 32]) -> usize {
        let mut known = self.0.lock();
        let keys: Vec<_> = known.iter().map(|(key, _)| *key).collect();
        keys.iter().filter(|key| key.identity == *identity && known.pop(*key).is_some()).count()
    }
}

impl Slot {
    /// True if `refused` is the present token, and may be replaced already.
    fn is_renewable(&self, refused: &str, now: Instant) -> bool {
        let is_present = self.token.as_ref().is_some_and(|cached| cached.token.expose() == refused);
        let is_due = self.renewed.is_none_or(|renewed| now.duration_since(renewed) >= MIN_RENEWAL_INTERVAL);
        is_present && is_due
    }

    fn still_valid(&self, now: Instant) -> Option<Secret> {
        self.token.as_ref().filter(|cached| now < cached.expires).map(|cached| cached.token.clone())
    }
}
