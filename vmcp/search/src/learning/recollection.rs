//! [`Recollection`]: the influence of learned pairs on the search for one query.

use std::collections::HashMap;
use std::hash::Hash;

use super::learned::FULL_CONFIDENCE;
use super::{AskedQuery, Learned, LearningMode, reliability};

/// Similarity of two queries below which one does not change the ranking of the other in a search. At .6,
/// recall@1 of toollinkos, whose queries are alike and need different tools, falls by .036; at .8 it stays
/// (−.015 to +.005 at 95 %).
pub const BONUS_MIN_SIMILARITY: f32 = 0.8;
/// Weight of learned pairs in a search when nothing else is configured: an often confirmed tool gains one
/// standard deviation for the very query that taught it.
pub const DEFAULT_LEARNED_WEIGHT: f32 = 0.5;
/// Similarity of two queries from which they count as nearly the same, so that tools are promoted. Figures
/// for other values: `docs/contributor/search-quality.md`.
const PROMOTION_MIN_SIMILARITY: f32 = 0.9;
/// Least confidence of a pair that promotes its tool: one use of a found or listed tool, or two of a tool
/// that the client knew from elsewhere.
const PROMOTION_MIN_CONFIDENCE: f64 = 0.8;

/// The influence of learned pairs on one search.
#[derive(Clone, Debug)]
pub struct Recollection<T> {
    /// Strength of each tool, 0 to 1.
    pub strengths: HashMap<T, f32>,
    /// Tools that were used for nearly the same query, the nearest query first. The first
    /// [`PROMOTION_PLACES`](super::PROMOTION_PLACES) that are there and visible take part in a search.
    pub promoted: Vec<T>,
}

impl<T> Default for Recollection<T> {
    fn default() -> Self {
        Recollection { strengths: HashMap::new(), promoted: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Learned<T> {
    /// Returns the influence of the pairs near to a query. Only pairs that correct a search count: a pair
    /// that confirms a search could only displace tools of similar queries.
    pub fn recollect(
        &self,
        asked: &AskedQuery<'_>,
        min_similarity: f32,
        mode: LearningMode,
    ) -> Recollection<T> {
        let mut recollection = Recollection::default();
        let Recollection { strengths, promoted } = &mut recollection;
        let near = self.nearest(asked, usize::MAX);
        for (cosine, pair) in near.into_iter().filter(|(_, pair)| pair.corrects) {
            let near = (cosine - min_similarity) / (1.0 - min_similarity).max(f32::EPSILON);
            if near <= 0.0 {
                break;
            }
            let strength = near.min(1.0) * (pair.confidence / FULL_CONFIDENCE).clamp(0.0, 1.0) as f32;
            let best = strengths.entry(pair.tool.clone()).or_insert(0.0_f32);
            *best = best.max(strength);
            let remembered =
                cosine >= PROMOTION_MIN_SIMILARITY && pair.confidence >= PROMOTION_MIN_CONFIDENCE;
            let is_new = mode == LearningMode::Promote && remembered && !promoted.contains(&pair.tool);
            if is_new {
                promoted.push(pair.tool.clone());
            }
        }
        recollection
    }
}

/// Returns the value that a tool of this strength gains among `visible` tools.
pub(crate) fn bonus(strength: f32, weight: f32, visible: usize) -> f32 {
    if strength.is_nan() || weight.is_nan() {
        return 0.0;
    }
    weight.clamp(0.0, 1.0) * reliability::spread(visible) * strength.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learning::LearnedPair;

    const ASKED: AskedQuery<'static> = AskedQuery { model: "m", vector: &[1.0, 0.0], owner: None };

    /// A pair whose query has this cosine with [`ASKED`].
    fn pair(id: &str, cosine: f32, tool: &'static str) -> LearnedPair<&'static str> {
        LearnedPair {
            id: id.to_owned(),
            model: "m".into(),
            vector: [cosine, (1.0 - cosine * cosine).sqrt()].into(),
            tool,
            owner: None,
            confidence: 1.5,
            last_used: 0,
            corrects: true,
        }
    }

    fn recollected(
        pairs: impl IntoIterator<Item = LearnedPair<&'static str>>,
        mode: LearningMode,
    ) -> Recollection<&'static str> {
        let mut learned = Learned::default();
        pairs.into_iter().for_each(|pair| assert!(learned.upsert(pair)));
        learned.recollect(&ASKED, 0.6, mode)
    }

    #[test]
    fn the_best_pair_of_a_tool_speaks_for_it() {
        let often = (0..20).map(|id| pair(&id.to_string(), 0.8, "often"));
        let unsure = LearnedPair { confidence: 0.5, ..pair("unsure", 1.0, "unsure") };
        let first = LearnedPair { corrects: false, ..pair("first", 1.0, "first") };
        let pairs = often.chain([pair("once", 1.0, "once"), unsure, first]);
        let Recollection { strengths, promoted } = recollected(pairs, LearningMode::Promote);
        assert!((strengths["once"] - 1.0).abs() < 1e-5);
        assert!((strengths["often"] - 0.5).abs() < 1e-5, "twenty are not more than one");
        assert!((strengths["unsure"] - 1.0 / 3.0).abs() < 1e-5);
        assert!(!strengths.contains_key("first"), "a search found it without the pair");
        assert_eq!(promoted, ["once"], "one unsure use promotes nothing, and neither do other queries");
    }

    #[test]
    fn the_nearest_are_promoted_first_and_once_each() {
        let pairs = || {
            let cosines = [("a", 0.95), ("b", 0.99), ("c", 0.92), ("d", 0.91), ("e", 0.98)];
            let tools = ["near", "same", "third", "fourth", "near"];
            cosines.into_iter().zip(tools).map(|((id, cosine), tool)| pair(id, cosine, tool))
        };
        assert_eq!(recollected(pairs(), LearningMode::Promote).promoted, ["same", "near", "third", "fourth"]);
        let seed = recollected(pairs(), LearningMode::Seed);
        assert!(seed.promoted.is_empty() && seed.strengths.len() == 4, "{seed:?}");
    }

    #[test]
    fn pairs_of_another_principal_say_nothing() {
        let owned = |id, tool, owner: &str| LearnedPair { owner: Some(owner.into()), ..pair(id, 1.0, tool) };
        let mut learned = Learned::default();
        for pair in [owned("a", "hers", "alice"), owned("b", "his", "bob"), pair("c", 1.0, "shared")] {
            learned.upsert(pair);
        }
        for (owner, expected) in [
            (Some("alice"), vec!["hers", "shared"]),
            (Some("bob"), vec!["his", "shared"]),
            (None, vec!["shared"]),
        ] {
            let asked = AskedQuery { owner, ..ASKED };
            let Recollection { strengths, promoted } = learned.recollect(&asked, 0.6, LearningMode::Promote);
            assert_eq!((promoted, strengths.len()), (expected.clone(), expected.len()), "{owner:?}");
        }
    }

    #[test]
    fn the_bonus_is_bounded() {
        for (strength, weight) in [(1.0, 0.0), (0.0, 1.0), (f32::NAN, 1.0)] {
            assert!(bonus(strength, weight, 100).abs() < f32::EPSILON);
        }
        assert!(bonus(7.0, 7.0, 100) <= reliability::spread(100));
        assert!(bonus(1.0, 1.0, 10) < bonus(1.0, 1.0, 100));
    }
}
