//! The recorder: one task that writes the conductor's news to the cache, one entry after another, so that no
//! snapshot waits for the disk.

pub(super) mod definition_changes;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc;
use vmcp_config::Config;

use super::shared::Shared;
use definition_changes::{ChangedListing, milliseconds};

/// Entries that wait for the disk; beyond it the conductor waits.
const MAX_WAITING: usize = 64;
/// A backend that is not configured here is forgotten once no process has listed or embedded it for this
/// long: several processes with different configurations may share the cache.
const UNUSED_RETENTION: Duration = Duration::from_hours(30 * 24);

/// An entry for the recorder.
pub(super) enum RecorderEntry {
    /// A backend was listed.
    Listing(ChangedListing),
    /// A configuration came into force.
    Configuration(BackendNames),
}

/// The backends of a configuration, disabled ones included.
#[derive(Clone)]
pub(super) struct BackendNames {
    configured: Vec<Arc<str>>,
    /// Configured before, and no longer.
    removed: Vec<Arc<str>>,
}

impl BackendNames {
    /// Compares the configuration that came into force with the one `before` it.
    pub(super) fn new(before: &Config, after: &Config) -> BackendNames {
        let names = |config: &Config| -> Vec<Arc<str>> {
            config.backends.iter().map(|backend| Arc::clone(&backend.name)).collect()
        };
        let configured = names(after);
        let removed = names(before).into_iter().filter(|name| !configured.contains(name)).collect();
        BackendNames { configured, removed }
    }
}

/// Starts the recorder, which ends when the returned sender is dropped.
pub(super) fn start(shared: Arc<Shared>) -> mpsc::Sender<RecorderEntry> {
    let (sender, records) = mpsc::channel(MAX_WAITING);
    tokio::spawn(run(shared, records));
    sender
}

async fn run(shared: Arc<Shared>, mut records: mpsc::Receiver<RecorderEntry>) {
    while let Some(record) = records.recv().await {
        match record {
            RecorderEntry::Listing(listing) => record_listing(&shared, listing).await,
            // Listings of a removed backend were sent before this entry, so that none brings its rows back.
            RecorderEntry::Configuration(names) => forget_backends(&shared, names).await,
        }
    }
}

async fn record_listing(shared: &Arc<Shared>, listing: ChangedListing) {
    let (backend, metrics) = (Arc::clone(&listing.backend), Arc::clone(&shared.metrics));
    let recorded = shared.store(move |store| definition_changes::record(store, &listing, &metrics)).await;
    if let Some(changes) = recorded {
        shared.note(backend, changes);
    }
}

/// Deletes from the cache the backends that the new configuration dropped, and those that no process uses any
/// more.
async fn forget_backends(shared: &Arc<Shared>, names: BackendNames) {
    shared.changes().retain(|backend, _| !names.removed.contains(backend));
    let unused_since = milliseconds(SystemTime::now() - UNUSED_RETENTION);
    let forgotten = shared.store(move |store| {
        let removed: Vec<&str> = names.removed.iter().map(AsRef::as_ref).collect();
        let configured: Vec<&str> = names.configured.iter().map(AsRef::as_ref).collect();
        let mut vectors = if removed.is_empty() { 0 } else { store.forget_backends(&removed)? };
        // A configuration without backends says nothing about which ones are wanted.
        if !configured.is_empty() {
            vectors += store.retain_backends(&configured, unused_since)?;
        }
        Ok(vectors)
    });
    if let Some(vectors @ 1..) = forgotten.await {
        tracing::info!(vectors, "embeddings of removed backends deleted from the cache");
    }
}
