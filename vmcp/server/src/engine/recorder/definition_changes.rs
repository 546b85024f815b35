//! Change events: compares each new listing of a backend with the stored hashes of its tools, and logs,
//! counts and records every added, updated and removed definition.
//!
//! The first listing of a backend is no change. A rug pull, a tool whose definition changes after it was
//! trusted, shows up here as an update with the hash before and after.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use vmcp_config::status::DefinitionChanges;
use vmcp_model::discovered::Discovered;
use vmcp_store::{ChangeKind, RecordedChange, Store, StoreError};

use crate::telemetry::metrics::{ChangeLabels, Metrics};

/// A listing that is not compared with the store yet.
#[derive(Clone)]
pub(in crate::engine) struct ChangedListing {
    pub(in crate::engine) backend: Arc<str>,
    pub(in crate::engine) fingerprint: String,
    pub(in crate::engine) discovered: Arc<Discovered>,
}

impl ChangedListing {
    fn hashes(&self) -> HashMap<&str, String> {
        self.discovered.tools.iter().map(|tool| (tool.name.as_str(), tool.hash.to_string())).collect()
    }
}

/// Stored hashes of a backend's tools, by the backend's own tool names.
pub(in crate::engine) type KnownHashes = HashMap<String, String>;

pub(in crate::engine) fn known(store: &Store, backend: &str) -> Result<KnownHashes, StoreError> {
    Ok(store.schema_hashes(backend)?.into_iter().map(|known| (known.tool, known.hash)).collect())
}

/// Compares a listing with the stored hashes; returns the events, sorted by tool, and their counts. `removed`
/// has the last hashes of tools that were removed: one that comes back changed counts as updated.
pub(in crate::engine) fn compare(
    known: &KnownHashes,
    removed: &KnownHashes,
    listing: &ChangedListing,
    at: SystemTime,
) -> (Vec<RecordedChange>, DefinitionChanges) {
    let hashes = listing.hashes();
    let change = |tool: &str, kind, before: Option<&String>, after: Option<&String>| RecordedChange {
        backend: listing.backend.to_string(),
        tool: tool.to_owned(),
        kind,
        before: before.cloned(),
        after: after.cloned(),
        at: milliseconds(at),
    };
    let offered = hashes.iter().filter_map(|(tool, hash)| match known.get(*tool) {
        Some(before) if before == hash => None,
        Some(before) => Some(change(tool, ChangeKind::Updated, Some(before), Some(hash))),
        None => match removed.get(*tool) {
            Some(before) if before != hash => {
                Some(change(tool, ChangeKind::Updated, Some(before), Some(hash)))
            }
            _ => Some(change(tool, ChangeKind::Added, None, Some(hash))),
        },
    });
    let gone = known.iter().filter(|(tool, _)| !hashes.contains_key(tool.as_str()));
    let gone = gone.map(|(tool, before)| change(tool, ChangeKind::Removed, Some(before), None));
    let mut events: Vec<RecordedChange> = offered.chain(gone).collect();
    events.sort_by(|one, other| one.tool.cmp(&other.tool));
    let count = |kind| events.iter().filter(|event| event.kind == kind).count();
    let (added, updated) = (count(ChangeKind::Added), count(ChangeKind::Updated));
    let removed = count(ChangeKind::Removed);
    (
        events,
        DefinitionChanges {
            added,
            updated,
            removed,
            unchanged: hashes.len() - added - updated,
            at: Some(at),
        },
    )
}

/// Compares a listing with the stored hashes of its backend, reports the changes to log and metrics, and
/// stores the listing. Blocks.
pub(in crate::engine) fn record(
    store: &Store,
    listing: &ChangedListing,
    metrics: &Metrics,
) -> Result<DefinitionChanges, StoreError> {
    let ChangedListing { backend, fingerprint, discovered } = listing;
    let known = known(store, backend)?;
    let at = SystemTime::now();
    // A backend that was listed before and offered nothing is no new one: its next tools are changes.
    let is_new = known.is_empty() && !store.has_definitions(backend)?;
    let removed = if is_new { KnownHashes::new() } else { store.removed_hashes(backend)? };
    let (events, changes) = compare(&known, &removed, listing, at);
    let now = milliseconds(at);
    if is_new {
        // The first listing: nothing to compare with.
        tracing::info!(backend = %backend, tools = changes.added, "tools discovered");
    } else {
        announce(&events, metrics);
        store.record_changes(&events)?;
    }
    let hashes = listing.hashes();
    store.set_schema_hashes(backend, hashes.iter().map(|(tool, hash)| (*tool, hash.as_str())), now)?;
    if changes.removed > 0 {
        store.retain_tools(backend, &hashes.keys().copied().collect::<Vec<_>>())?;
    }
    store.save_definitions(backend, fingerprint, &discovered.to_json(), now)?;
    Ok(changes)
}

fn announce(changes: &[RecordedChange], metrics: &Metrics) {
    for RecordedChange { backend, tool, kind, before, after, .. } in changes {
        let (old, new) = (before.as_deref().unwrap_or("-"), after.as_deref().unwrap_or("-"));
        tracing::info!(server = backend, tool, change = kind.as_str(), old, new, "tool changed");
        let labels = ChangeLabels { backend: backend.clone(), change: kind.as_str() };
        metrics.catalog_changes.get_or_create(&labels).inc();
    }
}

/// Returns milliseconds since the Unix epoch.
pub(in crate::engine) fn milliseconds(at: SystemTime) -> i64 {
    at.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;
    use vmcp_model::discovered::Listing;

    fn listing(tools: &[(&str, &str)]) -> ChangedListing {
        let tool = |(name, description): &(&str, &str)| {
            RawValue::from_string(format!(r#"{{"name":"{name}","description":"{description}"}}"#)).unwrap()
        };
        let tools = tools.iter().map(tool).collect();
        let discovered = Arc::new(Discovered::read(Listing { tools, ..Listing::default() }));
        ChangedListing { backend: "jira".into(), fingerprint: "f".into(), discovered }
    }

    #[test]
    fn counts_follow_from_the_stored_hashes() {
        let (store, metrics) = (Store::in_memory().unwrap(), Metrics::new());
        let counts = |listing: &ChangedListing| {
            let changes = record(&store, listing, &metrics).unwrap();
            (changes.added, changes.updated, changes.removed, changes.unchanged)
        };
        assert_eq!(counts(&listing(&[("a", "1"), ("b", "1"), ("c", "1")])), (3, 0, 0, 0));
        assert!(store.changes(10).unwrap().is_empty(), "the first listing is no change");
        assert_eq!(counts(&listing(&[("a", "1"), ("b", "2"), ("d", "1")])), (1, 1, 1, 1));
        let kinds: Vec<_> =
            store.changes(10).unwrap().into_iter().map(|change| (change.tool, change.kind)).collect();
        assert!(kinds.contains(&("b".into(), ChangeKind::Updated)), "{kinds:?}");
        assert_eq!(kinds.len(), 3);
        assert_eq!(counts(&listing(&[("a", "1"), ("b", "2"), ("d", "1")])), (0, 0, 0, 3));
        assert!(store.schema_hash("jira", "c").unwrap().is_none(), "removed tools are forgotten");
        assert!(store.definitions("jira", "f").unwrap().is_some());
        assert!(
            metrics.encode().contains(r#"vmcp_catalog_changes_total{backend="jira",change="updated"} 1"#)
        );
    }

    #[test]
    fn a_tool_that_comes_back_changed_after_an_empty_list_is_an_update() {
        let (store, metrics) = (Store::in_memory().unwrap(), Metrics::new());
        let trusted = listing(&[("a", "trusted"), ("b", "kept")]);
        record(&store, &trusted, &metrics).unwrap();
        assert_eq!(record(&store, &listing(&[]), &metrics).unwrap().removed, 2);
        let changes = record(&store, &listing(&[("a", "poisoned"), ("b", "kept")]), &metrics).unwrap();
        assert_eq!((changes.updated, changes.added), (1, 1));
        let recorded = store.changes(10).unwrap();
        let updated = recorded.iter().find(|change| change.kind == ChangeKind::Updated).unwrap();
        assert_eq!(updated.before.as_deref(), Some(trusted.hashes()["a"].as_str()));
        assert!(
            metrics.encode().contains(r#"vmcp_catalog_changes_total{backend="jira",change="updated"} 1"#)
        );
    }

    #[test]
    fn tools_after_an_empty_first_listing_are_changes() {
        let (store, metrics) = (Store::in_memory().unwrap(), Metrics::new());
        record(&store, &listing(&[]), &metrics).unwrap();
        record(&store, &listing(&[("a", "1")]), &metrics).unwrap();
        assert_eq!(store.changes(10).unwrap().len(), 1);
    }
}
