//! Keeps the one [`Snapshot`] that every request reads: connects backends, aggregates what they offer, indexes it at once
//! and embeds it in the background. See `conductor.rs` for the only task that changes anything.

mod apps;
pub(crate) mod build;
mod changes;
mod conductor;
mod embedding;
mod fleet;
mod list;
mod offers;
pub mod provider;
mod shared;
mod snapshot;
mod task_homes;
pub mod texts;
mod view;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use vmcp_backend::{Downstream, State, Status};
use vmcp_config::status::{DefinitionChanges, EmbeddingStatus};
use vmcp_config::{Backend, Config};
use vmcp_embed::Embedder;
use vmcp_model::discovered::Discovered;
use vmcp_search::Index;
use vmcp_store::StoreError;

pub use list::{Entry, List, Page};
pub use snapshot::Snapshot;
pub use task_homes::TaskHomes;
pub use view::View;

use crate::identity::Identity;
use crate::optim::search::{QueryVectors, Searcher};
use crate::telemetry::metrics::{BackendLabels, Metrics};
use conductor::{Behavior, Conductor};
use fleet::Fleet;
use offers::Offers;
use shared::Shared;

/// How often [`Engine::settled`] looks.
const SETTLED_POLL: Duration = Duration::from_millis(5);

/// The running system behind the edge. A cheap handle; when the last one is dropped, everything stops.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    conductor: Conductor,
    _stop: DropGuard,
}

/// How an engine is run, beside its configuration.
#[derive(Clone)]
pub struct Options {
    /// Where the cache is.
    pub storage: Storage,
    /// Whether tools are embedded in the background.
    pub embed: bool,
    /// Whether to begin with the definitions that were saved last time.
    pub cached: bool,
    /// Who embeds in place of the configured provider, for benchmarks that leave the model's own time out.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// Where to count.
    pub metrics: Arc<Metrics>,
    /// Takes what backends send outside of requests; without it nobody does.
    pub downstream: Option<Arc<dyn Downstream>>,
    /// The one backend is a program whose place this process takes: it is introduced in its own words, its environment
    /// and its standard error are ours, and a call does not wait for its return.
    pub bridge: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            storage: Storage::Configured,
            embed: true,
            cached: true,
            embedder: None,
            metrics: Arc::default(),
            downstream: None,
            bridge: false,
        }
    }
}

/// Where the cache is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storage {
    /// In the configured folder, or the default one.
    Configured,
    /// In this folder.
    Dir(PathBuf),
    /// In memory.
    Memory,
}

/// Why an engine cannot start. A backend, a model or a disk is never the reason.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Not even a cache in memory.
    #[error("no cache: {0}")]
    Store(#[from] StoreError),
}

/// What putting a configuration in force did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// Backends that were started.
    pub added: Vec<Arc<str>>,
    /// Backends that were started anew, because something about them changed.
    pub changed: Vec<Arc<str>>,
    /// Backends that were stopped.
    pub removed: Vec<Arc<str>>,
    /// Backends that went on as they were.
    pub unchanged: usize,
}

/// Settings that are read at start only and differ from what they were then.
pub fn needs_restart(at_start: &Config, now: &Config) -> Vec<&'static str> {
    let (server, new) = (&at_start.server, &now.server);
    let fixed = [
        ("server.listen", server.listen == new.listen),
        ("server.adminListen", server.admin_listen == new.admin_listen),
        ("server.maxConnections", server.max_connections == new.max_connections),
        ("server.receiveTimeout", server.receive_timeout == new.receive_timeout),
        ("server.writeTimeout", server.write_timeout == new.write_timeout),
        ("server.allowedHosts", server.allowed_hosts == new.allowed_hosts),
        ("server.allowedOrigins", server.allowed_origins == new.allowed_origins),
        ("optimizer.storage", at_start.optimizer.storage_dir == now.optimizer.storage_dir),
        ("telemetry", at_start.telemetry == now.telemetry),
        ("operational.logLevel", at_start.operational.log_level == now.operational.log_level),
    ];
    fixed.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
}

/// What clients may list, as of some moment. Each kind holds the number of the generation in which it last changed, so
/// that a reader who missed some generations still knows which kinds changed since.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Generation {
    /// Counts changes of any kind.
    pub number: u64,
    /// Last change of `tools/list`.
    pub tools: u64,
    /// Last change of `resources/list` or `resources/templates/list`.
    pub resources: u64,
    /// Last change of `prompts/list`.
    pub prompts: u64,
}

impl Generation {
    /// Notes which of tools, resources and prompts changed; returns whether any did.
    fn advance(&mut self, [tools, resources, prompts]: [bool; 3]) -> bool {
        let any = tools || resources || prompts;
        self.number += u64::from(any);
        for (changed, last) in
            [(tools, &mut self.tools), (resources, &mut self.resources), (prompts, &mut self.prompts)]
        {
            if changed {
                *last = self.number;
            }
        }
        any
    }
}

impl Engine {
    /// Starts everything and waits for nothing: no backend, no model, no embedding service. Needs a tokio runtime.
    pub async fn start(config: Config, options: Options) -> Result<Engine, StartError> {
        let dir = match options.storage {
            _ if !config.optimizer.enabled => None,
            Storage::Memory => None,
            Storage::Dir(dir) => Some(dir),
            Storage::Configured => Some(provider::storage_dir(&config)),
        };
        let store = shared::open(dir.as_deref())?;
        let catalog = Arc::default();
        let nothing = Snapshot {
            generation: 0,
            anonymous: Arc::new(View::new(Identity::Anonymous, &catalog, &config, None)),
            catalog,
            index: Arc::new(Index::new(&[])),
            backends: Arc::default(),
            sources: Arc::default(),
            offers: Arc::new(Offers::new(&Vec::new(), &config)),
            tasks: Arc::default(),
            texts: Arc::default(),
            checks: Arc::default(),
            config: Arc::new(config.clone()),
            bridge: options.bridge,
        };
        let shared = Arc::new(Shared::new(nothing, store, options.metrics));
        let stop = CancellationToken::new();
        let behavior = Behavior { embed: options.embed, cached: options.cached, embedder: options.embedder };
        let fleet = Fleet::new(options.downstream, options.bridge);
        let conductor = Conductor::start(Arc::clone(&shared), behavior, fleet, stop.clone());
        conductor.apply(config).await;
        Ok(Engine(Arc::new(Inner { shared, conductor, _stop: stop.drop_guard() })))
    }

    /// Puts another configuration in force. Backends that are configured as before keep running; others finish their calls
    /// in flight and stop.
    pub async fn apply(&self, config: Config) -> Applied {
        self.0.conductor.apply(config).await
    }

    /// What a request works with, from its begin to its end.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.shared.snapshot.load_full()
    }

    /// Moves when what clients may list changes.
    pub fn generations(&self) -> watch::Receiver<Generation> {
        self.0.shared.generation.subscribe()
    }

    /// Moves when another configuration is in force, and with it perhaps other backends.
    pub fn configurations(&self) -> watch::Receiver<()> {
        self.0.shared.configured.subscribe()
    }

    /// How each backend is doing, disabled ones included, sorted by name.
    pub fn backend_status(&self) -> Vec<Status> {
        let snapshot = self.snapshot();
        let disabled = snapshot.config.backends.iter().filter(|spec| !spec.enabled).map(disabled);
        let mut status: Vec<_> =
            snapshot.backends.values().map(vmcp_backend::Backend::status).chain(disabled).collect();
        status.sort_by(|one, other| one.name.cmp(&other.name));
        let mut changes = self.changes();
        for backend in &mut status {
            backend.changes = changes.remove(&backend.name);
        }
        status
    }

    /// How the last listing of each backend differed from the one before.
    pub fn changes(&self) -> BTreeMap<String, DefinitionChanges> {
        self.0
            .shared
            .changes()
            .iter()
            .map(|(backend, changes)| (backend.to_string(), changes.clone()))
            .collect()
    }

    /// How embedding is doing.
    pub fn embedding_status(&self) -> EmbeddingStatus {
        let snapshot = self.snapshot();
        match self.0.shared.provider.load_full() {
            Some(provider) => provider.status(&snapshot),
            None => EmbeddingStatus {
                provider: provider::provider_name(&snapshot.config).to_owned(),
                ..EmbeddingStatus::default()
            },
        }
    }

    /// The cache, so that tests can read what was recorded.
    #[cfg(test)]
    pub(crate) fn store(&self) -> Arc<vmcp_store::Store> {
        self.0.shared.open_store()
    }

    /// Where the engine counts.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.shared.metrics
    }

    /// All metrics as text, for `GET /metrics`.
    pub fn render_metrics(&self) -> String {
        let metrics = self.metrics();
        // Backends that were removed leave no gauge behind.
        metrics.backend_up.clear();
        for status in self.backend_status() {
            let up = i64::from(status.state == State::Connected);
            metrics.backend_up.get_or_create(&BackendLabels { backend: status.name }).set(up);
        }
        metrics.encode()
    }

    /// Lists a backend anew, soon; all of them without a name. Returns whether there is such a backend.
    pub fn refresh(&self, backend: Option<&str>) -> bool {
        let snapshot = self.snapshot();
        let mut chosen = snapshot
            .backends
            .iter()
            .filter(|(name, _)| backend.is_none_or(|wanted| wanted == &***name))
            .peekable();
        let any = chosen.peek().is_some();
        chosen.for_each(|(_, backend)| backend.refresh());
        any
    }

    /// Waits until every enabled backend was connected and listed, or has failed, and the snapshot shows it.
    pub async fn settled(&self) {
        while !self.is_settled() {
            tokio::time::sleep(SETTLED_POLL).await;
        }
    }

    fn is_settled(&self) -> bool {
        let snapshot = self.snapshot();
        let shows = |name: &Arc<str>, offered: &Arc<Discovered>| {
            snapshot.sources.iter().any(|(other, seen)| other == name && Arc::ptr_eq(seen, offered))
        };
        snapshot.backends.iter().all(|(name, backend)| {
            let offered = backend.discovered().borrow().clone();
            offered.map_or_else(|| has_failed(&backend.status()), |offered| shows(name, &offered))
        })
    }

    /// Stops all backends. Calls in flight have `grace` to end.
    pub async fn shutdown(&self, grace: Duration) {
        self.0.conductor.shutdown(grace).await;
    }

    /// What searches a snapshot, with the embedding provider as it is now.
    pub fn searcher(&self, snapshot: &Snapshot) -> Searcher {
        let vectors = match self.0.shared.provider.load_full() {
            None => QueryVectors::Off,
            Some(provider) => match provider.down() {
                Some(down) => QueryVectors::Down(down.error),
                None => QueryVectors::From(Arc::clone(&provider.embedder)),
            },
        };
        Searcher {
            index: Arc::clone(&snapshot.index),
            vectors,
            settings: (&snapshot.config.optimizer.search).into(),
        }
    }

    /// Notes that a query could not be embedded: until the provider answers again, searches do not wait for it.
    pub(crate) fn query_failed(&self, error: vmcp_embed::EmbedError) {
        if let Some(provider) = self.0.shared.provider.load_full() {
            provider.query_failed(error);
        }
    }
}

/// Whether there is no point in waiting: no connection after all attempts, or none of use.
fn has_failed(status: &Status) -> bool {
    status.state == State::Failed || (status.state == State::Connected && status.last_error.is_some())
}

/// The status of a backend that is configured and switched off (GMT-15).
fn disabled(spec: &Backend) -> Status {
    Status { name: spec.name.to_string(), transport: spec.transport.kind().to_owned(), ..Status::default() }
}

#[cfg(test)]
mod tests;
