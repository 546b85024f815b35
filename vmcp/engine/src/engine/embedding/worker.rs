//! The background embedding task, one per process: embeds the tools of the newest snapshot that have no
//! vector, stores their vectors, and asks the conductor for a snapshot with them.
//!
//! While the provider fails, the task retries with exponential backoff (1, 2, 4, … 60 seconds), and searches
//! skip the provider. A remote service is asked every [`MODEL_CHECK_INTERVAL`] for its model; another model
//! embeds every tool again.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use vmcp_embed::EmbedError;
use vmcp_search::TEXT_VERSION;
use vmcp_store::{ContentKey, ToolVector};

use super::provider::{MonitoredProvider, progress};
use crate::engine::conductor::commands::ConductorHandle;
use crate::engine::recorder::definition_changes::milliseconds;
use crate::engine::shared::Shared;
use crate::engine::snapshot::Snapshot;
use crate::telemetry::metrics::EmbeddingLabels;

/// Interval at which a remote service is asked for its present model.
const MODEL_CHECK_INTERVAL: Duration = Duration::from_secs(15);
/// Interval at which a long run publishes the vectors it has so far.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// The background task of one provider.
pub(in crate::engine) struct EmbeddingWorker {
    pub(in crate::engine) provider: Arc<MonitoredProvider>,
    pub(in crate::engine) shared: Arc<Shared>,
    pub(in crate::engine) conductor: ConductorHandle,
}

impl EmbeddingWorker {
    /// Runs until the task is aborted.
    pub(in crate::engine) async fn run(self) {
        let mut cold_start = Some(Instant::now());
        let mut seen = Arc::default();
        loop {
            match self.pass(&mut seen).await {
                Ok(()) => {
                    self.provider.recovered();
                    let (wanted, embedded) = progress(&self.shared.snapshot.load());
                    if wanted > 0
                        && embedded == wanted
                        && let Some(start) = cold_start.take()
                    {
                        let seconds = start.elapsed().as_secs_f64();
                        self.shared.metrics.embedding_cold_start.observe(seconds);
                        tracing::info!(tools = wanted, seconds, "every tool has its embedding");
                    }
                    tokio::select! {
                        () = self.provider.woken() => {}
                        () = tokio::time::sleep(MODEL_CHECK_INTERVAL) => {}
                    }
                }
                Err(error) => {
                    let down = self.provider.failed(error);
                    tokio::time::sleep_until(down.retry_at.into()).await;
                }
            }
        }
    }

    /// Embeds every tool of the newest snapshot that has no vector of the provider's present model. `seen`
    /// holds the texts of the last pass, so that each is counted as a cache hit or miss once.
    async fn pass(&self, seen: &mut Arc<Vec<String>>) -> Result<(), EmbedError> {
        if let Some(down) = self.provider.outage() {
            tokio::time::sleep_until(down.retry_at.into()).await;
        }
        let model = self.provider.embedder.model_id().await?;
        if self.provider.learn_model(&model) {
            self.conductor.load_vectors().await;
        }
        let snapshot = self.shared.snapshot.load_full();
        let vectors = snapshot.index.vectors();
        let wanting = snapshot.texts.iter().enumerate().filter(|(_, text)| !text.is_empty());
        let missing: Vec<usize> = wanting.map(|(at, _)| at).filter(|at| !vectors.has(*at)).collect();
        if !Arc::ptr_eq(seen, &snapshot.texts) {
            *seen = Arc::clone(&snapshot.texts);
            self.shared.metrics.embedding_cache_hits.inc_by(vectors.count() as u64);
            self.shared.metrics.embedding_cache_misses.inc_by(missing.len() as u64);
        }
        if missing.is_empty() {
            let embedded = self.embed_of_sessions(&snapshot, &model).await?;
            return if embedded { Ok(()) } else { self.probe(&snapshot).await };
        }
        // During an outage every retry comes here; the outage itself was logged.
        if self.provider.outage().is_none() {
            tracing::info!(tools = missing.len(), of = snapshot.texts.len(), model, "embedding tools");
        }
        let mut shown = Instant::now();
        for batch in missing.chunks(self.provider.embedder.batch_size().max(1)) {
            self.embed(&snapshot, &model, batch).await?;
            if shown.elapsed() > PROGRESS_INTERVAL {
                self.conductor.load_vectors().await;
                shown = Instant::now();
            }
        }
        self.conductor.load_vectors().await;
        Ok(())
    }

    /// Embeds the tools at these positions and stores their vectors.
    pub(super) async fn embed(
        &self,
        snapshot: &Arc<Snapshot>,
        model: &str,
        positions: &[usize],
    ) -> Result<(), EmbedError> {
        let texts: Vec<String> = positions.iter().filter_map(|at| snapshot.texts.get(*at)).cloned().collect();
        let labels = EmbeddingLabels { kind: "tools" };
        let started = Instant::now();
        let embedded = self.provider.embedder.embed(&texts).await;
        self.shared
            .metrics
            .embedding_duration
            .get_or_create(&labels)
            .observe(started.elapsed().as_secs_f64());
        let vectors = embedded.inspect_err(|_| {
            self.shared.metrics.embedding_errors.get_or_create(&labels).inc();
        })?;
        let (snapshot, model, positions) = (Arc::clone(snapshot), model.to_owned(), positions.to_owned());
        self.shared
            .store(move |store| {
                let tools = positions.iter().filter_map(|at| snapshot.catalog.tools.get(*at));
                let rows = tools.zip(&texts).zip(&vectors).map(|((tool, text), vector)| ToolVector {
                    key: ContentKey::new(TEXT_VERSION, &model, text),
                    backend: &tool.backend,
                    tool: &tool.definition.name,
                    description: &tool.description,
                    model_id: &model,
                    vector,
                });
                store.put_vectors(&rows.collect::<Vec<_>>(), milliseconds(SystemTime::now()))
            })
            .await;
        Ok(())
    }

    /// Embeds the tools that only some sessions have; returns true if there were any without a vector.
    async fn embed_of_sessions(&self, shared: &Snapshot, model: &str) -> Result<bool, EmbedError> {
        let sessions = &self.shared.session_snapshots;
        let texts = sessions.unembedded(shared, model);
        for batch in texts.chunks(self.provider.embedder.batch_size().max(1)) {
            let vectors = self.provider.embedder.embed(batch).await?;
            sessions.add_vectors(model, batch, vectors);
        }
        Ok(!texts.is_empty())
    }

    /// Probes a provider that was down when nothing is left to embed: only an answer ends the outage.
    async fn probe(&self, snapshot: &Snapshot) -> Result<(), EmbedError> {
        if self.provider.outage().is_none() {
            return Ok(());
        }
        match snapshot.texts.iter().find(|text| !text.is_empty()) {
            Some(text) => self.provider.embedder.embed(std::slice::from_ref(text)).await.map(|_| ()),
            None => Ok(()),
        }
    }
}
