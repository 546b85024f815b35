//! [`ShareDirectory`]: the kinds of things of clients that are counted against limits.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// State of one kind of thing, for operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareState {
    /// Name of the limit, as in the metrics.
    pub limit: &'static str,
    /// Most of one principal.
    pub share: usize,
    /// Most of all principals together.
    pub backstop: usize,
    /// Number that all principals hold now.
    pub held: usize,
    /// Refusals since the start.
    pub refused: u64,
}

/// The counts of one kind of thing.
pub(crate) trait CountedShares: std::fmt::Debug + Send + Sync {
    /// Returns the present state.
    fn state(&self) -> ShareState;
}

/// The kinds of things that a process counts, for operators. A kind is there while its owner is.
#[derive(Debug, Default)]
pub struct ShareDirectory(Mutex<Vec<Weak<dyn CountedShares>>>);

impl ShareDirectory {
    /// Returns the state of each kind, in the order in which they began.
    pub fn states(&self) -> Vec<ShareState> {
        let kinds: Vec<_> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        kinds.iter().map(|shares| shares.state()).collect()
    }

    /// Lists a kind of thing for as long as its owner keeps it.
    pub(crate) fn add(&self, shares: &Arc<dyn CountedShares>) {
        let mut kinds = self.0.lock();
        kinds.retain(|kind| kind.strong_count() > 0);
        kinds.push(Arc::downgrade(shares));
    }
}
