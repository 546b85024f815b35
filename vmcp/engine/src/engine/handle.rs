//! Methods of [`Engine`] that hand a room what it reads: ranking services, contexts, snapshots of sessions,
//! refreshes, other replicas. [`searches`] hand out searchers, [`status`] reports.

mod approval;
mod logins;
pub(super) mod refresh;
mod regeneration;
mod searches;
mod status;

use std::sync::Arc;

use futures::future::BoxFuture;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use vmcp_backend::SessionId;
use vmcp_config::status::RerankStatus;
use vmcp_embed::{ChatModel, EmbedError};
use vmcp_hooks::news::HookNews;
use vmcp_script::jobs::ScriptJobs;
use vmcp_script::pool::WorkerPool;

use self::refresh::{Refresh, Refreshed};
use self::regeneration::{Regenerated, regenerate};
use super::replicas::report::ReplicaReport;
use super::replicas::{
    Census, ClientName, OtherReplicas, ROUND_INTERVAL, ReplicaLogins, ReplicaUsage, TotalUsage, Waiting,
};
use super::snapshot::build::session_snapshots::SessionSource;
use super::snapshot::client_records::kept_results::KeptResults;
use super::snapshot::contextual::{ContextualLists, embed_context};
use super::snapshot::list::PagedList;
use super::snapshot::view::View;
use super::{Engine, Snapshot};
use crate::access::context_key::ContextKey;
use crate::access::identity::PrincipalKey;
use crate::optim::names::NameStyle;
use crate::search::Degraded;
use crate::search::context::{Contexts, Learner, QueryEmbedding};
use crate::search::reranking::Reranking;
use crate::server_registrar::ServerRegistrar;
use crate::server_registrar::registry_reader::RegistryReader;
use crate::telemetry::observed_shapes::ObservedShapes;
use crate::telemetry::query_log::QueryLog;
use crate::telemetry::server_events::ServerEvents;
use crate::telemetry::tool_metrics::history::HistoryQuery;
use crate::telemetry::tool_metrics::{Filter, MetricsBook};

impl Engine {
    /// Returns the workers for scripts; `None` if this process runs none.
    pub fn script_workers(&self) -> Option<&Arc<WorkerPool<PrincipalKey>>> {
        self.0.scripts.as_ref()
    }

    /// Returns the Jobs of the cluster for scripts; `None` outside of a cluster.
    pub fn script_jobs(&self) -> Option<&Arc<dyn ScriptJobs>> {
        self.0.script_jobs.as_ref()
    }

    /// Returns the keeper of the configured servers; `None` if clients cannot change them.
    pub fn registrar(&self) -> Option<&Arc<dyn ServerRegistrar>> {
        self.0.registrar.as_ref()
    }

    /// Returns the reader of registries; `None` if clients find no servers in one.
    pub fn registry(&self) -> Option<&Arc<dyn RegistryReader>> {
        self.0.registry.as_ref()
    }

    /// Returns the language model that ranks tools; `None` if none is configured.
    pub fn chat_model(&self, snapshot: &Snapshot) -> Option<Arc<ChatModel>> {
        self.0.shared.ranking_services.chat_model(&snapshot.config)
    }

    /// Returns the service that reorders the first hits; `None` if none is configured.
    pub(super) fn reranking(&self, snapshot: &Snapshot) -> Option<Reranking> {
        let service = self.0.shared.ranking_services.reranker(&snapshot.config)?;
        let candidates = snapshot.config.optimizer.rerank.as_ref()?.candidates;
        Some(Reranking { service, texts: Arc::clone(&snapshot.texts), candidates })
    }

    /// Returns the state of the re-ranking service; `None` if none is configured.
    pub fn rerank_status(&self) -> Option<RerankStatus> {
        let config = Arc::clone(&self.0.shared.snapshot.load().config);
        self.0.shared.ranking_services.reranker(&config).map(|reranker| reranker.status())
    }

    /// Returns the snapshot for requests of a client session: the shared one, unless a server lists
    /// definitions of its own in this session.
    pub async fn for_session(&self, snapshot: Arc<Snapshot>, session: Option<SessionId>) -> Arc<Snapshot> {
        let Some(session) = session.filter(|_| !self.0.session_listings.is_zero()) else { return snapshot };
        let shared = &self.0.shared;
        let source = |snapshot| SessionSource {
            shared: snapshot,
            store: shared.open_store(),
            provider: shared.provider.load_full(),
        };
        shared.session_snapshots.for_session(snapshot, session, source).await
    }

    /// Watches for snapshots that come into force, and for noted changes of definitions.
    pub fn snapshots(&self) -> watch::Receiver<()> {
        self.0.shared.published.subscribe()
    }

    /// Tells viewers and webhooks of a hook that was taken. Never waits. The webhooks are those in force: a
    /// request that began before a reload brings no removed one back.
    pub fn tell_of_hook(&self, news: &HookNews) {
        self.events().hook(news);
        let config = Arc::clone(&self.snapshot().config);
        self.0.session_webhooks.tell(&config.optimizer.session_hooks.webhooks, news);
    }

    /// Hooks, changed definitions and states of backends, for viewers.
    pub fn events(&self) -> &Arc<ServerEvents> {
        &self.0.shared.events
    }

    /// The contexts of clients.
    pub fn contexts(&self) -> &Arc<Contexts> {
        &self.0.shared.contexts
    }

    /// Large results of clients.
    pub fn results(&self) -> &Arc<KeptResults> {
        &self.0.shared.results
    }

    /// The observer that learns from calls.
    pub fn learner(&self) -> &Arc<Learner> {
        &self.0.shared.learner
    }

    /// The observed shapes of results.
    pub fn shapes(&self) -> &Arc<ObservedShapes> {
        &self.0.shared.shapes
    }

    /// The log of searches.
    pub fn query_log(&self) -> &Arc<QueryLog> {
        &self.0.shared.query_log
    }

    /// Embeds what a client is busy with; `None` without an embedding provider.
    pub async fn embed_context(
        &self,
        snapshot: &Snapshot,
        text: &str,
    ) -> Result<Option<QueryEmbedding>, Degraded> {
        embed_context(&self.searcher(snapshot, PrincipalKey::Only), text).await
    }

    /// Returns the list of tools of a client that has set a context, and remembers it in the context. `None`:
    /// the client gets the list of all clients.
    pub fn contextual_list(
        &self,
        snapshot: &Snapshot,
        view: &View,
        key: Option<ContextKey>,
        principal: PrincipalKey,
        style: NameStyle,
    ) -> Option<PagedList> {
        let learned = self.learner().learned();
        let lists = ContextualLists { contexts: self.contexts(), learned: &learned, snapshot, view };
        lists.list(key, principal, style)
    }

    /// Embeds the tools of one backend again, or of all; tools that no client may find are left out. Without
    /// a provider nothing is embedded. Fails while the provider does not tell its model.
    pub fn regenerate_embeddings<'a>(
        &'a self,
        backend: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Regenerated, EmbedError>> {
        Box::pin(regenerate(&self.0.shared, &self.0.conductor, backend))
    }

    /// Lists backends again and counts how their tools differ from the record. `force` also embeds all of
    /// them again, and counts them as updated.
    pub async fn refresh_and_wait(&self, backends: &[Arc<str>], force: bool) -> Vec<Refreshed> {
        let refresh = Refresh { shared: &self.0.shared, conductor: &self.0.conductor };
        refresh.run(backends, force).await
    }

    /// Returns the metrics of each tool, summed over all replicas.
    pub fn total_metrics(&self) -> Arc<MetricsBook> {
        self.0.shared.replicas.total()
    }

    /// Returns the metrics by which tools are chosen for a principal. An identity gets those of its own calls
    /// in this process, as in [`Engine::searcher`], so that one client's failures change nothing for others;
    /// clients without an identity get the sums.
    pub fn metrics_for(&self, principal: PrincipalKey) -> Arc<MetricsBook> {
        match principal {
            PrincipalKey::Identity(_) => Arc::new(self.0.shared.reliability.book(principal)),
            PrincipalKey::Only | PrincipalKey::Address(_) => self.total_metrics(),
        }
    }

    /// Counts the replicas: this process, and the others as of the last round. `None` if none is configured.
    pub fn census(&self, snapshot: &Snapshot) -> Option<Census> {
        let configured = !snapshot.config.server.peers.is_empty();
        configured.then(|| self.0.shared.replicas.census())
    }

    /// Waits until everything that was called before, here or at another replica, is counted.
    pub async fn gather_metrics(&self) {
        self.tool_metrics().flush().await;
        self.ask_replicas().await;
    }

    /// Forgets metrics of tools here, and unless `only_here` at the other replicas; returns the number of
    /// tools that had some in the sums.
    pub async fn reset_metrics(&self, filter: Filter, only_here: bool) -> usize {
        let config = Arc::clone(&self.snapshot().config);
        self.0.shared.replicas.reset(&config, filter, only_here).await
    }

    /// Returns the report of this process for other replicas, with its entity tag; of learned pairs, those
    /// used at `learned_after` or later. No report if its tag would be `known_tag`.
    pub async fn replica_report(
        &self,
        learned_after: i64,
        known_tag: Option<&str>,
    ) -> (String, Option<ReplicaReport>) {
        self.0.shared.replicas.own_report(learned_after, known_tag).await
    }

    /// Returns the usage of this process over days, for a replica that sums; `None` if its database cannot be
    /// read now.
    pub async fn replica_usage(&self, wanted: HistoryQuery) -> Option<ReplicaUsage> {
        self.0.shared.replicas.own_usage(wanted).await
    }

    /// Returns the usage over days, summed over all replicas.
    pub async fn total_usage(&self, wanted: HistoryQuery) -> TotalUsage {
        let config = Arc::clone(&self.snapshot().config);
        self.0.shared.replicas.total_usage(&config, wanted).await
    }

    /// Returns the id of this process among the replicas.
    pub fn replica_id(&self) -> &str {
        self.0.shared.replicas.id()
    }

    /// Asks every other replica for a path of its admin port, for a page of the console.
    pub async fn ask_other_replicas<T: DeserializeOwned>(
        &self,
        path: &str,
        waiting: Waiting,
    ) -> OtherReplicas<T> {
        let config = Arc::clone(&self.snapshot().config);
        self.0.shared.replicas.ask_others(&config, path, waiting).await
    }

    /// Returns the tokens of a client that this process keeps, for another replica.
    pub fn replica_logins(&self, client: &ClientName) -> ReplicaLogins {
        self.0.shared.replicas.own_logins(self.logins_of(client))
    }

    /// Asks all other replicas once, and takes in their reports.
    async fn ask_replicas(&self) {
        let config = Arc::clone(&self.snapshot().config);
        if self.0.shared.replicas.round(&config).await {
            self.0.conductor.rebuild().await;
        }
    }
}

/// Asks the other replicas in turn, until `stop`.
pub(super) async fn ask_replicas(engine: Engine, stop: CancellationToken) {
    // A handle would keep the engine alive; it ends with the last one outside of this task.
    let inner = Arc::downgrade(&engine.0);
    drop(engine);
    loop {
        tokio::select! {
            () = sleep(ROUND_INTERVAL) => {}
            () = stop.cancelled() => return,
        }
        let Some(inner) = inner.upgrade() else { return };
        Engine(inner).ask_replicas().await;
    }
}
