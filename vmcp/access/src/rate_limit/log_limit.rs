//! [`LogLimit`]: rate limit of log lines, so that a cause that repeats does not fill the log.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// One log line for each key in each interval. Keys are of a small fixed set: each is kept.
#[derive(Debug)]
pub struct LogLimit<K = ()> {
    interval: Duration,
    /// By key, the time of the last line and the number of lines left out since.
    lines: Mutex<HashMap<K, (Instant, u64)>>,
}

impl<K: Eq + Hash> LogLimit<K> {
    /// Limits lines to one in `interval`.
    pub fn new(interval: Duration) -> LogLimit<K> {
        LogLimit { interval, lines: Mutex::default() }
    }

    /// Returns the number of lines that were left out since the last line if this line is to be logged;
    /// `None` leaves it out.
    pub fn admit(&self, key: K, now: Instant) -> Option<u64> {
        match self.lines.lock().entry(key) {
            Entry::Vacant(entry) => {
                entry.insert((now, 0));
                Some(0)
            }
            Entry::Occupied(mut entry) => {
                let (logged, left_out) = entry.get_mut();
                if now.saturating_duration_since(*logged) < self.interval {
                    *left_out += 1;
                    return None;
                }
                *logged = now;
                Some(std::mem::take(left_out))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_an_interval_counts_those_left_out() {
        let (interval, start) = (Duration::from_secs(1), Instant::now());
        let limit = LogLimit::new(interval);
        assert_eq!(limit.admit("a", start), Some(0));
        assert_eq!(limit.admit("a", start), None);
        assert_eq!(limit.admit("a", start + interval / 2), None);
        assert_eq!(limit.admit("b", start + interval / 2), Some(0), "another cause");
        assert_eq!(limit.admit("a", start + interval), Some(2));
        assert_eq!(limit.admit("a", start + interval), None);
    }
}
