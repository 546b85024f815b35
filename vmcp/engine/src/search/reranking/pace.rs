//! [`RerankPace`]: the number of hits that a re-ranking service orders within its deadline.

use std::time::Duration;

/// Fewest hits worth a request. A service that does not order them in time has failed.
const MIN_CANDIDATES: usize = 4;
/// Hits by which the number grows again after an answer in less than half of the deadline.
const GROWTH: usize = 2;

/// Additive increase, multiplicative decrease: a time-out halves the number, quick answers raise it again.
#[derive(Debug)]
pub(super) struct RerankPace {
    candidates: usize,
    most: usize,
}

impl RerankPace {
    /// Starts with the configured number.
    pub(super) fn new(most: usize) -> RerankPace {
        RerankPace { candidates: most, most }
    }

    /// Returns the number of hits of the next request.
    pub(super) fn candidates(&self) -> usize {
        self.candidates
    }

    /// Records a request for `hits` hits that was not answered in time. Returns false if fewer hits would not
    /// help.
    pub(super) fn timed_out(&mut self, hits: usize) -> bool {
        // Requests at one time count as one: an earlier time-out has lowered the number already.
        if hits > self.candidates {
            return true;
        }
        let fewer = (self.candidates / 2).max(MIN_CANDIDATES).min(self.candidates);
        let helps = fewer < self.candidates;
        self.candidates = fewer;
        helps
    }

    /// Records an answer to a request for `hits` hits; an answer for fewer than
    /// [`candidates`](RerankPace::candidates) says nothing about more.
    pub(super) fn answered(&mut self, hits: usize, took: Duration, deadline: Duration) {
        if hits >= self.candidates && took < deadline / 2 {
            self.candidates = (self.candidates + GROWTH).min(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_service_gets_fewer_hits_and_a_quick_one_all() {
        let (deadline, slow, quick) = (Duration::from_secs(2), Duration::from_secs(1), Duration::ZERO);
        let mut pace = RerankPace::new(30);
        assert_eq!(pace.candidates(), 30);
        let fewer = [(); 4].map(|()| (pace.timed_out(pace.candidates()), pace.candidates()));
        assert_eq!(fewer, [(true, 15), (true, 7), (true, 4), (false, 4)]);
        pace.answered(4, slow, deadline);
        assert_eq!(pace.candidates(), 4, "half of the deadline leaves no room for more");
        (0..20).for_each(|_| pace.answered(30, quick, deadline));
        assert_eq!(pace.candidates(), 30);
        assert!(pace.timed_out(30) && pace.timed_out(30));
        assert_eq!(pace.candidates(), 15, "requests at one time count as one");
        pace.answered(2, quick, deadline);
        assert_eq!(pace.candidates(), 15, "two hits say nothing about more");
        let mut few = RerankPace::new(2);
        assert!(!few.timed_out(2));
        assert_eq!(few.candidates(), 2, "as many as are configured, at most");
    }
}
