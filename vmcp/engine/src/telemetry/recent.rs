//! Latest log lines and calls of this process, kept in memory for `vmcp logs` and `vmcp calls`.

mod call_entry;
mod calls;
mod lines;
mod traced;

use std::collections::VecDeque;

use parking_lot::Mutex;
use serde::Serialize;

pub use self::call_entry::{CallEntry, RecentCall};
pub use self::calls::RecentCalls;
pub use self::lines::RecentLine;
pub use self::lines::{filter, layer, lines};
pub use self::traced::{TracedCall, WantedCall};

/// Entries that are kept; an older one makes room for a new one.
const MAX_ENTRIES: usize = 1000;

/// Ring buffer whose entries are numbered, so that a reader can go on behind the last one it has seen.
#[derive(Debug)]
pub struct RecentEntries<T> {
    ring: Mutex<Ring<T>>,
}

impl<T> Default for RecentEntries<T> {
    fn default() -> Self {
        RecentEntries { ring: Mutex::default() }
    }
}

#[derive(Debug)]
struct Ring<T> {
    /// Number of the next entry.
    next: u64,
    entries: VecDeque<T>,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Ring { next: 0, entries: VecDeque::new() }
    }
}

/// Entries behind a number.
#[derive(Debug, Serialize)]
pub struct Batch<T> {
    /// Number to ask behind the next time.
    pub next: u64,
    /// The entries, oldest first.
    pub entries: Vec<T>,
}

impl<T: Clone> RecentEntries<T> {
    /// Adds an entry.
    pub fn push(&self, entry: T) {
        self.push_numbered(|_| entry);
    }

    /// Adds the entry that `make` makes of its number.
    pub fn push_numbered(&self, make: impl FnOnce(u64) -> T) {
        let mut ring = self.ring.lock();
        let entry = make(ring.next);
        let oldest = if ring.entries.len() == MAX_ENTRIES { ring.entries.pop_front() } else { None };
        ring.entries.push_back(entry);
        ring.next += 1;
        drop(ring);
        // Outside of the lock, which each call takes.
        drop(oldest);
    }

    /// Returns the entries from number `after` on, as far as they are kept, that `wanted` accepts.
    pub fn since(&self, after: u64, wanted: impl Fn(&T) -> bool) -> Batch<T> {
        let ring = self.ring.lock();
        let first = ring.next - ring.entries.len() as u64;
        let skip = usize::try_from(after.saturating_sub(first)).unwrap_or(usize::MAX);
        let entries = ring.entries.iter().skip(skip).filter(|entry| wanted(entry)).cloned().collect();
        Batch { next: ring.next, entries }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_goes_on_where_it_was_and_old_entries_go() {
        let recent = RecentEntries::default();
        (0..3).for_each(|number| recent.push(number));
        let batch = recent.since(0, |_| true);
        assert_eq!((batch.next, batch.entries), (3, vec![0, 1, 2]));
        recent.push(3);
        assert_eq!(recent.since(3, |_| true).entries, [3]);
        assert_eq!(recent.since(9, |_| true).entries, [0; 0]);
        (4..2000).for_each(|number| recent.push(number));
        let all = recent.since(0, |number| number % 2 == 0);
        assert_eq!((all.next, all.entries.len(), all.entries[0]), (2000, 500, 1000));
    }
}
