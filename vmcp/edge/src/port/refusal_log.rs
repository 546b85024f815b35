//! [`RefusalLog`]: one log line a second about refused requests, so that strangers do not fill the log.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Least time between two lines.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Tells which refusals are logged (rate limit of log lines).
#[derive(Debug, Default)]
pub(super) struct RefusalLog {
    /// The time of the last line, and the refusals without one since.
    last: Mutex<(Option<Instant>, u64)>,
}

impl RefusalLog {
    /// Returns how many refusals were left out since the last line if this one is to be logged; `None`
    /// leaves it out.
    pub(super) fn admit(&self, now: Instant) -> Option<u64> {
        let mut logged = self.last.lock();
        let (last, unlogged) = &mut *logged;
        if last.is_some_and(|last| now.saturating_duration_since(last) < LOG_INTERVAL) {
            *unlogged += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_counts_those_left_out() {
        let (log, start) = (RefusalLog::default(), Instant::now());
        assert_eq!(log.admit(start), Some(0));
        assert_eq!(log.admit(start), None);
        assert_eq!(log.admit(start + LOG_INTERVAL / 2), None);
        assert_eq!(log.admit(start + LOG_INTERVAL), Some(2));
    }
}
