//! The recorder: one task that writes the conductor's news to the cache, one entry after another. It takes
//! entries while it writes, so that no snapshot and no reload waits for a disk that hangs.

mod backlog;

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};
use vmcp_config::Config;

use super::shared::Shared;
use super::snapshot::definition_changes::{self, ChangedListing};
use crate::random::milliseconds;
use backlog::Backlog;

/// Entries on their way to the recorder, which takes them at once.
const MAX_UNTAKEN: usize = 64;
/// A backend that is not configured here is forgotten once no process has listed or embedded it for this
/// long: several processes with different configurations may share the cache.
const UNUSED_RETENTION: Duration = Duration::from_hours(30 * 24);

/// An entry for the recorder.
pub(super) enum RecorderEntry {
    /// A backend was listed.
    Listing(ChangedListing),
    /// A configuration came into force.
    Configuration(BackendNames),
    /// Answered once all entries before it are written.
    Flush(oneshot::Sender<()>),
}

/// The backends of a configuration, disabled ones included.
#[derive(Clone, Debug)]
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

    /// Returns the difference that both make together: this difference, and the `later` one.
    fn and(self, later: BackendNames) -> BackendNames {
        let mut removed = later.removed;
        removed.extend(self.removed.into_iter().filter(|name| !later.configured.contains(name)));
        BackendNames { configured: later.configured, removed }
    }
}

/// Starts the recorder, which ends when the returned sender is dropped and everything is written.
pub(super) fn start(shared: Arc<Shared>) -> mpsc::Sender<RecorderEntry> {
    let (sender, inbox) = mpsc::channel(MAX_UNTAKEN);
    tokio::spawn(run(inbox, move |entry| write(Arc::clone(&shared), entry)));
    sender
}

/// Hands entries to `write`, one after another in their order, and takes further ones meanwhile.
async fn run<Written>(mut inbox: mpsc::Receiver<RecorderEntry>, write: impl Fn(RecorderEntry) -> Written)
where
    Written: Future<Output = ()>,
{
    let mut backlog = Backlog::default();
    let mut writing: Option<Pin<Box<Written>>> = None;
    let mut is_open = true;
    while is_open || writing.is_some() {
        let written = async {
            match &mut writing {
                Some(writing) => writing.await,
                None => pending().await,
            }
        };
        tokio::select! {
            entry = inbox.recv(), if is_open => match entry {
                Some(entry) => backlog.add(entry),
                None => is_open = false,
            },
            () = written => writing = None,
        }
        if writing.is_none() {
            writing = backlog.next().map(|entry| Box::pin(write(entry)));
        }
    }
}

async fn write(shared: Arc<Shared>, entry: RecorderEntry) {
    match entry {
        RecorderEntry::Listing(listing) => record_listing(&shared, listing).await,
        // The caller may have gone.
        RecorderEntry::Flush(done) => _ = done.send(()),
        // Listings of a removed backend were sent before this entry, so that none brings its rows back.
        RecorderEntry::Configuration(names) => forget_backends(&shared, names).await,
    }
}

async fn record_listing(shared: &Arc<Shared>, listing: ChangedListing) {
    let (backend, metrics) = (Arc::clone(&listing.backend), Arc::clone(&shared.metrics));
    let events = Arc::clone(&shared.events);
    let recorded =
        shared.store(move |store| definition_changes::record(store, &listing, &metrics, &events)).await;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_store_that_hangs_delays_no_sender() {
        let (sender, inbox) = mpsc::channel(MAX_UNTAKEN);
        let recorder = tokio::spawn(run(inbox, |_| pending()));
        let send = async {
            for _ in 0..10 * MAX_UNTAKEN {
                let names = BackendNames { configured: Vec::new(), removed: vec!["gone".into()] };
                sender.send(RecorderEntry::Configuration(names)).await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(30), send).await.expect("nothing waits for the store");
        recorder.abort();
    }
}
