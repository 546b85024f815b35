//! Retrieval in two tiers: tools by the similarity of their own texts, and by that of queries they were
//! used for.

use std::collections::HashMap;
use std::hash::Hash;

/// Weights of the two tiers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TierWeights {
    /// Of the tools' own texts.
    pub text: f32,
    /// Of the learned pairs.
    pub learned: f32,
}

impl Default for TierWeights {
    fn default() -> Self {
        TierWeights { text: 0.6, learned: 0.4 }
    }
}

/// Returns the `limit` best tools of both tiers with their scores, best first; ties in the order of the
/// tools. A tool in one tier only has only that tier's score. Of several learned pairs of one tool the best
/// counts, so that no number of them adds up.
pub fn merge<T: Clone + Eq + Hash + Ord>(
    text: &[(T, f32)],
    learned: &[(T, f32)],
    weights: TierWeights,
    limit: usize,
) -> Vec<(T, f32)> {
    let mut best: HashMap<&T, f32> = HashMap::new();
    for (tool, similarity) in learned {
        let kept = best.entry(tool).or_insert(*similarity);
        *kept = kept.max(*similarity);
    }
    let mut scores: HashMap<&T, f32> = HashMap::new();
    for (tool, similarity) in text {
        *scores.entry(tool).or_default() += weights.text * similarity;
    }
    for (tool, similarity) in best {
        *scores.entry(tool).or_default() += weights.learned * similarity;
    }
    let mut merged: Vec<_> = scores.into_iter().map(|(tool, score)| (tool.clone(), score)).collect();
    merged.sort_by(|(one, a), (other, b)| b.total_cmp(a).then_with(|| one.cmp(other)));
    merged.truncate(limit);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learning::{AskedQuery, Learned, LearnedPair};
    use crate::{Document, Index, Vectors};

    const TOOLS: [&str; 5] = ["file_read", "file_write", "web_search", "db_query", "echo"];
    const VECTORS: [[f32; 4]; 5] = [
        [0.9, 0.1, 0.0, 0.0],
        [0.8, 0.2, 0.0, 0.0],
        [0.0, 0.0, 0.9, 0.1],
        [0.0, 0.1, 0.0, 0.9],
        [0.1, 0.1, 0.1, 0.1],
    ];
    /// "query the database"
    const QUERY: [f32; 4] = [0.0, 0.05, 0.0, 0.95];

    fn by_text() -> Vec<(&'static str, f32)> {
        let documents = TOOLS.map(|name| Document { name: name.into(), ..Document::default() });
        let rows = VECTORS.map(|row| Some(row.to_vec()));
        let index = Index::new(&documents).with_vectors(Vectors::from_rows(4, rows));
        index.nearest(&QUERY, None, 5).into_iter().map(|(tool, cosine)| (TOOLS[tool], cosine)).collect()
    }

    fn learned(vectors: &[[f32; 4]]) -> Vec<(&'static str, f32)> {
        let mut learned = Learned::default();
        for (number, vector) in vectors.iter().enumerate() {
            learned.upsert(LearnedPair {
                id: number.to_string(),
                model: "m".into(),
                vector: vector.to_vec().into(),
                tool: "file_read",
                owner: None,
                confidence: 1.5,
                last_used: 0,
                corrects: false,
            });
        }
        let near = learned.nearest(&AskedQuery { model: "m", vector: &QUERY, owner: None }, 30);
        near.into_iter().map(|(cosine, pair)| (pair.tool, cosine)).collect()
    }

    fn ranked(learned: &[(&'static str, f32)]) -> Vec<(&'static str, f32)> {
        merge(&by_text(), learned, TierWeights::default(), 15)
    }

    #[test]
    fn a_learned_pair_raises_its_tool_and_the_best_text_stays_first() {
        let names = |ranked: &[(&'static str, f32)]| ranked.iter().map(|(tool, _)| *tool).collect::<Vec<_>>();
        assert_eq!(names(&ranked(&[])), ["db_query", "echo", "web_search", "file_write", "file_read"]);
        let once = ranked(&learned(&[QUERY]));
        assert_eq!(names(&once), ["db_query", "file_read", "echo", "web_search", "file_write"]);
        for ((tool, score), expected) in once.iter().zip([0.5990, 0.4035, 0.3154, 0.0662, 0.0076]) {
            assert!((score - expected).abs() < 1e-4, "{tool}: {score}");
        }
        let paraphrases: Vec<_> = (0..20_u8).map(|n| [0.0, 0.05 + f32::from(n) / 1e3, 0.0, 0.95]).collect();
        assert_eq!(names(&ranked(&learned(&paraphrases)))[..2], ["db_query", "file_read"]);
    }

    #[test]
    fn no_more_than_the_limit() {
        assert_eq!(merge(&by_text(), &[], TierWeights::default(), 2).len(), 2);
        assert!(merge::<&str>(&[], &[], TierWeights::default(), 2).is_empty());
    }
}
