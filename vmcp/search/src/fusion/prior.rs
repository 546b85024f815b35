//! Priors of a short query: what a tool gains beside words and meaning, in standard deviations of an arm.
//!
//! ```text
//! gain = ±.5 for a question, ±.3 for a command      by the effects of query and tool
//!      + .1 · z(mean cosine of the server's tools)  if no tool has all terms in its name
//! ```
//!
//! People say "turn it up" and name no domain; the other tools of a server do. Greater weights find more on
//! the sets for choosing, and lose on `livemcp-people` or `same-needs-people`. Figures:
//! `docs/contributor/search-quality.md`.

use crate::fusion::normalize;
use crate::text::effect::Effect;

/// Gain of a tool that reads, for a question; a tool that changes something loses as much.
const QUESTION_GAIN: f32 = 0.5;
/// Gain of a tool that changes something, for a command; a tool that reads loses as much.
const COMMAND_GAIN: f32 = 0.3;
/// Share of [`QUESTION_GAIN`] for a tool that has no known verb: most of these read.
const UNKNOWN_SHARE: f32 = 0.5;
/// Weight of a server's mean cosine. At .2 people find more among new servers, and `same-needs-people` loses.
const SERVER_WEIGHT: f32 = 0.1;

/// Returns what a tool gains by its effect.
pub(crate) fn effect_gain(wanted: Effect, tool: Option<Effect>) -> f32 {
    match (wanted, tool) {
        (Effect::Read, Some(Effect::Read)) => QUESTION_GAIN,
        (Effect::Read, Some(Effect::Change)) => -QUESTION_GAIN,
        (Effect::Read, None) => UNKNOWN_SHARE * QUESTION_GAIN,
        (Effect::Change, Some(Effect::Change)) => COMMAND_GAIN,
        (Effect::Change, Some(Effect::Read)) => -COMMAND_GAIN,
        (Effect::Change, None) => 0.0,
    }
}

/// Returns what each tool gains by its server, from normalized cosines and the servers' numbers, both by
/// position. `share` is the part of the tools whose cosine is known and not estimated.
pub(crate) fn server_gains(cosine: &[f32], servers: &[usize], share: f32) -> Vec<f32> {
    let count = servers.iter().max().map_or(0, |last| last + 1);
    let mut sums = vec![(0.0_f32, 0.0_f32); count];
    for (cosine, server) in cosine.iter().zip(servers) {
        if let Some((sum, tools)) = sums.get_mut(*server) {
            *sum += cosine;
            *tools += 1.0;
        }
    }
    let mean = |server: &usize| sums.get(*server).map(|(sum, tools)| sum / tools.max(1.0));
    let means: Vec<_> = servers.iter().map(mean).collect();
    normalize(&means).into_iter().map(|mean| SERVER_WEIGHT * share * mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fitting_effect_gains_and_the_other_one_loses() {
        for (wanted, other) in [(Effect::Read, Effect::Change), (Effect::Change, Effect::Read)] {
            let [fit, unknown, unfit] =
                [Some(wanted), None, Some(other)].map(|tool| effect_gain(wanted, tool));
            assert!(fit > unknown && unknown > unfit && (fit + unfit).abs() < f32::EPSILON);
        }
    }

    #[test]
    fn tools_of_a_fitting_server_gain_alike() {
        // Two servers of ten tools; one tool of the first is near, all of the second are fairly near.
        let mut cosine = vec![0.0; 20];
        cosine[0] = 4.0;
        cosine[10..].fill(1.0);
        let servers: Vec<usize> = (0..20).map(|tool| tool / 10).collect();
        let gains = server_gains(&cosine, &servers, 1.0);
        assert!(gains[..10].iter().all(|gain| (gain + 0.1).abs() < 1e-6), "{gains:?}");
        assert!(gains[10..].iter().all(|gain| (gain - 0.1).abs() < 1e-6), "{gains:?}");
        assert!(server_gains(&cosine, &servers, 0.5).iter().all(|gain| (gain.abs() - 0.05).abs() < 1e-6));
        // A single server tells nothing apart.
        assert_eq!(server_gains(&cosine, &[0; 20], 1.0), [0.0; 20]);
        assert_eq!(server_gains(&[], &[], 1.0), [0.0; 0]);
    }
}
