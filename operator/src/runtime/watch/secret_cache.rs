//! A cache of Secret values: each Secret is read once for each version of it.
//!
//! The watch brings the metadata of every Secret and none of the data, so that the operator holds no value
//! that no resource names.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;

/// The data of one Secret.
pub(crate) type SecretData = Arc<BTreeMap<String, ByteString>>;

/// Values that were read, by (namespace, name), each with the resource version that it was read at.
#[derive(Default)]
pub(crate) struct SecretCache(Mutex<HashMap<(String, String), (String, SecretData)>>);

impl SecretCache {
    /// Returns the data if it was read at this very version.
    pub(crate) fn get(&self, secret: &(String, String), version: &str) -> Option<SecretData> {
        let cache = self.0.lock();
        let (known, data) = cache.get(secret)?;
        (known == version).then(|| data.clone())
    }

    /// Stores what was read, in place of an older version.
    pub(crate) fn insert(&self, secret: (String, String), version: String, data: SecretData) {
        self.0.lock().insert(secret, (version, data));
    }

    /// Drops the values of a Secret that is gone.
    pub(crate) fn remove(&self, secret: &(String, String)) {
        self.0.lock().remove(secret);
    }
}

/// Drops everything of a Secret's metadata that is not needed to notice a change.
pub(super) fn trim(secret: &mut PartialObjectMeta<Secret>) {
    let meta = &mut secret.metadata;
    (meta.annotations, meta.labels, meta.owner_references) = (None, None, None);
}
