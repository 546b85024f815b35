//! Time of the last call, kept without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time of the last call of a backend.
#[derive(Debug)]
pub(crate) struct LastUse {
    start: Instant,
    /// Milliseconds from `start` to the last call.
    at: AtomicU64,
}

impl Default for LastUse {
    fn default() -> Self {
        Self { start: Instant::now(), at: AtomicU64::new(0) }
    }
}

impl LastUse {
    /// Records a call.
    pub(crate) fn touch(&self) {
        self.at.store(self.millis(), Ordering::Relaxed);
    }

    /// Returns the time since the last call.
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_millis(self.millis().saturating_sub(self.at.load(Ordering::Relaxed)))
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
