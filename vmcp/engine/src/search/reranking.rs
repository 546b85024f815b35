//! Re-ranking of the first hits by a service, behind a circuit breaker: while the service fails, searches
//! keep their own order without waiting for it.

mod pace;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use vmcp_config::status::RerankStatus;
use vmcp_embed::{EmbedError, Reranker};

use pace::RerankPace;

/// Longest pause between two attempts at a service that fails.
const MAX_PAUSE: Duration = Duration::from_mins(1);

/// The service that reorders the first hits of searches, and the texts that it reads.
#[derive(Clone)]
pub struct Reranking {
    /// The service.
    pub service: Arc<GuardedReranker>,
    /// Texts of the tools, by document.
    pub texts: Arc<Vec<String>>,
    /// Most hits that are reordered; a slow service gets fewer.
    pub candidates: usize,
}

/// A re-ranking service with its circuit breaker and its deadline.
pub struct GuardedReranker {
    reranker: Reranker,
    /// Time that a search waits for it.
    deadline: Duration,
    state: Mutex<RerankerState>,
}

struct RerankerState {
    breaker: Breaker,
    pace: RerankPace,
    /// The last failure, until an answer.
    error: Option<EmbedError>,
}

#[derive(Default)]
struct Breaker {
    /// Failures in a row.
    failures: u32,
    /// Time of the next attempt, while the service fails.
    retry_at: Option<Instant>,
}

/// Reordering of one search, or the reason why it keeps its own order.
#[derive(Debug, Clone)]
pub struct Reordering {
    /// Time that the service took; `None`: the service was not asked, because it has failed.
    pub took: Option<Duration>,
    /// Reason why the search keeps its own order, in words without addresses.
    pub error: Option<String>,
}

impl GuardedReranker {
    /// Guards a service that orders at most `candidates` hits while a search waits for `deadline`.
    pub(crate) fn new(reranker: Reranker, deadline: Duration, candidates: usize) -> GuardedReranker {
        let state =
            RerankerState { breaker: Breaker::default(), pace: RerankPace::new(candidates), error: None };
        GuardedReranker { reranker, deadline, state: Mutex::new(state) }
    }

    /// Returns the number of hits that the service orders in time.
    pub(crate) fn candidates(&self) -> usize {
        self.state.lock().pace.candidates()
    }

    /// Returns the scores of texts, if the service is asked and answers in time.
    pub(crate) async fn scores(&self, query: &str, texts: &[&str]) -> (Option<Vec<f32>>, Reordering) {
        let started = Instant::now();
        if !self.state.lock().breaker.admits(started) {
            let error = "it has failed and is not asked for a while".to_owned();
            return (None, Reordering { took: None, error: Some(error) });
        }
        let answered = tokio::time::timeout(self.deadline, self.reranker.scores(query, texts)).await;
        let late =
            || EmbedError::Timeout { endpoint: "of optimizer.rerank".to_owned(), after: self.deadline };
        let scores = answered.unwrap_or_else(|_| Err(late()));
        let took = started.elapsed();
        let error = scores.as_ref().err();
        self.settle(error, texts.len(), took);
        let error = error.map(|error| error.category().to_owned());
        (scores.ok(), Reordering { took: Some(took), error })
    }

    /// Returns the state of the service, for the status report.
    pub(crate) fn status(&self) -> RerankStatus {
        let state = self.state.lock();
        let retry_in = |at: Instant| at.saturating_duration_since(Instant::now()).as_secs();
        RerankStatus {
            candidates: state.pace.candidates(),
            reason: state.error.as_ref().map(ToString::to_string),
            retry_in_seconds: state.breaker.retry_at.map(retry_in),
        }
    }

    fn settle(&self, error: Option<&EmbedError>, hits: usize, took: Duration) {
        let mut state = self.state.lock();
        let Some(error) = error else {
            if state.error.take().is_some() {
                tracing::info!("the re-ranking service answers again");
            }
            state.breaker = Breaker::default();
            state.pace.answered(hits, took, self.deadline);
            return;
        };
        // Logged once for each kind of failure, not with every attempt.
        let before = state.error.replace(error.clone());
        if before.is_none_or(|before| before.category() != error.category()) {
            tracing::warn!(reason = %error, "re-ranking degraded; searches keep their own order");
        }
        // The next search asks for fewer hits at once; a service too slow for these has failed.
        let goes_on = matches!(error, EmbedError::Timeout { .. }) && state.pace.timed_out(hits);
        if !goes_on {
            state.breaker.failed(Instant::now());
        }
    }
}

impl Breaker {
    /// True if a request may be made. When the pause is over, one request tries (half open); the others wait
    /// for its outcome, or for the next pause.
    fn admits(&mut self, now: Instant) -> bool {
        match self.retry_at {
            None => true,
            Some(retry_at) if now >= retry_at => {
                self.retry_at = Some(now + self.pause());
                true
            }
            Some(_) => false,
        }
    }

    fn failed(&mut self, now: Instant) {
        self.retry_at = Some(now + self.pause());
        self.failures = self.failures.saturating_add(1);
    }

    /// Exponential backoff: 1 s, doubled by each failure.
    fn pause(&self) -> Duration {
        Duration::from_secs(1 << self.failures.min(6)).min(MAX_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use vmcp_embed::RerankerSettings;
    use vmcp_embed::testing::FakeService;

    use super::*;

    #[test]
    fn an_open_breaker_lets_one_request_try_after_each_pause() {
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let mut breaker = Breaker::default();
        assert!(breaker.admits(start) && breaker.admits(start));
        breaker.failed(start);
        assert!(!breaker.admits(start));
        assert!(breaker.admits(after(1)), "one may try");
        assert!(!breaker.admits(after(1)), "the others do not");
        breaker.failed(after(1));
        assert!(!breaker.admits(after(2)) && breaker.admits(after(3)), "the pause doubles");
        (0..40).for_each(|_| breaker.failed(after(3)));
        assert!(!breaker.admits(after(62)) && breaker.admits(after(63)), "up to its limit");
    }

    fn guarded(service: &FakeService, deadline: Duration) -> GuardedReranker {
        let timeout = Duration::from_mins(1);
        let settings = RerankerSettings { endpoint: service.url(), headers: Vec::new(), timeout };
        GuardedReranker::new(Reranker::new(&settings).unwrap(), deadline, 8)
    }

    #[tokio::test]
    async fn a_service_that_failed_is_left_alone() {
        let service = FakeService::start().await.unwrap();
        service.set(|behavior| behavior.failures.push_back(500));
        let guarded = guarded(&service, Duration::from_secs(30));
        let (scores, reordering) = guarded.scores("a", &["a"]).await;
        assert!(scores.is_none() && reordering.took.is_some());
        assert_eq!(reordering.error.as_deref(), Some("status"));
        let status = guarded.status();
        assert!(status.reason.unwrap().contains("told to fail") && status.retry_in_seconds.is_some());
        // The pause is made long, so that a slow machine does not end it.
        guarded.state.lock().breaker.retry_at = Some(Instant::now() + Duration::from_hours(1));
        let (_, reordering) = guarded.scores("a", &["a"]).await;
        assert!(reordering.took.is_none() && reordering.error.unwrap().contains("not asked"));
        assert_eq!(service.requests(), 1);
        guarded.state.lock().breaker.retry_at = Some(Instant::now());
        assert!(guarded.scores("a", &["a"]).await.0.is_some(), "it is asked again, and mended");
        assert!(guarded.scores("a", &["a"]).await.0.is_some());
        assert_eq!(service.requests(), 3);
        assert_eq!(guarded.status(), RerankStatus { candidates: 8, ..RerankStatus::default() });
    }

    #[tokio::test]
    async fn a_slow_service_is_asked_for_fewer_hits_before_it_counts_as_failed() {
        let service = FakeService::start().await.unwrap();
        service.set(|behavior| behavior.delay = Duration::from_hours(1));
        let guarded = guarded(&service, Duration::from_millis(50));
        let (_, reordering) = guarded.scores("a", &["a"]).await;
        assert_eq!(reordering.error.as_deref(), Some("timeout"));
        let status = guarded.status();
        assert_eq!((status.candidates, status.retry_in_seconds), (4, None), "the next search asks again");
        guarded.scores("a", &["a"]).await;
        assert!(guarded.status().retry_in_seconds.is_some());
    }
}
