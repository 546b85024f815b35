//! [`QueryTraffic`]: queries on their way to a service, so that bulk work gives way to them.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

/// Time after a query in which bulk requests stay small: people search several times in a row.
const RECENT: Duration = Duration::from_secs(5);
/// Texts of a bulk request beside searches. A service on a CPU needs a quarter of the time for it
/// that a batch of 32 takes; measured with TEI, the median query beside bulk work falls from 628 to 278 ms,
/// and a cold start takes as long as before.
pub(crate) const MAX_YIELDING_BATCH: usize = 8;
/// Longest wait of a bulk request for queries to end, so that constant searching delays bulk work only.
const MAX_YIELD: Duration = Duration::from_millis(500);

/// Counts queries in flight.
pub(crate) struct QueryTraffic {
    in_flight: watch::Sender<usize>,
    last: Mutex<Option<Instant>>,
}

/// One query in flight; its drop ends the query.
pub(crate) struct QueryInFlight<'a>(&'a QueryTraffic);

impl QueryTraffic {
    pub(crate) fn new() -> Self {
        Self { in_flight: watch::Sender::new(0), last: Mutex::default() }
    }

    /// Counts a query until the returned guard is dropped.
    pub(crate) fn enter(&self) -> QueryInFlight<'_> {
        self.in_flight.send_modify(|queries| *queries += 1);
        QueryInFlight(self)
    }

    /// Returns the number of texts of the next bulk request: `full` without recent queries.
    pub(crate) fn bulk_batch(&self, full: usize) -> usize {
        let since_last = self.last.lock().map(|last| last.elapsed());
        let is_searched = *self.in_flight.borrow() > 0 || since_last.is_some_and(|since| since < RECENT);
        if is_searched { full.min(MAX_YIELDING_BATCH) } else { full }
    }

    /// Waits until no query is in flight, at most [`MAX_YIELD`].
    pub(crate) async fn let_queries_pass(&self) {
        let mut in_flight = self.in_flight.subscribe();
        let idle = in_flight.wait_for(|queries| *queries == 0);
        // Beyond the limit, the bulk request goes out beside the queries.
        let _in_time = tokio::time::timeout(MAX_YIELD, idle).await;
    }
}

impl Drop for QueryInFlight<'_> {
    fn drop(&mut self) {
        *self.0.last.lock() = Some(Instant::now());
        self.0.in_flight.send_modify(|queries| *queries = queries.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_requests_are_small_beside_searches() {
        let traffic = QueryTraffic::new();
        assert_eq!(traffic.bulk_batch(32), 32);
        let query = traffic.enter();
        assert_eq!((traffic.bulk_batch(32), traffic.bulk_batch(2)), (MAX_YIELDING_BATCH, 2));
        drop(query);
        assert_eq!(traffic.bulk_batch(32), MAX_YIELDING_BATCH, "the next search is likely");
        *traffic.last.lock() = Instant::now().checked_sub(RECENT);
        assert_eq!(traffic.bulk_batch(32), 32);
    }

    #[tokio::test(start_paused = true)]
    async fn a_bulk_request_waits_for_queries_and_not_for_ever() {
        let traffic = QueryTraffic::new();
        let query = traffic.enter();
        let started = tokio::time::Instant::now();
        traffic.let_queries_pass().await;
        assert_eq!(started.elapsed(), MAX_YIELD);
        drop(query);
        traffic.let_queries_pass().await;
        assert_eq!(started.elapsed(), MAX_YIELD, "none is in flight");
    }
}
