//! Embeds tools in the background and watches over the provider (R022-24, -26, -27, -42).
//!
//! One task a process: it looks at the newest snapshot, embeds what has no vector, stores it and asks the conductor for a
//! snapshot with the vectors. While the provider fails, it tries again after 1, 2, 4, … 60 seconds, and searches do not
//! ask the provider at all.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::Notify;
use vmcp_config::status::{EmbeddingState, EmbeddingStatus};
use vmcp_embed::{EmbedError, Embedder};
use vmcp_search::TEXT_VERSION;
use vmcp_store::{ContentKey, ToolVector};

use super::changes::milliseconds;
use super::conductor::Conductor;
use super::shared::Shared;
use super::snapshot::Snapshot;
use crate::telemetry::metrics::EmbeddingLabels;

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// A missing model is looked for more often: somebody is probably fetching it, and looking costs nothing.
const MODEL_PAUSE: Duration = Duration::from_secs(3);
/// How often a remote service is asked whether it still serves the same model.
const MODEL_CHECK: Duration = Duration::from_secs(15);
/// How often a long run shows what it has so far.
const PROGRESS: Duration = Duration::from_secs(2);

/// One provider and how it is doing. Another configuration makes another one.
pub(super) struct Provider {
    pub(super) name: &'static str,
    pub(super) embedder: Arc<dyn Embedder>,
    state: Mutex<State>,
    /// There may be something to embed, or the provider has just failed a query.
    wake: Notify,
}

#[derive(Default)]
struct State {
    /// The model that the vectors of the present snapshot are of.
    model: Option<String>,
    down: Option<Down>,
    failures: u32,
}

/// The provider failed.
#[derive(Clone)]
pub(super) struct Down {
    pub(super) error: EmbedError,
    pub(super) retry_at: Instant,
}

impl Provider {
    pub(super) fn new(name: &'static str, embedder: Arc<dyn Embedder>) -> Provider {
        Provider { name, embedder, state: Mutex::default(), wake: Notify::new() }
    }

    /// The model, once known.
    pub(super) fn model(&self) -> Option<String> {
        self.lock().model.clone()
    }

    /// Why the provider should not be asked at present.
    pub(super) fn down(&self) -> Option<Down> {
        self.lock().down.clone()
    }

    /// Looks for something to embed, soon.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    /// A query failed. Searches leave the provider alone until the background task has had an answer from it. While it
    /// is down already, each of them reports the known failure, which must not put the next attempt off.
    pub(super) fn query_failed(&self, error: EmbedError) {
        if self.down().is_none() {
            self.failed(error);
            self.wake();
        }
    }

    fn failed(&self, error: EmbedError) -> Down {
        let mut state = self.lock();
        // Once, not with every attempt.
        if state.down.is_none() {
            let hint = hint(&error).unwrap_or_default();
            tracing::warn!(provider = self.name, reason = %error, hint, "embeddings degraded");
        }
        let pause = pause(&error, state.failures);
        state.failures = state.failures.saturating_add(1);
        let down = Down { error, retry_at: Instant::now() + pause };
        state.down = Some(down.clone());
        down
    }

    fn recovered(&self) {
        let mut state = self.lock();
        state.failures = 0;
        if state.down.take().is_some() {
            tracing::info!(provider = self.name, "embedding provider answers again");
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn status(&self, snapshot: &Snapshot) -> EmbeddingStatus {
        let (wanted, embedded) = progress(snapshot);
        let (model, down) = (self.model(), self.down());
        let hint = down.as_ref().and_then(|down| hint(&down.error));
        let state = match down {
            Some(_) => EmbeddingState::Degraded,
            None if embedded < wanted => EmbeddingState::Working,
            None => EmbeddingState::Ready,
        };
        let retry_in = |down: &Down| down.retry_at.saturating_duration_since(Instant::now()).as_secs();
        EmbeddingStatus {
            provider: self.name.to_owned(),
            model,
            wanted,
            embedded,
            state,
            retry_in_seconds: down.as_ref().map(retry_in),
            reason: down.map(|down| down.error.to_string()),
            hint,
        }
    }
}

/// Tools that want a vector, and those that have one.
pub(super) fn progress(snapshot: &Snapshot) -> (usize, usize) {
    (snapshot.texts.iter().filter(|text| !text.is_empty()).count(), snapshot.index.vectors().count())
}

fn hint(error: &EmbedError) -> Option<String> {
    match error {
        EmbedError::ModelMissing { .. } | EmbedError::ModelCorrupt { .. } => {
            Some("run `vmcp model pull`; until then searches go by keywords".to_owned())
        }
        EmbedError::Unreachable { .. } => Some(
            "check optimizer.embeddings and whether the service runs; until then searches go by keywords"
                .to_owned(),
        ),
        _ => None,
    }
}

fn pause(error: &EmbedError, failures: u32) -> Duration {
    let longest = match error {
        EmbedError::ModelMissing { .. } | EmbedError::ModelCorrupt { .. } => MODEL_PAUSE,
        _ => LONGEST_PAUSE,
    };
    Duration::from_secs(1_u64 << failures.min(6)).min(longest)
}

/// The background task of one provider.
pub(super) struct Worker {
    pub(super) provider: Arc<Provider>,
    pub(super) shared: Arc<Shared>,
    pub(super) conductor: Conductor,
}

impl Worker {
    /// Runs until it is dropped.
    pub(super) async fn run(self) {
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
                        () = self.provider.wake.notified() => {}
                        () = tokio::time::sleep(MODEL_CHECK) => {}
                    }
                }
                Err(error) => {
                    let down = self.provider.failed(error);
                    tokio::time::sleep_until(down.retry_at.into()).await;
                }
            }
        }
    }

    /// Brings every tool of the newest snapshot to a vector of the provider's present model. `seen` are the texts of the
    /// last pass, which are counted as hits and misses only once.
    async fn pass(&self, seen: &mut Arc<Vec<String>>) -> Result<(), EmbedError> {
        if let Some(down) = self.provider.down() {
            tokio::time::sleep_until(down.retry_at.into()).await;
        }
        let model = self.provider.embedder.model_id().await?;
        if self.provider.lock().model.replace(model.clone()) != Some(model.clone()) {
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
            return self.probe(&snapshot).await;
        }
        // While the provider is down this is tried again and again; that it is down has been said.
        if self.provider.down().is_none() {
            tracing::info!(tools = missing.len(), of = snapshot.texts.len(), model, "embedding tools");
        }
        let mut shown = Instant::now();
        for batch in missing.chunks(self.provider.embedder.batch_size().max(1)) {
            self.embed(&snapshot, &model, batch).await?;
            if shown.elapsed() > PROGRESS {
                self.conductor.load_vectors().await;
                shown = Instant::now();
            }
        }
        self.conductor.load_vectors().await;
        Ok(())
    }

    /// Embeds the tools at these positions and stores their vectors.
    async fn embed(
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

    /// After a failure, with nothing left to embed: has the provider come back?
    async fn probe(&self, snapshot: &Snapshot) -> Result<(), EmbedError> {
        if self.provider.down().is_none() {
            return Ok(());
        }
        match snapshot.texts.iter().find(|text| !text.is_empty()) {
            Some(text) => self.provider.embedder.embed(std::slice::from_ref(text)).await.map(|_| ()),
            None => Ok(()),
        }
    }
}
