//! Signals: how much one use of a tool teaches about the query before it.

use super::learned::FULL_CONFIDENCE;

/// Share of the confidence before that stays when a pair is seen again, with [`LearningMode::Seed`].
const KEPT: f64 = 0.8;

/// Ways to learn from uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LearningMode {
    /// Repeated uses add up, and a tool that was used for nearly the same query comes among the first three.
    #[default]
    Promote,
    /// Confidence is a moving average, and learned pairs add a bonus alone.
    Seed,
}

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

/// Returns the confidence of a pair after a use; it begins at the weight of the first signal.
///
/// With [`LearningMode::Seed`] it is an exponential moving average. With [`LearningMode::Promote`] each use
/// closes a part of the gap to full confidence (noisy-or), so that six uses of a tool that no search found
/// count for more than one: `1.5 − (1.5 − before) · (1 − weight / 1.5)`.
pub fn confidence_after(before: Option<f64>, signal: Signal, mode: LearningMode) -> f64 {
    let weight = signal.weight();
    match (before, mode) {
        (None, _) => weight,
        (Some(before), LearningMode::Seed) => before * KEPT + weight * (1.0 - KEPT),
        (Some(before), LearningMode::Promote) => {
            let gap = (FULL_CONFIDENCE - before).max(0.0);
            FULL_CONFIDENCE - gap * (1.0 - weight / FULL_CONFIDENCE)
        }
    }
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
    fn the_seed_follows_the_signals_slowly() {
        let seed = |before, signal| confidence_after(before, signal, LearningMode::Seed);
        let after = |first, second| seed(Some(seed(None, first)), second);
        assert!((after(Signal::Searched, Signal::Used) - 1.3).abs() < 1e-9);
        assert!((after(Signal::Used, Signal::Searched) - 0.7).abs() < 1e-9);
    }

    #[test]
    fn repeated_uses_add_up_to_full_confidence() {
        let mut confidences = Vec::new();
        for _ in 0..6 {
            let before = confidences.last().copied();
            confidences.push(confidence_after(before, Signal::Used, LearningMode::Promote));
        }
        assert!(confidences.is_sorted_by(|one, next| one < next), "{confidences:?}");
        assert!((confidences[1] - 1.5 * (1.0 - 4.0 / 9.0)).abs() < 1e-9, "{confidences:?}");
        assert!(confidences[5] < FULL_CONFIDENCE && confidences[5] > 1.3, "{confidences:?}");
        let full = confidence_after(Some(1.5), Signal::Used, LearningMode::Promote);
        assert!((full - FULL_CONFIDENCE).abs() < 1e-9, "a further use takes nothing away");
    }
}
