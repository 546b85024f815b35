//! Fields that the API server stores differently from how they were applied: `1000m` of CPU comes back as
//! `1`.
//!
//! Without this memory such a child would always differ from the desired object and be written at every
//! reconcile. Only digests are kept; after a restart each such child is written once again.

use parking_lot::Mutex;
use std::collections::HashMap;

use super::ChildKind;

/// A child: its owner's uid, its kind and its name.
pub(crate) type ChildKey = (String, ChildKind, String);

/// The digests of the desired object and of the stored object, for children whose stored object differs.
#[derive(Default)]
pub(crate) struct NormalizedFields(Mutex<HashMap<ChildKey, Digests>>);

/// The digests of one child.
struct Digests {
    desired: String,
    stored: String,
}

impl NormalizedFields {
    /// Returns true if the API server has stored `desired` as `stored`, both given by their digests.
    pub(crate) fn holds(&self, child: &ChildKey, desired: &str, stored: &str) -> bool {
        let known = self.0.lock();
        known.get(child).is_some_and(|digests| digests.desired == desired && digests.stored == stored)
    }

    /// Remembers the stored form of `desired`; `None` if the API server stored every field as it was applied.
    pub(crate) fn remember(&self, child: ChildKey, desired: String, stored: Option<String>) {
        let mut known = self.0.lock();
        match stored {
            Some(stored) => known.insert(child, Digests { desired, stored }),
            None => known.remove(&child),
        };
    }

    /// Forgets the children of an owner that is gone.
    pub(crate) fn forget(&self, owner: &str) {
        self.0.lock().retain(|(uid, _, _), _| uid != owner);
    }
}
