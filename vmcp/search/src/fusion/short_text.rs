//! Short texts: in two or three words people say what they want, and not what the tool is called.

use super::SMALL_SET;
use crate::bm25f::Matches;

/// Most terms of a text that counts as short; one accidental word is a large part of its keyword arm.
const SHORT_TEXT_TERMS: usize = 3;
/// Increase of the cosine's weight for a short text that names no tool. It raises recall@3 of
/// `same-needs-people` from .667 to .767; longer texts lose by it, and names of tools. Figures and intervals:
/// `docs/user/search.md`.
const SHIFT: f32 = 0.1;

/// Returns the cosine's weight for a text: `ratio`, and more for a short one that no tool is named by. One
/// arm alone stays alone, and a [small set](SMALL_SET) has another scale.
pub(crate) fn cosine_weight(ratio: f32, matches: &Matches, documents: usize) -> f32 {
    let blends = ratio > 0.0 && ratio < 1.0 && documents >= SMALL_SET;
    let is_short = matches.terms.len() <= SHORT_TEXT_TERMS && !matches.names_one;
    if blends && is_short { (ratio + SHIFT).min(1.0) } else { ratio }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::QueryTerm;

    fn matches(terms: usize, names_one: bool) -> Matches {
        let term = QueryTerm { term: "watch".to_owned(), documents: 1 };
        Matches { scores: Vec::new(), terms: vec![term; terms], names_one }
    }

    #[test]
    fn meaning_counts_more_in_a_short_text_that_names_no_tool() {
        for (ratio, matches, documents, expected) in [
            (0.6, matches(3, false), SMALL_SET, 0.7),
            (0.95, matches(1, false), SMALL_SET, 1.0),
            (0.6, matches(4, false), SMALL_SET, 0.6),
            (0.6, matches(3, true), SMALL_SET, 0.6),
            (0.6, matches(3, false), SMALL_SET - 1, 0.6),
            (0.0, matches(1, false), SMALL_SET, 0.0),
            (1.0, matches(1, false), SMALL_SET, 1.0),
        ] {
            let weight = cosine_weight(ratio, &matches, documents);
            assert!((weight - expected).abs() < 1e-6, "{ratio} of {documents}: {weight}");
        }
    }
}
