//! [`Backlog`]: entries that wait until the one before them is written.

use std::collections::VecDeque;

use super::RecorderEntry;

/// Entries that wait one by one. Beyond it, a listing replaces the waiting ones of its backend, and
/// configurations become one: the backlog grows by no more than one entry a backend.
const MAX_SEPARATE: usize = 64;

/// Entries in the order in which they are written.
#[derive(Default)]
pub(super) struct Backlog(VecDeque<RecorderEntry>);

impl Backlog {
    /// Adds an entry at the end.
    pub(super) fn add(&mut self, entry: RecorderEntry) {
        let entry = if self.0.len() < MAX_SEPARATE { entry } else { self.merged(entry) };
        self.0.push_back(entry);
    }

    /// Takes the first entry.
    pub(super) fn next(&mut self) -> Option<RecorderEntry> {
        self.0.pop_front()
    }

    /// Removes the entries that `entry` makes superfluous; returns it with all that counts of them.
    fn merged(&mut self, entry: RecorderEntry) -> RecorderEntry {
        match entry {
            RecorderEntry::Listing(listing) => {
                let same = |other: &RecorderEntry| matches!(other, RecorderEntry::Listing(other) if other.backend == listing.backend);
                self.0.retain(|other| !same(other));
                RecorderEntry::Listing(listing)
            }
            RecorderEntry::Configuration(mut names) => {
                let before = std::mem::take(&mut self.0);
                for other in before.into_iter().rev() {
                    match other {
                        RecorderEntry::Configuration(earlier) => names = earlier.and(names),
                        other => self.0.push_front(other),
                    }
                }
                RecorderEntry::Configuration(names)
            }
            flush @ RecorderEntry::Flush(_) => flush,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::recorder::BackendNames;
    use crate::engine::snapshot::definition_changes::ChangedListing;

    fn listing(backend: &str, fingerprint: usize) -> RecorderEntry {
        let fingerprint = fingerprint.to_string();
        RecorderEntry::Listing(ChangedListing {
            backend: backend.into(),
            fingerprint,
            discovered: Arc::default(),
        })
    }

    fn configuration(configured: &[&str], removed: &[&str]) -> RecorderEntry {
        let names = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect();
        RecorderEntry::Configuration(BackendNames { configured: names(configured), removed: names(removed) })
    }

    fn drain(mut backlog: Backlog) -> Vec<String> {
        let text = |entry| match entry {
            RecorderEntry::Listing(listing) => format!("{} {}", listing.backend, listing.fingerprint),
            RecorderEntry::Flush(_) => "flush".to_owned(),
            RecorderEntry::Configuration(names) => format!("{:?} -{:?}", names.configured, names.removed),
        };
        std::iter::from_fn(|| backlog.next().map(text)).collect()
    }

    #[test]
    fn every_listing_waits_while_there_is_room() {
        let mut backlog = Backlog::default();
        for at in 0..3 {
            backlog.add(listing("s", at));
        }
        assert_eq!(drain(backlog), ["s 0", "s 1", "s 2"]);
    }

    #[test]
    fn beyond_the_limit_the_newest_entry_of_each_backend_waits() {
        let mut backlog = Backlog::default();
        backlog.add(configuration(&["s", "t"], &["gone", "back"]));
        for at in 0..1000 {
            backlog.add(listing(if at % 2 == 0 { "s" } else { "t" }, at));
        }
        assert!(backlog.0.len() <= MAX_SEPARATE, "{}", backlog.0.len());
        for _ in 0..MAX_SEPARATE {
            backlog.add(configuration(&["s", "t", "back"], &[]));
        }
        let waiting = drain(backlog);
        assert!(
            waiting.contains(&"s 998".to_owned()) && waiting.contains(&"t 999".to_owned()),
            "{waiting:?}"
        );
        assert!(waiting.contains(&r#"["s", "t", "back"] -["gone"]"#.to_owned()), "{waiting:?}");
        assert!(!waiting.iter().any(|entry| entry.contains(r#""gone", "back""#)), "{waiting:?}");
    }
}
