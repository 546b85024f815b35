//! The form in which a short text of people is embedded a second time: as a phrase about a tool.
//!
//! ```text
//! closeness = (.6 · e(query) + .4 · e("tool to " + query)) · e(tool)       for queries of at most six terms
//! ```
//!
//! `e` is the model's vector at unit length. Figures: `docs/contributor/search-quality.md`.

use std::collections::HashSet;

use super::analysis::terms;

/// Most distinct terms of a text that has a short form.
const MAX_SHORT_TERMS: usize = 6;
/// Weight of the text itself against its form.
const OWN_WEIGHT: f32 = 0.6;

/// Returns the form in which a short text is embedded a second time: as a phrase about a tool. `None` for a
/// text of more than six distinct terms, or of none, and for a text beyond ASCII: the form is English.
///
/// ```
/// use vmcp_search::short_form;
///
/// assert_eq!(short_form("who follows this ticket?").as_deref(), Some("tool to who follows this ticket"));
/// assert_eq!(short_form(""), None);
/// ```
pub fn short_form(text: &str) -> Option<String> {
    let text = text.trim().trim_end_matches(['?', '.', '!']).trim_end();
    if !text.is_ascii() {
        return None;
    }
    let mut distinct = HashSet::new();
    for term in terms(text) {
        distinct.insert(term);
        if distinct.len() > MAX_SHORT_TERMS {
            return None;
        }
    }
    (!distinct.is_empty()).then(|| format!("tool to {text}"))
}

/// Returns the vector of a short text, from the unit vectors of the text and of its [form](short_form).
pub(crate) fn short_query(own: &[f32], form: &[f32]) -> Vec<f32> {
    own.iter().zip(form).map(|(own, form)| OWN_WEIGHT * own + (1.0 - OWN_WEIGHT) * form).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_english_texts_have_a_form() {
        assert_eq!(short_form(" ping my team?! ").as_deref(), Some("tool to ping my team"));
        for text in ["", "?", "查天气", "one two three four five six seven"] {
            assert_eq!(short_form(text), None, "{text}");
        }
        assert!(short_form("send send mail mail please to the whole big team").is_some());
    }

    #[test]
    fn the_text_counts_more_than_its_form() {
        assert_eq!(short_query(&[1.0, 0.0], &[0.0, 1.0]), [0.6, 1.0 - 0.6]);
    }
}
