//! State that the engine's handle and its tasks share.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{oneshot, watch};
use vmcp_backend::ByteBudget;
use vmcp_config::Config;
use vmcp_config::status::DefinitionChanges;
use vmcp_store::{Store, StoreError};

use super::embedding::provider::MonitoredProvider;
use super::embedding::ranking_services::RankingServices;
use super::options::Storage;
use super::replicas::Replicas;
use super::snapshot::Snapshot;
use super::snapshot::build::session_snapshots::SessionSnapshots;
use super::snapshot::client_records::kept_results::KeptResults;
use super::snapshot::generation::Generation;
use super::tool_drift::DriftGuard;
use crate::folders;
use crate::metrics::Metrics;
use crate::search::context::{Contexts, Learner};
use crate::telemetry::calls::{CallObserver, CallObservers};
use crate::telemetry::connections::ObservedConnections;
use crate::telemetry::observed_shapes::ObservedShapes;
use crate::telemetry::query_log::QueryLog;
use crate::telemetry::server_events::ServerEvents;
use crate::telemetry::tool_metrics::ToolMetricsRecorder;
use crate::telemetry::tool_metrics::by_principal::ReliabilityByPrincipal;
use crate::telemetry::topic_usage::TopicUsage;

pub(super) struct Shared {
    pub(super) snapshot: ArcSwap<Snapshot>,
    pub(super) generation: watch::Sender<Generation>,
    /// Notified when a configuration has come into force.
    pub(super) configured: watch::Sender<()>,
    /// Notified when another snapshot is in force, and when changes of definitions were noted.
    pub(super) published: watch::Sender<()>,
    /// Hooks, changed definitions and states of backends, for viewers.
    pub(super) events: Arc<ServerEvents>,
    pub(super) provider: ArcSwapOption<MonitoredProvider>,
    pub(super) changes: Mutex<BTreeMap<Arc<str>, DefinitionChanges>>,
    pub(super) metrics: Arc<Metrics>,
    /// Counts the bytes of all bodies; its limit follows `server.maxBufferedBytes`.
    pub(super) byte_budget: ByteBudget,
    pub(super) call_observers: Arc<CallObservers>,
    /// Counts the calls of each identity.
    pub(super) reliability: Arc<ReliabilityByPrincipal>,
    /// Counts the calls of each tool.
    pub(super) tool_metrics: Arc<ToolMetricsRecorder>,
    /// Sums the tokens of the answers of `GET /tools`.
    pub(super) topic_usage: TopicUsage,
    /// Services that help to rank tools.
    pub(super) ranking_services: RankingServices,
    /// The contexts of clients.
    pub(super) contexts: Arc<Contexts>,
    /// Learns from calls within contexts.
    pub(super) learner: Arc<Learner>,
    /// Learns the shapes of results.
    pub(super) shapes: Arc<ObservedShapes>,
    /// Counts and logs searches.
    pub(super) query_log: Arc<QueryLog>,
    /// The other replicas, and what they counted.
    pub(super) replicas: Replicas,
    /// Large results of clients.
    pub(super) results: Arc<KeptResults>,
    /// Compares definitions with the trusted ones; blocks.
    pub(super) drift: Arc<DriftGuard>,
    /// Snapshots for sessions that see definitions of their own.
    pub(super) session_snapshots: Arc<SessionSnapshots>,
    store: ArcSwap<Store>,
    /// True once the cache on disk could not be used: it is in memory, and ends with the process.
    lacks_cache: AtomicBool,
}

/// Everything that [`Shared`] is made of.
pub(super) struct SharedParts {
    pub(super) snapshot: Snapshot,
    pub(super) store: OpenedStore,
    pub(super) drift: Arc<DriftGuard>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) tool_metrics: Arc<ToolMetricsRecorder>,
    pub(super) contexts: Arc<Contexts>,
    pub(super) learner: Arc<Learner>,
    pub(super) shapes: Arc<ObservedShapes>,
    pub(super) query_log: Arc<QueryLog>,
    pub(super) replicas: Replicas,
    pub(super) results: Arc<KeptResults>,
    /// Observers of calls, besides the recorder of tool metrics, the learner and the query log.
    pub(super) observers: Vec<Arc<dyn CallObserver>>,
}

/// Work on the cache, which keeps its own value. Run twice if the file fails.
type StoreWork = Box<dyn Fn(&Store) -> Result<(), StoreError> + Send>;

/// The cache, opened.
pub(super) struct OpenedStore {
    store: Store,
    /// True if the folder could not be used, so that the cache is in memory.
    lacks_folder: bool,
}

impl From<SharedParts> for Shared {
    fn from(parts: SharedParts) -> Shared {
        let SharedParts { tool_metrics, learner, query_log, mut observers, .. } = parts;
        observers.push(Arc::clone(&tool_metrics) as Arc<dyn CallObserver>);
        observers.push(Arc::clone(&learner) as Arc<dyn CallObserver>);
        observers.push(Arc::clone(&query_log) as Arc<dyn CallObserver>);
        let reliability = Arc::<ReliabilityByPrincipal>::default();
        observers.push(Arc::clone(&reliability) as Arc<dyn CallObserver>);
        Shared {
            snapshot: ArcSwap::from_pointee(parts.snapshot),
            generation: watch::Sender::default(),
            configured: watch::Sender::default(),
            published: watch::Sender::default(),
            events: Arc::default(),
            provider: ArcSwapOption::empty(),
            changes: Mutex::default(),
            call_observers: Arc::new(CallObservers::new(&parts.metrics, observers)),
            metrics: parts.metrics,
            reliability,
            tool_metrics,
            topic_usage: TopicUsage::default(),
            ranking_services: RankingServices::default(),
            contexts: parts.contexts,
            learner,
            shapes: parts.shapes,
            query_log,
            replicas: parts.replicas,
            results: parts.results,
            drift: parts.drift,
            session_snapshots: Arc::default(),
            byte_budget: ByteBudget::default(),
            store: ArcSwap::from_pointee(parts.store.store),
            lacks_cache: AtomicBool::new(parts.store.lacks_folder),
        }
    }
}

impl Shared {
    /// Returns the observer of the connections to backends.
    pub(super) fn observed_connections(&self) -> Arc<ObservedConnections> {
        let (metrics, events) = (Arc::clone(&self.metrics), Arc::clone(&self.events));
        Arc::new(ObservedConnections { metrics, events })
    }

    /// True if the cache on disk could not be used.
    pub(super) fn lacks_cache(&self) -> bool {
        self.lacks_cache.load(Ordering::Relaxed)
    }

    /// Returns the store; its calls block.
    pub(super) fn open_store(&self) -> Arc<Store> {
        self.store.load_full()
    }

    /// Runs `work` on the store on a blocking thread. When the file fails, `work` is run once more in memory,
    /// where the cache lives from then on: no request depends on a disk. Returns `None` if `work` failed
    /// there too, or the file was busy.
    pub(super) async fn store<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl Fn(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Option<T> {
        let done = Arc::new(Mutex::new(None));
        let place = Arc::clone(&done);
        // Boxed, and its value aside, so that what follows is compiled once for all kinds of work.
        let work: StoreWork = Box::new(move |store: &Store| {
            let value = work(store)?;
            *place.lock() = Some(value);
            Ok(())
        });
        self.run_on_store(work).await;
        done.lock().take()
    }

    /// Runs `work` on a blocking thread, with a second try in memory.
    async fn run_on_store(self: &Arc<Self>, work: StoreWork) {
        let shared = Arc::clone(self);
        let blocking = move || {
            let store = shared.open_store();
            match work(&store) {
                Ok(()) => {}
                Err(error @ StoreError::Busy) => {
                    tracing::warn!(%error, "another process holds the cache; this entry was not written");
                }
                Err(error) => {
                    tracing::warn!(%error, "going on with the cache in memory");
                    shared.lacks_cache.store(true, Ordering::Relaxed);
                    match Store::in_memory() {
                        // An error leaves no value, which the caller sees.
                        Ok(memory) => drop(work(&replaced(&shared.store, &store, memory))),
                        Err(error) => {
                            tracing::error!(%error, "the cache in memory failed too; nothing is cached");
                        }
                    }
                }
            }
        };
        // Work that panicked leaves no value.
        let _ = tokio::task::spawn_blocking(blocking).await;
    }

    /// Records how a listing differed. An unchanged listing is recorded only if it is the first: the last
    /// change is what counts.
    pub(super) fn note(&self, backend: Arc<str>, changes: DefinitionChanges) {
        let mut noted = self.changes();
        if changes.any() || !noted.contains_key(&backend) {
            noted.insert(backend, changes);
            drop(noted);
            // Subscribers of vmcp's own resources read these changes, and the snapshot came before them.
            self.published.send_replace(());
        }
    }

    pub(super) fn changes(&self) -> parking_lot::MutexGuard<'_, BTreeMap<Arc<str>, DefinitionChanges>> {
        self.changes.lock()
    }
}

/// Puts `memory` in the place of a store that `failed`, and returns the store that is there now: of several
/// tasks for which the same store fails, one replaces it, and the others use its replacement.
fn replaced(current: &ArcSwap<Store>, failed: &Arc<Store>, memory: Store) -> Arc<Store> {
    let memory = Arc::new(memory);
    let before = current.compare_and_swap(failed, Arc::clone(&memory));
    if Arc::ptr_eq(&before, failed) { memory } else { Arc::clone(&before) }
}

/// The databases of a run, opened on threads of their own beside the rest of a start: each takes a
/// millisecond, of a new file more.
pub struct OpeningDatabases {
    folders: DatabaseFolders,
    store: oneshot::Receiver<Result<OpenedStore, StoreError>>,
    drift: oneshot::Receiver<Result<DriftGuard, StoreError>>,
}

/// Folders of the databases; `None` stands for memory.
#[derive(Clone)]
struct DatabaseFolders {
    cache: Option<PathBuf>,
    state: Option<PathBuf>,
    /// Folder of `state.db` once a backend is under quarantine.
    later: Option<PathBuf>,
}

impl OpeningDatabases {
    /// Begins to open the databases of a configuration. Needs no runtime; the log must be there already.
    pub fn begin(config: &Config, storage: &Storage) -> OpeningDatabases {
        let is_on = config.optimizer.enabled;
        let (cache, later) = match storage {
            Storage::Memory => (None, None),
            Storage::Dir(dir) => (Some(dir.clone()), Some(dir.clone())),
            Storage::Configured => (Some(folders::storage_dir(config)), Some(folders::state_dir(config))),
        };
        let state = later.clone().filter(|_| is_on);
        let folders = DatabaseFolders { cache: cache.filter(|_| is_on), state, later };
        let (of_store, of_drift) = (folders.clone(), folders.clone());
        let store = on_thread("open-cache", move || of_store.open_store());
        let drift = on_thread("open-state", move || of_drift.open_drift());
        OpeningDatabases { folders, store, drift }
    }

    /// Returns the folder of `state.db` and the files beside it; `None` if nothing is kept.
    pub(super) fn state_dir(&self) -> Option<&PathBuf> {
        self.folders.state.as_ref()
    }

    /// Waits for the trusted definitions.
    pub(super) async fn drift(&mut self) -> Result<DriftGuard, StoreError> {
        // Without a thread, the database is opened here.
        (&mut self.drift).await.unwrap_or_else(|_| self.folders.open_drift())
    }

    /// Waits for the cache.
    pub(super) async fn store(&mut self) -> Result<OpenedStore, StoreError> {
        // As above.
        (&mut self.store).await.unwrap_or_else(|_| self.folders.open_store())
    }
}

impl DatabaseFolders {
    fn open_store(&self) -> Result<OpenedStore, StoreError> {
        open(self.cache.as_deref())
    }

    fn open_drift(&self) -> Result<DriftGuard, StoreError> {
        DriftGuard::open(self.state.as_deref(), self.later.clone())
    }
}

/// Runs `work` on a thread of its own. The receiver fails if the thread cannot be started.
fn on_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> oneshot::Receiver<T> {
    let (sender, receiver) = oneshot::channel();
    // A start that has failed meanwhile has dropped the receiver.
    let run = move || drop(sender.send(work()));
    if let Err(error) = thread::Builder::new().name(name.to_owned()).spawn(run) {
        tracing::debug!(%error, "no thread to open a database");
    }
    receiver
}

/// Opens the store in a folder, or in memory if `dir` is `None` or the folder cannot be used.
fn open(dir: Option<&Path>) -> Result<OpenedStore, StoreError> {
    let Some(dir) = dir else { return Ok(OpenedStore { store: Store::in_memory()?, lacks_folder: false }) };
    match Store::open(dir) {
        Ok(store) => Ok(OpenedStore { store, lacks_folder: false }),
        Err(error) => {
            tracing::warn!(%error, "going on with the cache in memory");
            Ok(OpenedStore { store: Store::in_memory()?, lacks_folder: true })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn databases_that_open_beside_a_start_are_those_of_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let config = crate::testing::config(crate::testing::KEYWORDS);
        let mut opening = OpeningDatabases::begin(&config, &Storage::Dir(folder.path().to_owned()));
        assert_eq!(opening.state_dir().map(PathBuf::as_path), Some(folder.path()));
        assert!(opening.drift().await.is_ok());
        let store = opening.store().await;
        assert!(store.is_ok_and(|store| !store.lacks_folder));
        assert!(folder.path().join("state.db").exists() && folder.path().join("embeddings.db").exists());
        let opening = OpeningDatabases::begin(&config, &Storage::Memory);
        assert_eq!(opening.state_dir(), None);
    }

    #[test]
    fn a_store_that_fails_for_two_at_once_is_replaced_by_one() {
        let failed = Arc::new(Store::in_memory().unwrap());
        let current = ArcSwap::new(Arc::clone(&failed));
        let first = replaced(&current, &failed, Store::in_memory().unwrap());
        let second = replaced(&current, &failed, Store::in_memory().unwrap());
        assert!(!Arc::ptr_eq(&first, &failed) && Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&first, &current.load_full()), "what the first wrote is there");
    }
}
