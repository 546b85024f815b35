//! An embedding provider with its health: while it is down, searches skip it, and the background task retries
//! with exponential backoff.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use vmcp_config::status::{EmbeddingState, EmbeddingStatus};
use vmcp_embed::{EmbedError, Embedder};

use super::configured::LOCAL;
use super::query_cache::QueryCache;
use crate::engine::snapshot::Snapshot;

/// Longest pause between two attempts. The operator looks at its pods every 10 s, and tells within a minute
/// that a service is back.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(40);
/// Pause while the local model is missing: the user is probably fetching it, and a look opens one file.
const MISSING_MODEL_PAUSE: Duration = Duration::from_millis(250);
/// Longest pause while the local model is damaged; a look reads all of it.
const MAX_MODEL_RETRY_PAUSE: Duration = Duration::from_secs(3);

/// Queries in a row that a service does not embed in time before it counts as failed.
const MAX_SLOW_QUERIES: u32 = 3;

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
    /// Id of the model that made the vectors of the present snapshot.
    model: Option<String>,
    outage: Option<Outage>,
    failures: u32,
    /// Queries in a row that were not embedded in time.
    slow_queries: u32,
}

/// A failure of the provider, and the time of the next attempt.
#[derive(Clone)]
pub(in crate::engine) struct Outage {
    pub(in crate::engine) error: EmbedError,
    pub(in crate::engine) retry_at: Instant,
}

impl MonitoredProvider {
    pub(in crate::engine) fn new(name: &'static str, embedder: Arc<dyn Embedder>) -> MonitoredProvider {
        let queries = QueryCache::new(Arc::clone(&embedder));
        MonitoredProvider { name, embedder, queries, state: Mutex::default(), wake: Notify::new() }
    }

    /// Returns the model's id, once known.
    pub(in crate::engine) fn model(&self) -> Option<String> {
        self.lock().model.clone()
    }

    /// Returns the embedder of queries, which remembers the last vectors.
    pub(in crate::engine) fn queries(&self) -> Arc<dyn Embedder> {
        Arc::clone(&self.queries) as _
    }

    /// Stores the model's id; returns true if it is another one than before.
    pub(in crate::engine) fn learn_model(&self, model: &str) -> bool {
        let changed = self.lock().model.replace(model.to_owned()).as_deref() != Some(model);
        if changed {
            self.queries.clear();
        }
        changed
    }

    /// Returns the outage, while the provider should not be asked.
    pub(in crate::engine) fn outage(&self) -> Option<Outage> {
        self.lock().outage.clone()
    }

    /// Wakes the background task to look for something to embed.
    pub(in crate::engine) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits for [`MonitoredProvider::wake`].
    pub(in crate::engine) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Reports a failed query. Searches skip the provider until the background task has had an answer from
    /// it. Each search of an ongoing outage reports the known failure; it must not put the next attempt off.
    pub(in crate::engine) fn query_failed(&self, error: EmbedError) {
        if self.outage().is_none() {
            self.failed(error);
            self.wake();
        }
    }

    /// Reports a query that was embedded in time.
    pub(in crate::engine) fn query_answered(&self) {
        self.lock().slow_queries = 0;
    }

    /// Reports a query that was not embedded within `after`. The model in this process is merely busy, and so
    /// may a service be; [`MAX_SLOW_QUERIES`] in a row mean that it failed.
    pub(in crate::engine) fn query_slow(&self, after: Duration) {
        let in_a_row = {
            let mut state = self.lock();
            state.slow_queries += 1;
            state.slow_queries
        };
        if self.name != LOCAL && in_a_row >= MAX_SLOW_QUERIES {
            self.query_failed(EmbedError::Timeout { endpoint: "of the configuration".to_owned(), after });
        }
    }

    pub(in crate::engine) fn failed(&self, error: EmbedError) -> Outage {
        let mut state = self.lock();
        // Logged once per outage, not with every attempt.
        if state.outage.is_none() {
            let hint = hint(&error).unwrap_or_default();
            tracing::warn!(provider = self.name, reason = %error, hint, "embeddings degraded");
        }
        let pause = pause(&error, state.failures);
        state.failures = state.failures.saturating_add(1);
        let down = Outage { error, retry_at: Instant::now() + pause };
        state.outage = Some(down.clone());
        down
    }

    pub(in crate::engine) fn recovered(&self) {
        let mut state = self.lock();
        (state.failures, state.slow_queries) = (0, 0);
        if state.outage.take().is_some() {
            tracing::info!(provider = self.name, "embedding provider answers again");
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, ProviderState> {
        self.state.lock()
    }

    pub(in crate::engine) fn status(&self, snapshot: &Snapshot) -> EmbeddingStatus {
        let (wanted, embedded) = progress(snapshot);
        let (model, down) = (self.model(), self.outage());
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

/// Returns the number of tools that want a vector, and the number of tools that have a vector.
pub(in crate::engine) fn progress(snapshot: &Snapshot) -> (usize, usize) {
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
        EmbedError::ModelMissing { .. } => return MISSING_MODEL_PAUSE,
        EmbedError::ModelCorrupt { .. } => MAX_MODEL_RETRY_PAUSE,
        _ => MAX_RETRY_PAUSE,
    };
    Duration::from_secs(1_u64 << failures.min(6)).min(longest)
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
    fn a_model_that_is_fetched_is_noticed_at_once_and_a_service_is_spared() {
        let missing = EmbedError::ModelMissing { model: "m", dir: "x".into() };
        let down = EmbedError::Unreachable { endpoint: "x".to_owned(), reason: "y".to_owned() };
        for failures in [0, 5, 1000] {
            assert_eq!(pause(&missing, failures), MISSING_MODEL_PAUSE);
        }
        let pauses = [0, 1, 2, 3, 4, 5, 6, 1000].map(|failures| pause(&down, failures).as_secs());
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 40, 40]);
    }

    #[test]
    fn a_busy_process_does_not_declare_its_own_model_down() {
        let provider = |name| MonitoredProvider::new(name, Arc::new(Unused));
        let (local, service) = (provider("local"), provider("tei"));
        let slow = |times| (0..times).for_each(|_| service.query_slow(Duration::from_secs(2)));
        (0..10).for_each(|_| local.query_slow(Duration::from_secs(2)));
        assert!(local.outage().is_none());
        slow(MAX_SLOW_QUERIES - 1);
        service.query_answered();
        slow(MAX_SLOW_QUERIES - 1);
        assert!(service.outage().is_none(), "one answer in between");
        slow(1);
        assert!(service.outage().is_some());
    }
}
