//! Labels and annotations of the Service for clients and of the HTTPRoute. Load balancers, tunnels, gateways
//! and DNS controllers read them: one annotation keeps a load balancer inside of the cloud, and its removal
//! puts it on the internet. Their meaning is that of the cloud, so every change counts as a wider exposure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use vmcp_crds::fields::resource_overrides::MetadataOverrides;

/// Annotation of the object with the keys that the resource added, as JSON: others add keys, too.
const ADDED_KEYS: &str = "toolhive.stacklok.com/added-keys";

/// Keys that the resource added.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct AddedKeys {
    labels: BTreeSet<String>,
    annotations: BTreeSet<String>,
}

/// Adds an annotation with the keys that the resource adds to an object, if it adds any.
pub(super) fn record_added_keys(overrides: &MetadataOverrides, metadata: &mut ObjectMeta) {
    if *overrides == MetadataOverrides::default() {
        return;
    }
    let keys = |entries: &BTreeMap<String, String>| -> BTreeSet<String> { entries.keys().cloned().collect() };
    let added = AddedKeys { labels: keys(&overrides.labels), annotations: keys(&overrides.annotations) };
    // Strings always serialize.
    let text = serde_json::to_string(&added).unwrap_or_default();
    metadata.annotations.get_or_insert_default().insert(ADDED_KEYS.to_owned(), text);
}

/// Labels and annotations of a stored object.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::virtual_mcp_server) struct StoredMetadata {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    added: AddedKeys,
}

impl StoredMetadata {
    /// Reads the metadata of a stored object.
    pub(in crate::virtual_mcp_server) fn from_stored(metadata: ObjectMeta) -> Self {
        let annotations = metadata.annotations.unwrap_or_default();
        let added = annotations.get(ADDED_KEYS).and_then(|text| serde_json::from_str(text).ok());
        Self { labels: metadata.labels.unwrap_or_default(), annotations, added: added.unwrap_or_default() }
    }

    /// Returns the stored state of the entries that are wanted, or that the resource added before.
    pub(in crate::virtual_mcp_server) fn stored(&self, wanted: &MetadataOverrides) -> MetadataOverrides {
        MetadataOverrides {
            labels: entries(&self.labels, &self.added.labels, &wanted.labels),
            annotations: entries(&self.annotations, &self.added.annotations, &wanted.annotations),
        }
    }
}

fn entries(
    stored: &BTreeMap<String, String>,
    added: &BTreeSet<String>,
    wanted: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let keys = added.iter().chain(wanted.keys());
    keys.filter_map(|key| Some((key.clone(), stored.get(key)?.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrides(annotations: &[(&str, &str)]) -> MetadataOverrides {
        let entries = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        MetadataOverrides { annotations: entries.collect(), ..MetadataOverrides::default() }
    }

    #[test]
    fn entries_of_others_are_none_of_ours_and_a_removed_one_is_known() {
        let before = overrides(&[("scheme", "internal"), ("note", "a")]);
        let mut metadata = before.on(ObjectMeta::default());
        record_added_keys(&before, &mut metadata);
        metadata.annotations.get_or_insert_default().insert("theirs".to_owned(), "1".to_owned());
        let stored = StoredMetadata::from_stored(metadata);
        assert_eq!(stored.stored(&before), before, "nothing changes");
        assert_eq!(stored.stored(&MetadataOverrides::default()), before, "both are removed");
        let wanted = overrides(&[("scheme", "public"), ("note", "a"), ("host", "a.example")]);
        assert_eq!(stored.stored(&wanted), before, "one changes, one comes");
    }

    #[test]
    fn an_object_of_an_earlier_release_loses_nothing_that_is_wanted() {
        let wanted = overrides(&[("scheme", "internal")]);
        let stored = StoredMetadata::from_stored(wanted.on(ObjectMeta::default()));
        assert_eq!(stored.stored(&wanted), wanted);
        let mut plain = ObjectMeta::default();
        record_added_keys(&MetadataOverrides::default(), &mut plain);
        assert_eq!(plain, ObjectMeta::default(), "no record without additions");
    }
}
