//! [`PrincipalShares`]: a table that no principal can fill for all others.
//!
//! Whatever clients can make this process keep (questions, parked calls, subscriptions, sessions,
//! connections) is counted by principal: each has its share, and all together have the limit of the process
//! as a backstop. A refusal is counted in `vmcp_client_limits_reached_total`.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;

use super::identity::PrincipalKey;
use crate::metrics::{CountedShares, LimitLabels, Metrics, ShareState};

/// The counts of one kind of thing.
#[derive(Debug)]
pub struct PrincipalShares {
    limit: &'static str,
    /// Most of one principal.
    share: usize,
    /// Most of all principals together.
    backstop: usize,
    counts: Mutex<Counts>,
    refused: Counter,
}

#[derive(Debug, Default)]
struct Counts {
    /// Principals that hold something.
    held: HashMap<PrincipalKey, usize>,
    total: usize,
}

/// One thing that a principal holds; given back when dropped.
#[derive(Debug)]
pub struct HeldShare {
    shares: Arc<PrincipalShares>,
    key: PrincipalKey,
}

/// A limit that was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    /// The principal holds its share of so many.
    OfPrincipal(usize),
    /// All principals together hold so many.
    OfProcess(usize),
}

impl PrincipalShares {
    /// Counts things called `limit` in the metrics.
    pub fn new(limit: &'static str, share: usize, backstop: usize, metrics: &Metrics) -> Arc<Self> {
        let refused = metrics.client_limits_reached.get_or_create(&LimitLabels { limit }).clone();
        let shares = Arc::new(Self { limit, share, backstop, counts: Mutex::default(), refused });
        metrics.shares.add(&(Arc::clone(&shares) as Arc<dyn CountedShares>));
        shares
    }

    /// Counts one more thing of a principal.
    pub fn take(self: &Arc<Self>, key: PrincipalKey) -> Result<HeldShare, LimitReached> {
        let mut counts = self.counts.lock();
        let held = counts.held.get(&key).copied().unwrap_or_default();
        let reached = match () {
            () if held >= self.share => LimitReached::OfPrincipal(self.share),
            () if counts.total >= self.backstop => LimitReached::OfProcess(self.backstop),
            () => {
                counts.held.insert(key, held + 1);
                counts.total += 1;
                return Ok(HeldShare { shares: Arc::clone(self), key });
            }
        };
        drop(counts);
        self.refused.inc();
        Err(reached)
    }
}

impl CountedShares for PrincipalShares {
    fn state(&self) -> ShareState {
        let Self { limit, share, backstop, counts, refused } = self;
        let held = counts.lock().total;
        ShareState { limit, share: *share, backstop: *backstop, held, refused: refused.get() }
    }
}

impl Drop for HeldShare {
    fn drop(&mut self) {
        let mut counts = self.shares.counts.lock();
        counts.total -= 1;
        if let Some(held) = counts.held.get_mut(&self.key) {
            *held -= 1;
            if *held == 0 {
                counts.held.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::identity::Principal;

    #[test]
    fn a_principal_that_takes_its_share_leaves_the_rest_to_others() {
        let metrics = Metrics::new();
        let shares = PrincipalShares::new("things", 2, 3, &metrics);
        let take = |address| shares.take(Principal::at(address).key());
        let greedy = [take("10.0.0.1").unwrap(), take("10.0.0.1").unwrap()];
        assert_eq!(take("10.0.0.1").unwrap_err(), LimitReached::OfPrincipal(2));
        let other = take("10.0.0.2").unwrap();
        assert_eq!(take("10.0.0.3").unwrap_err(), LimitReached::OfProcess(3));
        let counted = r#"vmcp_client_limits_reached_total{limit="things"} 2"#;
        assert!(metrics.encode().contains(counted), "{}", metrics.encode());
        let state = ShareState { limit: "things", share: 2, backstop: 3, held: 3, refused: 2 };
        assert_eq!(metrics.shares.states(), [state]);
        drop(greedy);
        assert!(take("10.0.0.3").is_ok());
        drop(other);
        let counts = shares.counts.lock();
        assert_eq!((counts.total, counts.held.len()), (0, 0));
        drop(counts);
        drop(shares);
        assert!(metrics.shares.states().is_empty(), "the kind ends with its owner");
    }
}
