//! Evidence: the scores of both arms for one text, which is the whole query or one clause of it.

use crate::fusion::{blend, compress, estimate, known_weight, normalize};
use crate::query::{Explanation, QueryTerm};

/// Scores of one text, each by position in the list of visible documents.
pub(crate) struct Evidence {
    /// The text's terms.
    pub(crate) terms: Vec<QueryTerm>,
    /// Cosine similarity of the text and each document; `None` where either has no vector.
    pub(crate) cosine: Vec<Option<f32>>,
    /// BM25F of the text and each document; `Some(0)` where they share no term.
    pub(crate) bm25: Vec<Option<f32>>,
    /// The semantic arm, normalized; estimated where a document has no vector.
    pub(crate) cosine_normalized: Vec<f32>,
    bm25_normalized: Vec<f32>,
    /// The weighted sum of both arms, each normalized.
    pub(crate) fused: Vec<f32>,
}

impl Evidence {
    /// Normalizes and blends the arms; `ratio` is the cosine's weight, lower as long as documents lack a
    /// cosine. Without any cosine the keywords have all the weight. `closeness` replaces the cosine in the
    /// ranking.
    pub(crate) fn new(
        terms: Vec<QueryTerm>,
        cosine: Vec<Option<f32>>,
        closeness: Option<&[Option<f32>]>,
        bm25: Vec<Option<f32>>,
        ratio: f32,
    ) -> Self {
        let semantic = closeness.unwrap_or(&cosine);
        let ratio = if semantic.iter().any(Option::is_some) { ratio } else { 0.0 };
        let (mut cosine_normalized, bm25_normalized) = (normalize(semantic), compress(normalize(&bm25)));
        estimate(semantic, &mut cosine_normalized, &bm25_normalized);
        let fused = blend(&cosine_normalized, &bm25_normalized, known_weight(ratio, semantic));
        Evidence { terms, cosine, bm25, cosine_normalized, bm25_normalized, fused }
    }

    /// Returns BM25F at a position, or `None` where text and document share no term.
    pub(crate) fn keyword_match(&self, position: usize) -> Option<f32> {
        at(&self.bm25, position).flatten().filter(|bm25| *bm25 > 0.0)
    }

    /// Explains the place of the document at a position.
    pub(crate) fn explain(
        &self,
        position: usize,
        best_clause: Option<(usize, f32)>,
        fused: f32,
    ) -> Explanation {
        let cosine = at(&self.cosine, position).flatten();
        let bm25 = self.keyword_match(position);
        Explanation {
            cosine,
            cosine_rank: cosine.map(|cosine| rank(&self.cosine, cosine)),
            cosine_normalized: at(&self.cosine_normalized, position).unwrap_or_default(),
            bm25: bm25.unwrap_or_default(),
            bm25_rank: bm25.map(|bm25| rank(&self.bm25, bm25)),
            bm25_normalized: at(&self.bm25_normalized, position).unwrap_or_default(),
            best_clause,
            prior: 0.0,
            reliability: None,
            reliability_penalty: 0.0,
            learned_bonus: 0.0,
            promoted: false,
            fused,
            rerank_score: None,
        }
    }
}

fn at<T: Copy>(values: &[T], position: usize) -> Option<T> {
    values.get(position).copied()
}

/// Returns the rank of a value among the present ones, from 1; equal values share a rank.
fn rank(values: &[Option<f32>], value: f32) -> usize {
    1 + values.iter().flatten().filter(|other| **other > value).count()
}
