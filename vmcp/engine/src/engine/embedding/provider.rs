//! An embedding provider with its health: while it is down, searches skip it, and the background task retries
//! with exponential backoff.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use vmcp_config::status::{EmbeddingState, EmbeddingStatus};
use vmcp_embed::{EmbedError, Embedder};

use super::configured::LOCAL;
use super::health::{Outage, ProviderHealth, Verdict, is_overload};
use super::known_model::KnownModel;
use super::query_cache::QueryCache;

/// An embedding provider and its health. Another configuration makes another one.
pub(in crate::engine) struct MonitoredProvider {
    pub(in crate::engine) name: &'static str,
    pub(in crate::engine) embedder: Arc<dyn Embedder>,
    /// Embeds queries, by a cache in front of `embedder`.
    queries: Arc<QueryCache>,
    state: Mutex<ProviderState>,
    /// Notified when there may be something to embed, or the provider has just failed a query.
    wake: Notify,
}

#[derive(Default)]
struct ProviderState {
    /// Model that made the vectors of the present snapshot.
    model: Option<Arc<KnownModel>>,
    /// True if the model must be identified before it embeds more tools.
    suspect: bool,
    /// True if queries were embedded since the canary last was.
    is_unchecked: bool,
    health: ProviderHealth,
}

impl MonitoredProvider {
    pub(in crate::engine) fn new(name: &'static str, embedder: Arc<dyn Embedder>) -> MonitoredProvider {
        let queries = QueryCache::new(Arc::clone(&embedder));
        MonitoredProvider { name, embedder, queries, state: Mutex::default(), wake: Notify::new() }
    }

    /// Returns the model's part of the key of each stored vector, once known.
    pub(in crate::engine) fn model(&self) -> Option<String> {
        self.known_model().map(|model| model.key.clone())
    }

    /// Returns the model, once known.
    pub(in crate::engine) fn known_model(&self) -> Option<Arc<KnownModel>> {
        self.lock().model.clone()
    }

    /// Returns the embedder of queries, which remembers the last vectors.
    pub(in crate::engine) fn queries(&self) -> Arc<dyn Embedder> {
        Arc::clone(&self.queries) as _
    }

    /// Stores the model, which has just been identified; returns true if it is another one than before.
    pub(in crate::engine) fn learn_model(&self, model: &Arc<KnownModel>) -> bool {
        let mut state = self.lock();
        (state.suspect, state.is_unchecked) = (false, false);
        let before = state.model.replace(Arc::clone(model));
        drop(state);
        // Also for the same model: vectors that another one made in between are forgotten.
        self.queries.use_model(Arc::clone(model));
        before.is_none_or(|before| before.key != model.key)
    }

    /// True if the model must be identified before it embeds more tools: after each failure, because a
    /// service that comes back may have another model.
    pub(in crate::engine) fn is_suspect(&self) -> bool {
        self.lock().suspect
    }

    /// Returns true once if queries were embedded since the last canary: a service may have other weights
    /// under one name, and no answer to a query tells.
    pub(in crate::engine) fn take_unchecked(&self) -> bool {
        std::mem::take(&mut self.lock().is_unchecked)
    }

    /// Makes the background task identify the model at once.
    pub(in crate::engine) fn suspect(&self) {
        self.lock().suspect = true;
        self.wake();
    }

    /// Returns the outage, while the provider should not be asked.
    pub(in crate::engine) fn outage(&self) -> Option<Outage> {
        self.lock().health.outage().cloned()
    }

    /// Wakes the background task to look for something to embed.
    pub(in crate::engine) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits for [`MonitoredProvider::wake`].
    pub(in crate::engine) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Reports a query that failed after `took`. During an outage, searches skip the provider until the
    /// background task has had an answer from it.
    pub(in crate::engine) fn query_failed(&self, error: &EmbedError, took: Duration) {
        let now = Instant::now();
        let began = now.checked_sub(took).unwrap_or(now);
        let mut state = self.lock();
        let verdict = state.health.query_failed(error, began, now);
        state.suspect |= verdict != Verdict::Passes;
        drop(state);
        if verdict == Verdict::Down {
            self.log(error);
        }
        if verdict != Verdict::Passes {
            self.wake();
        }
    }

    /// Reports a query that was embedded in time.
    pub(in crate::engine) fn query_answered(&self) {
        let mut state = self.lock();
        state.health.query_answered();
        state.is_unchecked = true;
    }

    /// Reports a query that was not embedded within `after`. The model in this process is merely busy; a
    /// service may have failed.
    pub(in crate::engine) fn query_slow(&self, after: Duration) {
        if self.name != LOCAL {
            let endpoint = "of the configuration".to_owned();
            self.query_failed(&EmbedError::Timeout { endpoint, after }, after);
        }
    }

    /// Reports a failure of the background task; returns the time of its next attempt. Searches
    /// still ask a service without room for tools.
    pub(in crate::engine) fn failed(&self, error: &EmbedError) -> Instant {
        let mut state = self.lock();
        state.suspect = true;
        let is_first = state.health.outage().is_none();
        if is_first && is_overload(error) {
            let pause = state.health.refused(error);
            drop(state);
            tracing::warn!(provider = self.name, reason = %error, ?pause, "embedding tools is put off");
            return Instant::now() + pause;
        }
        let retry_at = state.health.failed(error.clone(), Instant::now()).retry_at;
        drop(state);
        // Logged once per outage, not with every attempt.
        if is_first {
            self.log(error);
        }
        retry_at
    }

    /// Reports an answer to the background task.
    pub(in crate::engine) fn recovered(&self) {
        if self.lock().health.recovered() {
            tracing::info!(provider = self.name, "embedding provider answers again");
        }
    }

    fn log(&self, error: &EmbedError) {
        let hint = hint(error).unwrap_or_default();
        tracing::warn!(provider = self.name, reason = %error, hint, "embeddings degraded");
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, ProviderState> {
        self.state.lock()
    }

    /// Returns the state of embedding; `progress` is that of the snapshot.
    pub(in crate::engine) fn status(&self, progress: (usize, usize)) -> EmbeddingStatus {
        let (wanted, embedded) = progress;
        let (model, down) = (self.known_model().map(|model| model.id.clone()), self.outage());
        let hint = down.as_ref().and_then(|down| hint(&down.error));
        let state = match down {
            Some(_) => EmbeddingState::Degraded,
            None if embedded < wanted => EmbeddingState::Working,
            None => EmbeddingState::Ready,
        };
        let retry_in = |down: &Outage| down.retry_at.saturating_duration_since(Instant::now()).as_secs();
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

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;

    #[derive(Debug)]
    struct Unused;

    #[async_trait]
    impl Embedder for Unused {
        async fn embed(&self, _: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
            Ok(Vec::new())
        }

        async fn model_id(&self) -> Result<String, EmbedError> {
            Ok("unused".to_owned())
        }

        fn batch_size(&self) -> usize {
            1
        }
    }

    #[test]
    fn a_busy_process_does_not_declare_its_own_model_down() {
        let local = MonitoredProvider::new("local", Arc::new(Unused));
        (0..10).for_each(|_| local.query_slow(Duration::ZERO));
        assert!(local.outage().is_none());
        let service = MonitoredProvider::new("tei", Arc::new(Unused));
        (0..10).for_each(|_| service.query_slow(Duration::ZERO));
        assert!(service.outage().is_some() && service.is_suspect());
    }

    #[test]
    fn a_canary_is_due_after_queries_alone() {
        let service = MonitoredProvider::new("tei", Arc::new(Unused));
        assert!(!service.take_unchecked());
        service.query_answered();
        assert!(service.take_unchecked() && !service.take_unchecked());
        service.query_answered();
        service.learn_model(&Arc::new(KnownModel::pinned("m".to_owned())));
        assert!(!service.take_unchecked(), "it was identified meanwhile");
    }

    #[test]
    fn a_service_without_room_for_tools_is_still_asked_by_searches() {
        let service = MonitoredProvider::new("tei", Arc::new(Unused));
        let full = EmbedError::Status {
            endpoint: "x".to_owned(),
            status: 429,
            message: "Model is overloaded".to_owned(),
            retry_after: None,
        };
        service.failed(&full);
        assert!(service.outage().is_none());
        service.query_failed(&full, Duration::ZERO);
        assert!(service.outage().is_none());
        service.failed(&EmbedError::Unreachable { endpoint: "x".to_owned(), reason: "y".to_owned() });
        assert!(service.outage().is_some());
        service.recovered();
        assert!(service.outage().is_none() && service.is_suspect(), "another model may have come back");
    }
}
