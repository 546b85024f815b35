//! The background embedding task, one per process: embeds the tools of the newest snapshot that have no
//! vector, stores their vectors, and asks the conductor for a snapshot with them.
//!
//! While the provider fails, the task retries with exponential backoff (1, 2, 4, … 40 seconds), and searches
//! skip the provider. A remote service is asked every [`MODEL_CHECK_INTERVAL`] for its model, and embeds the
//! [canary](vmcp_embed::canary) with each batch, and by itself in intervals with queries; another model
//! embeds every tool again.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use vmcp_embed::EmbedError;
use vmcp_embed::canary::CANARY;
use vmcp_search::TEXT_VERSION;
use vmcp_store::{ContentKey, ToolVector};

use super::commands::ConductorHandle;
use crate::engine::embedding::known_model::{KnownModel, recognize};
use crate::engine::embedding::provider::MonitoredProvider;
use crate::engine::shared::Shared;
use crate::engine::snapshot::Snapshot;
use crate::metrics::EmbeddingLabels;
use crate::random::{milliseconds, random};

/// Interval at which a remote service is asked for its present model.
const MODEL_CHECK_INTERVAL: Duration = Duration::from_secs(15);
/// Interval at which an idle service embeds the canary: other weights under one name make no error.
const CANARY_INTERVAL: Duration = Duration::from_mins(10);
/// Pause before a service that has just changed its model is asked again; replicas may change one after the
/// other.
const CHANGE_PAUSE: Duration = Duration::from_secs(1);
/// Doublings of that pause while the model changes again and again: up to eight minutes.
const MAX_CHANGE_DOUBLINGS: u32 = 9;
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
        let mut identified = Instant::now();
        let mut changes = 0_u32;
        loop {
            if identified.elapsed() > CANARY_INTERVAL {
                self.provider.suspect();
            }
            if self.provider.is_suspect() {
                identified = Instant::now();
            }
            match self.pass(&mut seen).await {
                Ok(()) => {
                    changes = 0;
                    self.provider.recovered();
                    let (wanted, embedded) = self.shared.snapshot.load().embedding_progress();
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
                Err(error @ EmbedError::ModelChanged { .. }) => {
                    tracing::warn!(%error, "no vector of the last request is kept");
                    self.provider.suspect();
                    // A service that answers by several models in turn is not asked each second for ever.
                    let pause = CHANGE_PAUSE.saturating_mul(1 << changes.min(MAX_CHANGE_DOUBLINGS));
                    changes = changes.saturating_add(1);
                    tokio::time::sleep(pause).await;
                }
                Err(error) => {
                    let retry_at = self.provider.failed(&error);
                    tokio::time::sleep_until(retry_at.into()).await;
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
        let model = self.model().await?;
        if self.provider.take_unchecked() {
            self.check_canary(&model).await?;
        }
        let snapshot = self.shared.snapshot.load_full();
        let vectors = snapshot.index.vectors();
        let wanting = snapshot.texts.iter().enumerate().filter(|(_, text)| !text.is_empty());
        let mut missing: Vec<usize> = wanting.map(|(at, _)| at).filter(|at| !vectors.has(*at)).collect();
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
            let tools = missing.len();
            tracing::info!(tools, of = snapshot.texts.len(), model = model.id, "embedding tools");
        }
        let mut shown = Instant::now();
        start_apart(&mut missing, u32::from_le_bytes(random()));
        let mut rest = missing.as_slice();
        while !rest.is_empty() {
            let (batch, others) = rest.split_at(self.batch_size().min(rest.len()));
            rest = others;
            let batch = self.without_vector(&snapshot, &model, batch).await;
            if batch.is_empty() {
                continue;
            }
            self.embed(&snapshot, &model, &batch).await?;
            // An outage that a query has reported is over, long before this pass is.
            self.provider.recovered();
            if shown.elapsed() > PROGRESS_INTERVAL {
                self.conductor.load_vectors().await;
                shown = Instant::now();
            }
        }
        self.conductor.load_vectors().await;
        Ok(())
    }

    /// Returns the model that embeds from now on. It is identified at first contact, after each failure, when
    /// the service names another, and when something suggests another; then the snapshot gets its vectors.
    async fn model(&self) -> Result<Arc<KnownModel>, EmbedError> {
        let known = self.provider.known_model().filter(|_| !self.provider.is_suspect());
        if let Some(known) = known
            && self.model_id().await? == known.id
        {
            return Ok(known);
        }
        let model = self.identify().await?;
        if self.provider.learn_model(&model) {
            self.conductor.load_vectors().await;
        }
        Ok(model)
    }

    async fn model_id(&self) -> Result<String, EmbedError> {
        let named = self.provider.embedder.model_id().await;
        named.inspect_err(|_| self.count_error("model"))
    }

    /// Asks the provider for its model, and the canary for the one behind that name.
    pub(in crate::engine) async fn identify(&self) -> Result<Arc<KnownModel>, EmbedError> {
        let id = self.model_id().await?;
        if self.provider.embedder.is_pinned() {
            return Ok(Arc::new(KnownModel::pinned(id)));
        }
        let answered = self.request(&[CANARY.to_owned()]).await?.pop().unwrap_or_default();
        let name = id.clone();
        let stored = self.shared.store(move |store| store.canaries(&name)).await.unwrap_or_default();
        let canary = recognize(stored, answered);
        let (name, kept) = (id.clone(), canary.clone());
        self.shared.store(move |store| store.put_canary(&name, &kept)).await;
        Ok(Arc::new(KnownModel::with_canary(id, canary)))
    }

    /// Fails if the service has other weights than those that embedded the tools.
    async fn check_canary(&self, model: &KnownModel) -> Result<(), EmbedError> {
        if self.provider.embedder.is_pinned() {
            return Ok(());
        }
        let canary = self.request(&[CANARY.to_owned()]).await?.pop();
        model.check(canary.as_deref())
    }

    /// Returns the number of tools of the next request, which has room for the canary.
    pub(in crate::engine) fn batch_size(&self) -> usize {
        let texts = self.provider.embedder.batch_size();
        let tools = if self.provider.embedder.is_pinned() { texts } else { texts.saturating_sub(1) };
        tools.max(1)
    }

    /// Embeds texts of tools. The canary goes with them, so that the answer of another model, such as that of
    /// one replica of several, is an error.
    async fn vectors(&self, model: &KnownModel, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if self.provider.embedder.is_pinned() {
            return self.request(texts).await;
        }
        let mut vectors = Vec::with_capacity(texts.len());
        // The size may have become smaller meanwhile: each request has a canary of its own.
        for part in texts.chunks(self.batch_size()) {
            let with_canary: Vec<String> = part.iter().cloned().chain([CANARY.to_owned()]).collect();
            let mut answered = self.request(&with_canary).await?;
            let canary = answered.pop();
            model.check(canary.as_deref())?;
            vectors.extend(answered);
        }
        Ok(vectors)
    }

    async fn request(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let started = Instant::now();
        let embedded = self.provider.embedder.embed(texts).await;
        let duration =
            self.shared.metrics.embedding_duration.get_or_create(&EmbeddingLabels { kind: "tools" });
        duration.observe(started.elapsed().as_secs_f64());
        embedded.inspect_err(|_| self.count_error("tools"))
    }

    fn count_error(&self, kind: &'static str) {
        self.shared.metrics.embedding_errors.get_or_create(&EmbeddingLabels { kind }).inc();
    }

    /// Returns the positions whose text has no stored vector: another process that shares the cache may have
    /// embedded it meanwhile.
    async fn without_vector(
        &self,
        snapshot: &Arc<Snapshot>,
        model: &KnownModel,
        positions: &[usize],
    ) -> Vec<usize> {
        let key =
            |at: &usize| Some((*at, ContentKey::new(TEXT_VERSION, &model.key, snapshot.texts.get(*at)?)));
        let wanted: Vec<_> = positions.iter().filter_map(key).collect();
        let keys: Vec<_> = wanted.iter().map(|(_, key)| *key).collect();
        let stored = self.shared.store(move |store| store.vectors(&keys)).await.unwrap_or_default();
        wanted.into_iter().filter(|(_, key)| !stored.contains_key(key)).map(|(at, _)| at).collect()
    }

    /// Embeds the tools at these positions and stores their vectors.
    pub(in crate::engine) async fn embed(
        &self,
        snapshot: &Arc<Snapshot>,
        model: &KnownModel,
        positions: &[usize],
    ) -> Result<(), EmbedError> {
        let texts: Vec<String> = positions.iter().filter_map(|at| snapshot.texts.get(*at)).cloned().collect();
        let vectors = self.vectors(model, &texts).await?;
        let (snapshot, model, positions) = (Arc::clone(snapshot), model.key.clone(), positions.to_owned());
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
    async fn embed_of_sessions(&self, shared: &Snapshot, model: &KnownModel) -> Result<bool, EmbedError> {
        let sessions = &self.shared.session_snapshots;
        let texts = sessions.unembedded(shared, &model.key);
        for batch in texts.chunks(self.batch_size()) {
            let vectors = self.vectors(model, batch).await?;
            sessions.add_vectors(&model.key, batch, vectors);
        }
        Ok(!texts.is_empty())
    }

    /// Probes a provider that was down when nothing is left to embed: only an answer ends the outage.
    async fn probe(&self, snapshot: &Snapshot) -> Result<(), EmbedError> {
        if self.provider.outage().is_none() {
            return Ok(());
        }
        match snapshot.texts.iter().find(|text| !text.is_empty()) {
            Some(text) => self.request(std::slice::from_ref(text)).await.map(|_| ()),
            None => Ok(()),
        }
    }
}

/// Rotates the work to a random start, so that processes that share a cache and start together divide the
/// tools instead of embedding each twice. No process id: it is 1 in every container.
fn start_apart(positions: &mut [usize], seed: u32) {
    let start = (u64::from(seed) * positions.len() as u64) >> 32;
    positions.rotate_left(usize::try_from(start).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_start_apart_and_leave_nothing_out() {
        let start = |seed: u32| {
            let mut positions: Vec<usize> = (0..100).collect();
            start_apart(&mut positions, seed);
            let first = positions[0];
            positions.sort_unstable();
            assert!(positions.iter().copied().eq(0..100));
            first
        };
        assert_eq!([0, 1 << 31, u32::MAX].map(start), [0, 50, 99]);
        start_apart(&mut [], 7);
    }
}
