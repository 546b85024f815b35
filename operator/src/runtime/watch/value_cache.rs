//! A cache of values of Secrets or ConfigMaps: each is read once for each version of it.
//!
//! The watch brings the metadata of every object and none of the data, so that the operator holds no value
//! that no resource names. Values that no reconcile asked for in [`UNUSED`] are dropped.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::ByteString;
use kube::core::PartialObjectMeta;

/// The data of one Secret or ConfigMap.
pub(crate) type ObjectData = Arc<BTreeMap<String, ByteString>>;

/// Time after which unused values are dropped: their resource is gone, or no longer names them. A later
/// request reads the value again.
const UNUSED: Duration = Duration::from_mins(10);
/// The interval at which unused values are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);

/// Values that were read.
#[derive(Default)]
pub(crate) struct ValueCache(Mutex<Values>);

#[derive(Default)]
struct Values {
    /// By (namespace, name).
    known: HashMap<(String, String), CachedValue>,
    swept: Option<Instant>,
}

struct CachedValue {
    /// The resource version that the data were read at.
    version: String,
    data: ObjectData,
    used: Instant,
}

impl ValueCache {
    /// Returns the data if it was read at this very version.
    pub(crate) fn get(&self, secret: &(String, String), version: &str, now: Instant) -> Option<ObjectData> {
        let mut values = self.0.lock();
        values.sweep(now);
        let known = values.known.get_mut(secret).filter(|known| known.version == version)?;
        known.used = now;
        Some(known.data.clone())
    }

    /// Stores read data, in place of an older version.
    pub(crate) fn insert(&self, secret: (String, String), version: String, data: ObjectData, now: Instant) {
        self.0.lock().known.insert(secret, CachedValue { version, data, used: now });
    }

    /// Drops all values: versions say nothing any more after a restore of etcd.
    pub(crate) fn clear(&self) {
        self.0.lock().known.clear();
    }

    /// Drops the values of a Secret that is gone.
    pub(crate) fn remove(&self, secret: &(String, String)) {
        self.0.lock().known.remove(secret);
    }
}

impl Values {
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_none_or(|swept| now.duration_since(swept) >= SWEEP_INTERVAL) {
            self.known.retain(|_, known| now.duration_since(known.used) < UNUSED);
            self.swept = Some(now);
        }
    }
}

/// Drops everything of an object's metadata that is not needed to notice a change.
pub(super) fn trim<K>(object: &mut PartialObjectMeta<K>) {
    let meta = &mut object.metadata;
    (meta.annotations, meta.labels, meta.owner_references) = (None, None, None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_nobody_asks_for_are_dropped() {
        let (cache, start) = (ValueCache::default(), Instant::now());
        let key = |name: &str| ("n".to_owned(), name.to_owned());
        for name in ["used", "unused"] {
            cache.insert(key(name), "1".to_owned(), ObjectData::default(), start);
        }
        assert!(cache.get(&key("used"), "2", start).is_none(), "another version is read again");
        for minute in 1..=10 {
            let now = start + Duration::from_mins(minute);
            assert!(cache.get(&key("used"), "1", now).is_some(), "minute {minute}");
        }
        let names: Vec<_> = cache.0.lock().known.keys().map(|(_, name)| name.clone()).collect();
        assert_eq!(names, ["used"]);
    }
}
