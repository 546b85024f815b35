//! Reliability of tools in the ranking: a tool that fails often loses a bounded part of its value.
//!
//! ```text
//! penalty    = weight · spread · (1 − max(success rate, .2)) · confidence
//! spread     = 2 standard deviations of the fused value, or .4 of the scale of a small set
//! confidence = 0 below 3 calls, then calls / (calls + 5)
//! ```
//!
//! The penalty is bounded, because a failure says less about a tool than its text: the arguments may have
//! been wrong. Of two tools that fit equally well the reliable one wins; a tool that fits much better keeps
//! its place. A tool without calls has a penalty of 0.

use serde::Serialize;

use crate::fusion::SMALL_SET;

/// Default weight of reliability: a tool whose calls always fail loses .64 standard deviations of the fused
/// value after 20 calls, and at most .8.
pub const DEFAULT_RELIABILITY_WEIGHT: f32 = 0.5;
/// Fewest calls for a penalty.
const MIN_CALLS: u64 = 3;
/// Calls at which half of the penalty counts.
const HALF_CONFIDENCE_CALLS: f32 = 5.0;
/// Success rate at which the penalty stops growing.
const MIN_RATE: f32 = 0.2;
/// Largest penalty in standard deviations, at weight 1.
const SPREAD: f32 = 2.0;
/// Largest penalty in a small set, whose values go from 0 to 1, at weight 1.
const SMALL_SPREAD: f32 = 0.4;

/// Success of one tool's calls.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reliability {
    /// Calls.
    pub calls: u64,
    /// Share of them that succeeded, 0 to 1.
    pub success_rate: f32,
}

impl Reliability {
    /// Returns true if it changes a ranking.
    pub fn counts(self) -> bool {
        self.calls >= MIN_CALLS && self.success_rate < 1.0
    }

    /// Returns the value that a tool loses among `visible` tools.
    pub(crate) fn penalty(self, weight: f32, visible: usize) -> f32 {
        if !self.counts() || weight.is_nan() {
            return 0.0;
        }
        let calls = self.calls as f32;
        let confidence = calls / (calls + HALF_CONFIDENCE_CALLS);
        weight.clamp(0.0, 1.0) * spread(visible) * (1.0 - self.success_rate.clamp(MIN_RATE, 1.0)) * confidence
    }
}

/// Returns the largest value, at weight 1, by which experience moves a tool among `visible` tools.
pub(crate) fn spread(visible: usize) -> f32 {
    if visible < SMALL_SET { SMALL_SPREAD } else { SPREAD }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn penalty(calls: u64, success_rate: f32) -> f32 {
        Reliability { calls, success_rate }.penalty(1.0, 100)
    }

    #[test]
    fn few_calls_and_successes_cost_nothing() {
        for penalty in [penalty(0, 0.0), penalty(2, 0.0), penalty(1000, 1.0)] {
            assert!(penalty.abs() < f32::EPSILON);
        }
    }

    #[test]
    fn the_penalty_grows_with_failures_and_calls_up_to_its_bound() {
        assert!(penalty(20, 0.9) < penalty(20, 0.5));
        assert!(penalty(4, 0.5) < penalty(40, 0.5));
        let difference = penalty(100, 0.0) - penalty(100, 0.2);
        assert!(difference.abs() < f32::EPSILON, "a tool that never worked may be mended");
        let worst = penalty(u64::MAX, 0.0);
        assert!(worst <= SPREAD * 0.8 && worst > SPREAD * 0.79, "{worst}");
        assert!(Reliability { calls: 100, success_rate: 0.0 }.penalty(1.0, 10) < SMALL_SPREAD);
        assert!(Reliability { calls: 100, success_rate: 0.0 }.penalty(0.0, 100) < f32::EPSILON);
    }
}
