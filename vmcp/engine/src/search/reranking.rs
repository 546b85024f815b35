//! Re-ranking of the first hits by a service, behind a circuit breaker: while the service fails, searches
//! keep their own order without waiting for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use vmcp_embed::{EmbedError, Reranker};

/// Longest pause between two attempts at a service that fails.
const MAX_PAUSE: Duration = Duration::from_mins(1);

/// The service that reorders the first hits of searches, and the texts that it reads.
#[derive(Clone)]
pub struct Reranking {
    /// The service.
    pub service: Arc<GuardedReranker>,
    /// Texts of the tools, by document.
    pub texts: Arc<Vec<String>>,
    /// Hits that are reordered.
    pub candidates: usize,
}

/// A re-ranking service with its circuit breaker.
pub struct GuardedReranker {
    reranker: Reranker,
    breaker: Mutex<Breaker>,
}

#[derive(Default)]
struct Breaker {
    /// Failures in a row.
    failures: u32,
    /// Time of the next attempt, while the service fails.
    retry_at: Option<Instant>,
}

impl GuardedReranker {
    pub(crate) fn new(reranker: Reranker) -> GuardedReranker {
        GuardedReranker { reranker, breaker: Mutex::default() }
    }

    /// Returns the scores of texts; an error in words without addresses.
    pub(crate) async fn scores(&self, query: &str, texts: &[&str]) -> Result<Vec<f32>, String> {
        if !self.breaker.lock().admits(Instant::now()) {
            return Err("it has failed and is not asked for a while".to_owned());
        }
        let scores = self.reranker.scores(query, texts).await;
        self.settle(scores.as_ref().err());
        scores.map_err(|error| error.category().to_owned())
    }

    fn settle(&self, error: Option<&EmbedError>) {
        let mut breaker = self.breaker.lock();
        match error {
            Some(error) => {
                // Logged once per outage, not with every attempt.
                if breaker.failures == 0 {
                    tracing::warn!(reason = %error, "re-ranking degraded; searches keep their own order");
                }
                breaker.failed(Instant::now());
            }
            None if breaker.failures > 0 => {
                tracing::info!("the re-ranking service answers again");
                *breaker = Breaker::default();
            }
            None => {}
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

    #[tokio::test]
    async fn a_service_that_failed_is_left_alone() {
        let service = FakeService::start().await.unwrap();
        service.set(|behavior| behavior.failures.push_back(500));
        let reranker = Reranker::new(&service.url(), Duration::from_secs(30)).unwrap();
        let guarded = GuardedReranker::new(reranker);
        assert_eq!(guarded.scores("a", &["a"]).await.unwrap_err(), "status");
        // The pause is made long, so that a slow machine does not end it.
        guarded.breaker.lock().retry_at = Some(Instant::now() + Duration::from_hours(1));
        assert!(guarded.scores("a", &["a"]).await.unwrap_err().contains("not asked"));
        assert_eq!(service.requests(), 1);
        guarded.breaker.lock().retry_at = Some(Instant::now());
        assert!(guarded.scores("a", &["a"]).await.is_ok(), "it is asked again, and mended");
        assert!(guarded.scores("a", &["a"]).await.is_ok());
        assert_eq!(service.requests(), 3);
    }
}
