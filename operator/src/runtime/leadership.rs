//! Who may write.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Whether this replica holds the lease, as far as it can know without asking: until when it may write.
#[derive(Debug, Clone, Default)]
pub struct Leadership(Arc<Mutex<Option<Instant>>>);

impl Leadership {
    /// For an operator that runs alone, without a lease.
    pub fn alone() -> Self {
        let leadership = Self::default();
        leadership.extend(Duration::from_hours(1_000_000));
        leadership
    }

    /// Whether this replica may write now. A process that was stopped for a while finds out here.
    pub fn holds(&self) -> bool {
        self.0.lock().is_some_and(|until| Instant::now() < until)
    }

    pub(super) fn extend(&self, by: Duration) {
        *self.0.lock() = Instant::now().checked_add(by);
    }

    pub(super) fn end(&self) {
        *self.0.lock() = None;
    }
}
