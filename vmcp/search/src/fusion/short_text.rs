//! Short texts: in two or three words people describe a wish rather than name a tool.

use super::SMALL_SET;

/// Most terms of a text that counts as short; one accidental word is a large part of its keyword arm.
const SHORT_TEXT_TERMS: usize = 3;
/// Increase of the cosine's weight for a short text that names no tool. It raises recall@3 of
/// `same-needs-people` from .667 to .767; longer texts lose by it, and names of tools. Figures and intervals:
/// `docs/contributor/search-quality.md`.
const SHIFT: f32 = 0.1;
/// Increase for a text with a [short form](crate::short_form).
const SHORT_FORM_SHIFT: f32 = 0.15;

/// Returns the cosine's weight for a text of `terms` terms: `ratio`, and [`SHIFT`] or [`SHORT_FORM_SHIFT`]
/// more for a short text that names no tool. A ratio of 0 or 1 stays, and so does the ratio of a
/// [small set](SMALL_SET), which has another scale.
pub(crate) fn cosine_weight(
    ratio: f32,
    terms: usize,
    documents: usize,
    has_short_form: bool,
    names_a_tool: impl FnOnce() -> bool,
) -> f32 {
    let shift = if has_short_form { SHORT_FORM_SHIFT } else { SHIFT };
    let blends = ratio > 0.0 && ratio < 1.0 && documents >= SMALL_SET;
    if blends && terms <= SHORT_TEXT_TERMS && !names_a_tool() { (ratio + shift).min(1.0) } else { ratio }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meaning_counts_more_in_a_short_text_that_names_no_tool() {
        for (ratio, terms, names_a_tool, documents, has_short_form, expected) in [
            (0.6, 3, false, SMALL_SET, false, 0.7),
            (0.6, 3, false, SMALL_SET, true, 0.75),
            (0.95, 1, false, SMALL_SET, false, 1.0),
            (0.6, 4, false, SMALL_SET, true, 0.6),
            (0.6, 3, true, SMALL_SET, true, 0.6),
            (0.6, 3, false, SMALL_SET - 1, false, 0.6),
            (0.0, 1, false, SMALL_SET, true, 0.0),
            (1.0, 1, false, SMALL_SET, true, 1.0),
        ] {
            let weight = cosine_weight(ratio, terms, documents, has_short_form, || names_a_tool);
            assert!(
                (weight - expected).abs() < 1e-6,
                "{ratio}, {terms} terms of {documents} documents: {weight}"
            );
        }
    }
}
