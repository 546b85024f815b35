//! Signals: how much one use of a tool teaches about the query before it.

/// Share of the confidence before that stays when a pair is seen again.
const KEPT: f64 = 0.8;

/// The way in which a tool came to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The client searched, and used a tool that was found: the strongest sign.
    Searched,
    /// The tool was in the list chosen for the query.
    Listed,
    /// Neither: the client knew the tool from elsewhere.
    Used,
}

impl Signal {
    /// Returns the signal of a tool's use; a search counts before the list.
    pub fn of_use(was_found: bool, was_listed: bool) -> Signal {
        match (was_found, was_listed) {
            (true, _) => Signal::Searched,
            (false, true) => Signal::Listed,
            (false, false) => Signal::Used,
        }
    }

    /// Returns the weight of the signal.
    pub fn weight(self) -> f64 {
        match self {
            Signal::Searched => 1.5,
            Signal::Listed => 1.0,
            Signal::Used => 0.5,
        }
    }
}

/// Returns the confidence of a pair after a use: an exponential moving average that begins at the first
/// signal.
pub fn confidence_after(before: Option<f64>, signal: Signal) -> f64 {
    before.map_or(signal.weight(), |before| before * KEPT + signal.weight() * (1.0 - KEPT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_counts_before_the_list_and_any_use_counts() {
        let weights = [(true, true), (true, false), (false, true), (false, false)]
            .map(|(found, listed)| Signal::of_use(found, listed).weight());
        assert_eq!(weights.map(|weight| (weight * 2.0) as u32), [3, 3, 2, 1]);
    }

    #[test]
    fn confidence_follows_the_signals_slowly() {
        let after = |first, second| confidence_after(Some(confidence_after(None, first)), second);
        assert!((after(Signal::Searched, Signal::Used) - 1.3).abs() < 1e-9);
        assert!((after(Signal::Used, Signal::Searched) - 0.7).abs() < 1e-9);
    }
}
