//! The conductor: the one task that changes anything. It starts and stops backends, follows their listings,
//! and publishes snapshots; all other tasks read.
//!
//! Listings are debounced: changes within [`DEBOUNCE`] of each other make one snapshot. Snapshots are built
//! on a blocking thread, so that a large catalog stalls no connection.

pub(super) mod commands;
pub(super) mod embedding_worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use vmcp_access::authentication::Authentication;
use vmcp_config::Config;
use vmcp_embed::Embedder;
use vmcp_model::discovered::Discovered;
use vmcp_search::Vectors;

use super::embedding::configured;
use super::embedding::provider::MonitoredProvider;
use super::fleet::{self, BackendChanges, Fleet, FleetPlan};
use super::recorder::{self, BackendNames, RecorderEntry};
use super::shared::Shared;
use super::snapshot::{Snapshot, build};
use crate::access::configured::policy::policy;
use crate::access::policy::Policy;
use crate::random::milliseconds;
use commands::{Command, ConductorHandle};
use embedding_worker::EmbeddingWorker;

/// Debounce of listings: changes within this time of each other make one snapshot. A build that takes longer
/// stretches it to its own duration, so that building never takes more than half of the time.
const DEBOUNCE: Duration = Duration::from_millis(20);
/// Upper bound of the stretched debounce, so that a change shows within two seconds.
const MAX_DEBOUNCE: Duration = Duration::from_secs(1);

/// Starts the conductor; cancelling `stop` ends it at once.
pub(super) fn start(
    shared: Arc<Shared>,
    options: ConductorOptions,
    fleet: Fleet,
    stop: CancellationToken,
) -> ConductorHandle {
    let (handle, inbox) = ConductorHandle::new();
    let recorder = recorder::start(Arc::clone(&shared));
    let task = Conductor {
        handle: handle.clone(),
        shared,
        options,
        fleet,
        stop,
        recorder,
        embeddings: None,
        worker: None,
        build_again_after: Instant::now(),
    };
    tokio::spawn(task.run(inbox));
    handle
}

/// Behavior of a conductor beside the configuration.
pub(super) struct ConductorOptions {
    /// Embeds tools in the background.
    pub(super) embed: bool,
    /// Starts backends with the definitions that were saved last time.
    pub(super) cached: bool,
    /// Embeds in place of the configured provider.
    pub(super) embedder: Option<Arc<dyn Embedder>>,
    /// Decides about calls in place of the configured policies.
    pub(super) policy: Option<Arc<dyn Policy>>,
}

struct Conductor {
    handle: ConductorHandle,
    shared: Arc<Shared>,
    options: ConductorOptions,
    fleet: Fleet,
    stop: CancellationToken,
    recorder: mpsc::Sender<RecorderEntry>,
    /// The configuration that the present provider was made of.
    embeddings: Option<vmcp_config::Embeddings>,
    /// The background embedding task; dropped to end it.
    worker: Option<AbortOnDropHandle<()>>,
    build_again_after: Instant,
}

impl Conductor {
    async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        let (mut dirty, stop, news) = (false, self.stop.clone(), self.fleet.news());
        let latest = self.shared.snapshot.load().authentication.latest_tokens().clone();
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                command = inbox.recv() => match command {
                    Some(Command::Apply(config, answer)) => {
                        let applied = self.apply(*config).await;
                        // The caller may have gone.
                        let _ = answer.send(applied);
                    }
                    Some(Command::LoadVectors(answer)) => {
                        self.load_vectors().await;
                        let _ = answer.send(());
                    }
                    Some(Command::Rebuild(answer)) => {
                        self.rebuild(None).await;
                        let _ = answer.send(());
                    }
                    Some(Command::RebuildAndRecord(answer)) => {
                        self.rebuild(None).await;
                        // The recorder ends only with this task.
                        let _ = self.recorder.send(RecorderEntry::Flush(answer)).await;
                    }
                    Some(Command::Shutdown(grace, answer)) => {
                        self.worker = None;
                        self.fleet.stop_all(grace).await;
                        let _ = answer.send(());
                        break;
                    }
                    None => break,
                },
                // Only marked here: the rebuild waits for the debounce, so that a burst of listings makes one
                // snapshot.
                () = news.notified() => dirty = true,
                () = latest.first() => self.fleet.refresh_injected(),
                () = wait_until(self.build_again_after), if dirty => {
                    dirty = false;
                    self.rebuild(None).await;
                }
            }
        }
        self.fleet.stop_all(Duration::ZERO).await;
        self.stop.cancel();
    }

    async fn apply(&mut self, config: Config) -> BackendChanges {
        let before = self.shared.snapshot.load_full();
        let FleetPlan { applied, start, stop } = self.fleet.change(&before.config, &config);
        let unknown = start.iter().filter(|(_, offered)| offered.is_none()).map(|(spec, _)| spec);
        let mut saved = self.saved(&config, unknown).await;
        for (spec, offered) in start {
            let offered = offered.or_else(|| saved.remove(&spec.name));
            self.fleet.start(spec, &config, offered);
        }
        self.rebuild(Some(config)).await;
        let now = self.shared.snapshot.load_full();
        // If no snapshot could be built, the configuration before is still in force, and its backends are
        // wanted.
        if !Arc::ptr_eq(&now.config, &before.config) {
            let names = BackendNames::new(&before.config, &now.config);
            // The recorder takes it at once, whatever the store does, and ends only with this task.
            let _ = self.recorder.send(RecorderEntry::Configuration(names)).await;
        }
        if now.config.optimizer.enabled && now.config.optimizer.learning.enabled {
            self.shared.learner.enable();
        }
        self.shared.query_log.configure(&now.config);
        self.shared.tool_metrics.keep_calls(now.config.optimizer.metrics_retention_days);
        self.shared.shapes.enable(now.config.optimizer.enabled && now.config.code.observed_shapes);
        self.shared.byte_budget.set_limit(now.config.server.max_buffered_bytes);
        self.shared.configured.send_replace(());
        // No debounce: the first listing after a new configuration is shown at once.
        self.build_again_after = Instant::now();
        // Only now: the published snapshot no longer names the replaced backends, so that no new request
        // reaches them.
        fleet::retire(stop);
        self.change_provider();
        applied
    }

    /// Reads the saved definitions of backends about to start.
    async fn saved(
        &self,
        config: &Config,
        specs: impl Iterator<Item = &vmcp_config::Backend>,
    ) -> BTreeMap<Arc<str>, Arc<Discovered>> {
        if !self.options.cached || !config.optimizer.enabled {
            return BTreeMap::new();
        }
        let keys: Vec<_> = specs.map(|spec| (Arc::clone(&spec.name), spec.fingerprint())).collect();
        let read = self.shared.store(move |store| {
            let mut saved = BTreeMap::new();
            for (name, fingerprint) in &keys {
                let Some(definitions) = store.definitions(name, fingerprint)? else { continue };
                match Discovered::from_json(&definitions.json) {
                    Ok(discovered) => _ = saved.insert(Arc::clone(name), Arc::new(discovered)),
                    Err(error) => {
                        tracing::warn!(backend = %name, %error, "saved definitions are not readable; the backend is listed anew");
                    }
                }
            }
            Ok(saved)
        });
        read.await.unwrap_or_default()
    }

    /// Builds and publishes a snapshot of the present listings, under a new configuration if there is one.
    async fn rebuild(&mut self, config: Option<Config>) {
        let listings = self.fleet.listings();
        let before = self.shared.snapshot.load_full();
        let started = Instant::now();
        let (store, model) = (self.shared.open_store(), self.model());
        let config = config.map_or_else(|| Arc::clone(&before.config), Arc::new);
        let policy = match &self.options.policy {
            Some(policy) => Arc::clone(policy),
            None if same_policy(&config, &before.config) => Arc::clone(&before.policy),
            None => policy(&config, &self.shared.metrics),
        };
        let build = {
            let (listings, shared) = (listings.clone(), Arc::clone(&self.shared));
            move || {
                let quarantine = shared.drift.compare(&listings, &config);
                build::snapshot(&before, config, policy, listings, quarantine, &store, model.as_deref())
            }
        };
        let mut snapshot = match tokio::task::spawn_blocking(build).await {
            Ok(snapshot) => snapshot,
            // The process ends.
            Err(error) if error.is_cancelled() => return,
            Err(error) => {
                tracing::error!(%error, "no snapshot could be built; the one before stays in force");
                return;
            }
        };
        // Outside of the build, because fetching keys begins in this runtime.
        if *snapshot.authentication.config() != snapshot.config.incoming_auth {
            let after = Authentication::start(&snapshot.config.incoming_auth, &snapshot.authentication);
            snapshot.authentication = Arc::new(after);
        }
        // Handles are taken after the build: they are cheap, and a backend that started meanwhile is usable
        // at once.
        snapshot.backends = Arc::new(self.fleet.handles());
        snapshot.tokens = Arc::new(self.fleet.tokens());
        let index = Arc::clone(&snapshot.index);
        self.publish(snapshot);
        if !index.is_prepared() {
            tokio::task::spawn_blocking(move || index.prepare());
        }
        let took = started.elapsed();
        tracing::debug!(
            tools = self.shared.snapshot.load().whole_view().visible_tools,
            ?took,
            "snapshot published"
        );
        self.build_again_after = Instant::now() + took.clamp(DEBOUNCE, MAX_DEBOUNCE);
        if let Some(provider) = self.shared.provider.load_full() {
            provider.wake();
        }
        for listing in self.fleet.unrecorded(&listings) {
            // As above.
            let _ = self.recorder.send(RecorderEntry::Listing(listing)).await;
        }
    }

    async fn load_vectors(&mut self) {
        let Some(model) = self.model() else { return };
        let before = self.shared.snapshot.load_full();
        let store = self.shared.open_store();
        let build = move || {
            let vectors = build::vectors(&before.texts, &store, &model, |_| None)?;
            let index = Arc::new(before.index.with_vectors(vectors));
            Ok::<_, vmcp_store::StoreError>(Snapshot { index, ..Snapshot::clone(&before) })
        };
        match tokio::task::spawn_blocking(build).await {
            Ok(Ok(snapshot)) => self.publish(snapshot),
            Ok(Err(error)) => {
                tracing::warn!(%error, "embeddings could not be read from the cache; searches go on without the new ones");
            }
            Err(_) => {}
        }
    }

    fn model(&self) -> Option<String> {
        self.shared.provider.load_full().and_then(|provider| provider.model())
    }

    fn publish(&self, mut snapshot: Snapshot) {
        let before = self.shared.snapshot.load_full();
        snapshot.generation = before.generation + 1;
        let changed = lists_changed(&before, &snapshot);
        let (wanted, embedded) = snapshot.embedding_progress();
        self.shared.metrics.catalog_tools.set(i64::try_from(wanted).unwrap_or(i64::MAX));
        let hidden = i64::try_from(snapshot.quarantine.len()).unwrap_or(i64::MAX);
        self.shared.metrics.catalog_quarantined.set(hidden);
        self.shared.metrics.catalog_embedded.set(i64::try_from(embedded).unwrap_or(i64::MAX));
        self.shared.snapshot.store(Arc::new(snapshot));
        // After the swap: a client that reacts to the new generation must find the new lists.
        let now = u64::try_from(milliseconds(SystemTime::now())).unwrap_or_default();
        self.shared.generation.send_if_modified(|generation| generation.advance(changed, now));
        self.shared.published.send_replace(());
    }

    /// Follows the configured provider: another one embeds every tool again, from the cache where it can.
    fn change_provider(&mut self) {
        let config = Arc::clone(&self.shared.snapshot.load().config);
        let wanted = config.optimizer.enabled.then(|| config.optimizer.embeddings.clone());
        if self.embeddings == wanted {
            return;
        }
        self.embeddings = wanted;
        self.worker = None;
        let embedder = match &self.options.embedder {
            Some(embedder) => Ok(Some(Arc::clone(embedder))),
            None => configured::embedder(&config),
        };
        let embedder = embedder.unwrap_or_else(|error| {
            tracing::error!(%error, "the embedding provider cannot be used; searches go by keywords");
            None
        });
        let name = configured::provider_name(&config);
        let provider = embedder.map(|embedder| Arc::new(MonitoredProvider::new(name, embedder)));
        self.shared.provider.store(provider.clone());
        // Vectors of one model are not comparable to those of another.
        let before = self.shared.snapshot.load_full();
        if before.index.vectors().count() > 0 {
            let index = Arc::new(before.index.with_vectors(Vectors::default()));
            self.publish(Snapshot { index, ..Snapshot::clone(&before) });
        }
        if let Some(provider) = provider.filter(|_| self.options.embed) {
            let worker = EmbeddingWorker {
                provider,
                shared: Arc::clone(&self.shared),
                conductor: self.handle.clone(),
            };
            self.worker = Some(AbortOnDropHandle::new(tokio::spawn(worker.run())));
        }
    }
}

/// Waits until a time. Returns at once if the time is past; a timer would wait for its next millisecond.
async fn wait_until(at: Instant) {
    if at > Instant::now() {
        tokio::time::sleep_until(at.into()).await;
    }
}

/// True if both configurations give clients the same rights.
fn same_policy(one: &Config, other: &Config) -> bool {
    one.authz == other.authz && one.profiles == other.profiles
}

/// Returns which lists may have changed for some client: tools, resources, prompts.
fn lists_changed(before: &Snapshot, after: &Snapshot) -> [bool; 3] {
    if !Arc::ptr_eq(&before.policy, &after.policy) {
        return [true; 3];
    }
    let [tools, resources, prompts] = after.whole_view().changed_since(before.whole_view());
    // A client that may use few tools has them listed, where the whole list shows the own tools only.
    let restricted = after.policy.restricts_some();
    [tools || (restricted && after.catalog_differs(before)), resources, prompts]
}
