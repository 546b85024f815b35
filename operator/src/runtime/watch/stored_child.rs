//! [`StoredChild`]: a child as the store keeps it.

use std::sync::atomic::{AtomicU64, Ordering};

use kube::api::{DynamicObject, ObjectMeta};
use serde::de::DeserializeOwned;

/// A child as JSON text, beside what the store itself goes by. A parsed Deployment takes 30 KiB, its text 4:
/// thousands of them are kept, and few are read.
#[derive(Debug)]
pub(super) struct StoredChild {
    pub(super) uid: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) version: u64,
    json: Box<[u8]>,
    /// The desired object that this one was compared with and found to satisfy, by its digest; 0 for none.
    satisfies: AtomicU64,
}

impl StoredChild {
    pub(super) fn from_object(object: &DynamicObject) -> Self {
        Self {
            uid: object.metadata.uid.clone(),
            namespace: object.metadata.namespace.clone(),
            version: version(&object.metadata),
            // Text, numbers and maps with text keys cannot fail to serialize.
            json: serde_json::to_vec(object).unwrap_or_default().into(),
            satisfies: AtomicU64::new(0),
        }
    }

    /// Returns true if this object is known to satisfy a desired one.
    pub(super) fn satisfies(&self, desired: u64) -> bool {
        desired != 0 && self.satisfies.load(Ordering::Relaxed) == desired
    }

    /// Remembers that this object satisfies a desired one.
    pub(super) fn set_satisfies(&self, desired: u64) {
        self.satisfies.store(desired, Ordering::Relaxed);
    }

    /// Returns the object as `T`; `None` if it is not one.
    pub(super) fn parse<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.json).ok()
    }

    pub(super) fn metadata(&self) -> ObjectMeta {
        self.parse::<DynamicObject>().map(|object| object.metadata).unwrap_or_default()
    }
}

/// Returns the resource version as a number: versions of one kind grow with each write, although older
/// documentation calls them opaque. An unreadable version counts as the oldest.
pub(super) fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}
