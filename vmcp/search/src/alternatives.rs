//! Order of the tools that may take the place of a failed one: similar, reliable, and working of late.
//!
//! ```text
//! rank    = similarity · success rate · recency · 1.05 at the same server
//! recency = .5 + .5 · 2^(−age of the last success / 24 h)
//! ```

/// Calls below which a success rate says nothing.
const MIN_CALLS: u64 = 3;
/// Success rate that is assumed of a tool with fewer calls.
const PRIOR_RATE: f64 = 0.8;
/// Recency that is assumed of a tool that never succeeded here, or was never called.
const PRIOR_RECENCY: f64 = 0.75;
/// Hours in which the recency of a success halves its distance from .5.
const HALF_LIFE_HOURS: f64 = 24.0;
/// Bonus for a tool of the failed tool's own server, whose names and ids it understands.
const SAME_SERVER: f64 = 1.05;
/// Smallest success rate of an alternative of the failed tool's own server.
const POOR_RATE: f64 = 0.5;

/// Facts about a tool that may take the place of another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Candidate {
    /// Similarity to the failed tool, 0 to 1.
    pub similarity: f64,
    /// Calls.
    pub calls: u64,
    /// Share of them that succeeded.
    pub success_rate: f64,
    /// Hours since the last success; `None` without a success.
    pub success_age_hours: Option<f64>,
    /// True if both are tools of one server.
    pub same_server: bool,
}

impl Candidate {
    /// Returns the success rate, if there were enough calls to tell one.
    pub fn known_rate(&self) -> Option<f64> {
        (self.calls >= MIN_CALLS).then_some(self.success_rate)
    }

    /// Returns true for a tool of the failed tool's server that often fails itself.
    pub fn is_poor(&self) -> bool {
        self.same_server && self.known_rate().is_some_and(|rate| rate < POOR_RATE)
    }

    /// Returns the value that orders candidates; the largest is the best.
    pub fn rank(&self) -> f64 {
        let rate = self.known_rate().unwrap_or(PRIOR_RATE);
        let decay = |hours: f64| 0.5 + 0.5 * (-hours.max(0.0) / HALF_LIFE_HOURS).exp2();
        let recency = self.success_age_hours.map_or(PRIOR_RECENCY, decay);
        let bonus = if self.same_server { SAME_SERVER } else { 1.0 };
        self.similarity * rate * recency * bonus
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JUST_NOW: Option<f64> = Some(0.0);

    fn candidate(
        similarity: f64,
        calls: u64,
        success_rate: f64,
        success_age_hours: Option<f64>,
    ) -> Candidate {
        Candidate { similarity, calls, success_rate, success_age_hours, same_server: false }
    }

    #[test]
    fn candidates_are_ordered_as_computed_by_hand() {
        let best = candidate(0.87, 50, 0.96, JUST_NOW);
        assert!((best.rank() - 0.8352).abs() < 1e-9);
        let mut candidates = [
            candidate(0.95, 0, 0.0, None),       // .95 · .8 · .75 = .57
            best,                                // .8352
            candidate(0.99, 10, 0.5, JUST_NOW),  // .495
            candidate(0.9, 10, 1.0, Some(24.0)), // .9 · 1 · .75 = .675
            Candidate { same_server: true, ..candidate(0.8, 20, 1.0, JUST_NOW) }, // .84
        ];
        candidates.sort_by(|one, other| other.rank().total_cmp(&one.rank()));
        let percent = candidates.map(|candidate| (candidate.similarity * 100.0).round() as u32);
        assert_eq!(percent, [80, 87, 90, 95, 99]);
    }

    #[test]
    fn a_failing_sibling_is_poor_and_a_failing_stranger_only_ranks_low() {
        let failing = candidate(0.9, 10, 0.1, JUST_NOW);
        assert!(!failing.is_poor());
        assert!(Candidate { same_server: true, ..failing }.is_poor());
        assert!(!Candidate { same_server: true, calls: 2, ..failing }.is_poor(), "two calls say nothing");
    }
}
