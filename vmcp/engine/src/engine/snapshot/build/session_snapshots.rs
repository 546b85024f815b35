//! [`SessionSnapshots`]: snapshots for client sessions whose servers list definitions of their own there.
//!
//! Such a snapshot is the shared one with these listings in place of the backends' own, so that lists,
//! routing, policies and search need to know nothing of it. It is built when a request of the session first
//! needs it; sessions that see the same share one.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::SystemTime;

use lru::LruCache;
use parking_lot::Mutex;
use tokio::sync::{OnceCell, Semaphore};
use vmcp_backend::{SessionId, SessionListing};
use vmcp_config::rules::{Aggregation, OnToolChange};
use vmcp_model::definition_diff::trusted_hash;
use vmcp_model::discovered::Discovered;
use vmcp_search::TEXT_VERSION;
use vmcp_store::{ContentKey, Store};

use super::{snapshot, vectors};
use crate::engine::embedding::provider::MonitoredProvider;
use crate::engine::snapshot::definition_changes::{KnownHashes, compare, hashes};
use crate::engine::snapshot::{Quarantine, Snapshot};

/// Snapshots that are kept; one more evicts the least recently used, which is built again when it is needed.
const MAX_SNAPSHOTS: NonZeroUsize = NonZeroUsize::new(16).unwrap();
/// Vectors that are kept, of texts that no shared tool has; further texts are found by keywords.
const MAX_VECTORS: usize = 4096;

/// Listings of one session in place of the backends' own, by backend.
type OwnListings = Vec<(Arc<str>, SessionListing)>;
/// The fingerprints of such listings.
type SnapshotKey = Vec<(Arc<str>, u64)>;
/// A snapshot that is being built, or was (single flight).
type Slot = Arc<OnceCell<Arc<Snapshot>>>;

/// The snapshots of sessions on the present shared one, and the vectors of their own tools.
pub(in crate::engine) struct SessionSnapshots {
    built: Mutex<BuiltSnapshots>,
    /// Builds one at a time, however many sessions need one.
    building: Semaphore,
    vectors: Mutex<HashMap<ContentKey, Vec<f32>>>,
}

struct BuiltSnapshots {
    /// The generation of the shared snapshot that they are built on.
    generation: u64,
    slots: LruCache<SnapshotKey, Slot>,
}

impl Default for SessionSnapshots {
    fn default() -> Self {
        let slots = LruCache::sparse(MAX_SNAPSHOTS);
        SessionSnapshots {
            built: Mutex::new(BuiltSnapshots { generation: 0, slots }),
            building: Semaphore::new(1),
            vectors: Mutex::default(),
        }
    }
}

impl SessionSnapshots {
    fn slot(&self, generation: u64, own: &OwnListings) -> Slot {
        let key = own.iter().map(|(backend, own)| (Arc::clone(backend), own.fingerprint)).collect();
        let mut built = self.built.lock();
        if built.generation != generation {
            built.generation = generation;
            built.slots.clear();
        }
        Arc::clone(built.slots.get_or_insert(key, Slot::default))
    }

    /// Returns the texts of tools that only sessions have and that have no vector of `model` yet. Vectors
    /// that no session needs any more are forgotten.
    pub(in crate::engine) fn unembedded(&self, shared: &Snapshot, model: &str) -> Vec<String> {
        let built: Vec<Arc<Snapshot>> = {
            let built = self.built.lock();
            built.slots.iter().filter_map(|(_, slot)| slot.get().cloned()).collect()
        };
        let of_all: HashSet<&str> = shared.texts.iter().map(String::as_str).collect();
        let texts = built.iter().flat_map(|built| built.texts.iter());
        let own: BTreeSet<&String> =
            texts.filter(|text| !text.is_empty() && !of_all.contains(text.as_str())).collect();
        let own: HashMap<ContentKey, &String> =
            own.into_iter().map(|text| (ContentKey::new(TEXT_VERSION, model, text), text)).collect();
        let mut vectors = self.vectors.lock();
        vectors.retain(|key, _| own.contains_key(key));
        let room = MAX_VECTORS.saturating_sub(vectors.len());
        let missing = own.iter().filter(|(key, _)| !vectors.contains_key(key));
        missing.map(|(_, text)| (*text).clone()).take(room).collect()
    }

    /// Keeps the vectors of texts; the snapshots are built again with them.
    pub(in crate::engine) fn add_vectors(&self, model: &str, texts: &[String], vectors: Vec<Vec<f32>>) {
        let keys = texts.iter().map(|text| ContentKey::new(TEXT_VERSION, model, text));
        self.vectors.lock().extend(keys.zip(vectors));
        self.built.lock().slots.clear();
    }
}

/// The snapshot for a session, and everything else that its build reads.
pub(in crate::engine) struct SessionSource {
    /// The shared snapshot.
    pub(in crate::engine) shared: Arc<Snapshot>,
    pub(in crate::engine) store: Arc<Store>,
    pub(in crate::engine) provider: Option<Arc<MonitoredProvider>>,
}

impl SessionSnapshots {
    /// Returns the snapshot for requests of a client session: the shared one, unless a server lists
    /// definitions of its own in this session.
    pub(in crate::engine) async fn for_session(
        self: &Arc<Self>,
        shared: Arc<Snapshot>,
        session: SessionId,
        source: impl FnOnce(Arc<Snapshot>) -> SessionSource,
    ) -> Arc<Snapshot> {
        let own = |(name, backend): (&Arc<str>, &vmcp_backend::Backend)| {
            Some((Arc::clone(name), backend.session_listing(session)?))
        };
        let own: OwnListings = shared.backends.iter().filter_map(own).collect();
        if own.is_empty() {
            return shared;
        }
        let slot = self.slot(shared.generation, &own);
        let make = || Arc::clone(self).build(source(shared), own);
        Arc::clone(Box::pin(slot.get_or_init(make)).await)
    }

    async fn build(self: Arc<Self>, source: SessionSource, own: OwnListings) -> Arc<Snapshot> {
        // Nothing closes the semaphore.
        let _turn = self.building.acquire().await.ok();
        let SessionSource { shared: before, store, provider } = source;
        let model = provider.as_ref().and_then(|provider| provider.model());
        let work = {
            let (sessions, before) = (Arc::clone(&self), Arc::clone(&before));
            move || Arc::new(with_listings(&sessions, &before, own, &store, model.as_deref()))
        };
        // The task fails only when the runtime is going down.
        let built = tokio::task::spawn_blocking(work).await.unwrap_or(before);
        if let Some(provider) = provider {
            provider.wake();
        }
        built
    }
}

/// Builds the snapshot of a session; blocks.
fn with_listings(
    sessions: &SessionSnapshots,
    before: &Snapshot,
    own: OwnListings,
    store: &Store,
    model: Option<&str>,
) -> Snapshot {
    let (mut listings, mut quarantine) = (before.listings.to_vec(), Quarantine::clone(&before.quarantine));
    for (backend, SessionListing { discovered, .. }) in own {
        let Some((_, listed)) = listings.iter_mut().find(|(name, _)| *name == backend) else { continue };
        report(&backend, listed, &discovered);
        quarantine.extend(untrusted(&backend, listed, &discovered, &before.config.aggregation));
        *listed = discovered;
    }
    let (config, policy) = (Arc::clone(&before.config), Arc::clone(&before.policy));
    let mut after = snapshot(before, config, policy, listings, quarantine, store, None);
    if let Some(model) = model {
        match vectors(&after.texts, store, model, |key| sessions.vectors.lock().get(key).cloned()) {
            Ok(vectors) => after.index = Arc::new(after.index.with_vectors(vectors)),
            Err(error) => {
                tracing::warn!(%error, "embeddings could not be read from the cache; a session searches by keywords");
            }
        }
    }
    after
}

/// Returns the tools whose definitions differ from the backend's own, where such a change needs an approval.
/// Nothing is recorded as trusted or as changed: what one session sees must not hide a tool from others.
fn untrusted<'a>(
    backend: &'a Arc<str>,
    listed: &Discovered,
    own: &'a Discovered,
    rules: &Aggregation,
) -> impl Iterator<Item = (Arc<str>, String)> + use<'a> {
    let quarantines = rules.on_tool_change(backend) == OnToolChange::Quarantine;
    let trusted = listed.tools.iter().filter(|_| quarantines);
    let trusted: HashMap<String, String> =
        trusted.map(|tool| (tool.name.clone(), trusted_hash(&tool.name, &tool.raw))).collect();
    let differs =
        move |name: &str, raw| trusted.get(name).is_some_and(|hash| *hash != trusted_hash(name, raw));
    let changed = own.tools.iter().filter(move |tool| differs(&tool.name, &tool.raw));
    changed.map(|tool| (Arc::clone(backend), tool.name.clone()))
}

/// Logs how the definitions of a session differ from the backend's own.
fn report(backend: &str, listed: &Discovered, own: &Discovered) {
    let (_, changes) =
        compare(backend, &hashes(listed), &KnownHashes::new(), &hashes(own), SystemTime::now());
    let (added, updated, removed) = (changes.added, changes.updated, changes.removed);
    tracing::info!(server = backend, added, updated, removed, "a session has definitions of its own");
}
