//! [`SessionListingCount`]: whether any client session sees definitions of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of sessions with a listing of their own, at all backends that share one value.
#[derive(Clone, Debug, Default)]
pub struct SessionListingCount(Arc<AtomicUsize>);

impl SessionListingCount {
    /// True if no backend has a listing for any session.
    pub fn is_zero(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Records that one backend had `before` listings and has `now`.
    pub(crate) fn change(&self, before: usize, now: usize) {
        // A decrease is the addition of a number that wraps around.
        self.0.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }
}
