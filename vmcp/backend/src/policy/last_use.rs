//! Time of the last call, kept without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time of the last call of a backend.
#[derive(Debug)]
pub(crate) struct LastUse {
    start: Instant,
    /// Milliseconds from `start` to the last call, or to the end of the last hold.
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
        self.hold(Duration::ZERO);
    }

    /// Counts as used from now on for `time`.
    pub(crate) fn hold(&self, time: Duration) {
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        // The later end counts: a call does not shorten a hold.
        self.at.fetch_max(self.millis().saturating_add(time), Ordering::Relaxed);
    }

    /// Returns the time since the last call, or since the end of the last hold.
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_millis(self.millis().saturating_sub(self.at.load(Ordering::Relaxed)))
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_does_not_shorten_a_hold() {
        let usage = LastUse::default();
        usage.hold(Duration::from_hours(1));
        usage.touch();
        assert_eq!(usage.elapsed(), Duration::ZERO);
        assert!(usage.at.load(Ordering::Relaxed) >= 3_600_000, "{usage:?}");
    }
}
