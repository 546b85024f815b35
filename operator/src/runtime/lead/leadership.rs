//! Permission to write, with its end: a leader may write until its lease could expire, and not a moment
//! longer.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Until when this replica may write, as far as it can know without asking the API server; `None` if it does
/// not lead.
#[derive(Debug, Clone, Default)]
pub struct Leadership(Arc<Mutex<Option<Instant>>>);

impl Leadership {
    /// Returns the permission of an operator that runs alone, without a Lease: it does not end.
    pub fn alone() -> Self {
        let leadership = Self::default();
        leadership.extend(Duration::from_hours(1_000_000));
        leadership
    }

    /// Returns true if this replica may write now. False also for a process that was suspended past the end
    /// of its lease.
    pub fn holds(&self) -> bool {
        self.remaining().is_some()
    }

    /// Returns the time for which this replica may write for certain: a write that takes longer could meet
    /// those of the next leader. `None` if it may not write now.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let until = (*self.0.lock())?;
        until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    /// Permits writes for this time from now on.
    pub(super) fn extend(&self, by: Duration) {
        *self.0.lock() = Instant::now().checked_add(by);
    }

    /// Forbids writes from now on.
    pub(super) fn end(&self) {
        *self.0.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_permission_ends_with_the_lease() {
        let leadership = Leadership::default();
        assert_eq!(leadership.remaining(), None);
        leadership.extend(Duration::from_secs(15));
        let left = leadership.remaining().expect("a lease");
        assert!(left <= Duration::from_secs(15) && left > Duration::from_secs(5), "{left:?}");
        leadership.extend(Duration::ZERO);
        assert!(!leadership.holds());
        leadership.extend(Duration::from_secs(15));
        leadership.end();
        assert_eq!(leadership.remaining(), None);
    }
}
