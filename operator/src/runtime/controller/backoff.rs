//! Exponential backoff by object: the pause doubles with each failure in a row, from 0.5 s up to 2 min.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;

/// The pause after the first failure.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_mins(2);
/// The longest pause if the failure is in the status, which should soon say that it is over.
pub(super) const MAX_PAUSE_IN_STATUS: Duration = Duration::from_secs(20);

/// Returns the pause after this many failures in a row.
pub(super) fn pause(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(MAX_PAUSE)
}

/// Failures in a row, by object (namespace, name).
#[derive(Default)]
pub(super) struct FailureCounts(Mutex<HashMap<(String, String), u32>>);

impl FailureCounts {
    /// Counts a failure of the object; returns how many there were in a row.
    pub(super) fn count(&self, object: &(String, String)) -> u32 {
        let mut failures = self.0.lock();
        let count = failures.entry(object.clone()).or_default();
        *count = count.saturating_add(1);
        *count
    }

    /// Starts over after a success, or drops an object that is gone.
    pub(super) fn forget(&self, object: &(String, String)) {
        self.0.lock().remove(object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_cap() {
        assert_eq!(pause(1), FIRST_PAUSE);
        assert_eq!(pause(3), FIRST_PAUSE * 4);
        assert_eq!(pause(1000), MAX_PAUSE);
    }
}
