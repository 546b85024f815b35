//! [`ByteBudget`]: one limit on the bytes of all request bodies and answers in memory.
//!
//! Each body has its own limit, but many bodies at once would still exhaust the memory of a small pod. Bytes
//! are counted as they arrive, not as a header announces them: an announcement costs its sender nothing.
//! No caller waits for room, because a waiting caller holds memory too.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

/// Counter of held bytes with a limit. Clones share the counter.
#[derive(Clone, Debug)]
pub struct ByteBudget(Arc<Counters>);

#[derive(Debug)]
struct Counters {
    held: AtomicUsize,
    limit: AtomicUsize,
}

/// More bytes would be held than [`ByteBudget::limit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bodies in memory are at their limit of {limit} bytes (server.maxBufferedBytes)")]
pub struct ByteBudgetExhausted {
    /// The limit, in bytes.
    pub limit: usize,
}

impl ByteBudget {
    /// Creates a budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Counters { held: AtomicUsize::new(0), limit: AtomicUsize::new(limit) }))
    }

    /// Replaces the limit. Bytes already held beyond a smaller one stay; no more are admitted.
    pub fn set_limit(&self, limit: usize) {
        self.0.limit.store(limit, Ordering::Relaxed);
    }

    /// Returns the limit, in bytes.
    pub fn limit(&self) -> usize {
        self.0.limit.load(Ordering::Relaxed)
    }

    /// Returns the bytes held at present.
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// Begins to count one body, which holds nothing yet.
    pub fn begin(&self) -> HeldBytes {
        HeldBytes { budget: self.clone(), bytes: 0 }
    }
}

impl Default for ByteBudget {
    /// Creates a budget without a limit.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

/// The part of a [`ByteBudget`] that one body holds; given back when dropped.
#[derive(Debug)]
pub struct HeldBytes {
    budget: ByteBudget,
    bytes: usize,
}

impl HeldBytes {
    /// Counts `more` bytes, unless the budget would be exceeded.
    pub fn try_add(&mut self, more: usize) -> Result<(), ByteBudgetExhausted> {
        let Counters { held, limit } = &*self.budget.0;
        let limit = limit.load(Ordering::Relaxed);
        let within = |held: usize| held.checked_add(more).filter(|sum| *sum <= limit);
        held.try_update(Ordering::Relaxed, Ordering::Relaxed, within)
            .map_err(|_| ByteBudgetExhausted { limit })?;
        self.bytes += more;
        Ok(())
    }

    /// Counts `more` bytes that are in memory already, beyond the limit if need be, so that later bodies are
    /// refused.
    pub fn add(&mut self, more: usize) {
        self.budget.0.held.fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
    }

    /// Returns the budget of which this is a part.
    pub fn budget(&self) -> &ByteBudget {
        &self.budget
    }

    /// Returns the bytes counted here.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Ties this count to `bytes`: it is given back with the last reference to them.
    pub fn attach_to(self, bytes: Bytes) -> Bytes {
        if bytes.is_empty() { bytes } else { Bytes::from_owner(CountedBytes { bytes, _held: self }) }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.budget.0.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Owner of the bytes that [`HeldBytes::attach_to`] returns.
struct CountedBytes {
    bytes: Bytes,
    _held: HeldBytes,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_share_one_limit_and_give_back_what_they_held() {
        let budget = ByteBudget::new(10);
        let (mut one, mut other) = (budget.begin(), budget.begin());
        assert_eq!(one.try_add(6), Ok(()));
        assert_eq!(other.try_add(5), Err(ByteBudgetExhausted { limit: 10 }));
        assert_eq!(other.try_add(4), Ok(()));
        drop(one);
        assert_eq!((budget.held(), other.bytes()), (4, 4));
        other.add(20);
        assert_eq!(budget.begin().try_add(1), Err(ByteBudgetExhausted { limit: 10 }));
        drop(other);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn attached_bytes_count_until_the_last_reference_is_gone() {
        let budget = ByteBudget::default();
        let mut held = budget.begin();
        held.add(5);
        let bytes = held.attach_to(Bytes::from_static(b"hello"));
        let part = bytes.slice(1..3);
        drop(bytes);
        assert_eq!((&part[..], budget.held()), (&b"el"[..], 5));
        drop(part);
        assert_eq!(budget.held(), 0);
    }
}
