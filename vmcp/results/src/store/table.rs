//! The table of results: sizes, expiries, order of use. Decides which results go.

use std::collections::HashMap;
use std::sync::Arc;

use lru::LruCache;

use super::{Bounds, Key, MAX_RESULTS_PER_OWNER, Owner, StoredResult};

/// Place of a result's content.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Memory(Arc<StoredResult>),
    File,
}

/// One result.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Digest of the owner.
    pub(super) owner: Owner,
    /// Bytes that it takes.
    pub(super) bytes: u64,
    /// Expiry, in seconds since the Unix epoch.
    pub(super) expires: u64,
    pub(super) place: Place,
}

/// Results and bytes of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Results that are kept.
    pub results: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Results that gave way to others before their time, so far.
    pub evicted: u64,
}

/// Results and bytes of one owner.
#[derive(Debug, Default, Clone, Copy)]
struct Share {
    results: usize,
    bytes: u64,
}

/// All results, in the order of their use.
#[derive(Debug)]
pub(super) struct Table {
    entries: LruCache<Key, Entry>,
    shares: HashMap<Owner, Share>,
    bytes: u64,
    evicted: u64,
}

impl Default for Table {
    fn default() -> Table {
        Table { entries: LruCache::unbounded(), shares: HashMap::new(), bytes: 0, evicted: 0 }
    }
}

impl Table {
    pub(super) fn insert(&mut self, key: Key, entry: Entry) {
        self.remove(&key);
        let share = self.shares.entry(entry.owner).or_default();
        share.results += 1;
        share.bytes += entry.bytes;
        self.bytes += entry.bytes;
        self.entries.put(key, entry);
    }

    fn remove(&mut self, key: &Key) -> Option<(Key, Entry)> {
        let entry = self.entries.pop(key)?;
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        if let Some(share) = self.shares.get_mut(&entry.owner) {
            share.results = share.results.saturating_sub(1);
            share.bytes = share.bytes.saturating_sub(entry.bytes);
            if share.results == 0 {
                self.shares.remove(&entry.owner);
            }
        }
        Some((*key, entry))
    }

    /// Returns the place of a result, which counts as used now; `None` for an unknown or expired result.
    pub(super) fn touch(&mut self, key: &Key, now: u64) -> Option<Place> {
        let entry = self.entries.get(key)?;
        (now < entry.expires).then(|| entry.place.clone())
    }

    /// Takes out the expired results.
    pub(super) fn remove_expired(&mut self, now: u64) -> Vec<(Key, Entry)> {
        let expired: Vec<Key> =
            self.entries.iter().filter(|(_, entry)| now >= entry.expires).map(|(key, _)| *key).collect();
        expired.iter().filter_map(|key| self.remove(key)).collect()
    }

    /// Takes out the least recently used results until the owner and the whole are within the bounds.
    pub(super) fn shrink(&mut self, owner: &Owner, bounds: Bounds) -> Vec<(Key, Entry)> {
        let mut removed = Vec::new();
        loop {
            let share = self.shares.get(owner).copied().unwrap_or_default();
            let oldest = if share.bytes > bounds.per_owner || share.results > MAX_RESULTS_PER_OWNER {
                self.entries.iter().rev().find(|(_, entry)| entry.owner == *owner).map(|(key, _)| *key)
            } else if self.bytes > bounds.total {
                self.entries.peek_lru().map(|(key, _)| *key)
            } else {
                None
            };
            let Some(gone) = oldest.and_then(|key| self.remove(&key)) else { break };
            self.evicted += 1;
            removed.push(gone);
        }
        removed
    }

    pub(super) fn usage(&self) -> Usage {
        Usage { results: self.entries.len() as u64, bytes: self.bytes, evicted: self.evicted }
    }
}
