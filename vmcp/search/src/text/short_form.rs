//! The form in which a short text of people, or a query in another language, is embedded a second time: as a
//! phrase about a tool.
//!
//! ```text
//! closeness = (.6 · e(query) + .4 · e("tool to " + query + ": " + words)) · e(tool)   of at most six terms
//!           = (.4 · e(query) + .6 · e("tool to " + words)) · e(tool)             in another language
//! ```
//!
//! `e` is the model's vector at unit length, and the words are those of the [thesaurus]. Figures:
//! `docs/contributor/search-quality.md`.

use std::collections::HashSet;

use super::analysis::terms;
pub(crate) use super::thesaurus::MAX_SHORT_TERMS;
use super::thesaurus::{self, Expansion};

/// Weight of the text itself against its form.
const OWN_WEIGHT: f32 = 0.6;
/// Weight of a text in another language, which the model knows little of.
const FOREIGN_WEIGHT: f32 = 0.4;

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
    let text = bare(text);
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

/// Returns the form in which a whole query is embedded a second time: the [form of a short text](short_form)
/// with the words of definitions for everyday ones, or the translation of a query of any length.
///
/// ```
/// use vmcp_search::query_form;
///
/// assert_eq!(query_form("get rid of it").as_deref(), Some("tool to get rid of it: delete remove"));
/// assert_eq!(query_form("das Wetter in Rom").as_deref(), Some("tool to weather forecast"));
/// ```
pub fn query_form(query: &str) -> Option<String> {
    let Expansion { words, is_translation } = thesaurus::expand(bare(query));
    let words = words.join(" ");
    match short_form(query) {
        _ if is_translation => Some(format!("tool to {words}")),
        Some(form) if !words.is_empty() => Some(format!("{form}: {words}")),
        form => form,
    }
}

/// Removes the punctuation at the end of a text.
fn bare(text: &str) -> &str {
    text.trim().trim_end_matches(['?', '.', '!']).trim_end()
}

/// Returns the vector of a text, from the unit vectors of the text and of its form.
pub(crate) fn short_query(own: &[f32], form: &[f32], is_translation: bool) -> Vec<f32> {
    let weight = if is_translation { FOREIGN_WEIGHT } else { OWN_WEIGHT };
    own.iter().zip(form).map(|(own, form)| weight * own + (1.0 - weight) * form).collect()
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
    fn the_form_of_a_query_has_the_words_of_the_thesaurus() {
        for (query, form) in [
            ("count my sheep", Some("tool to count my sheep")),
            ("get rid of it!", Some("tool to get rid of it: delete remove")),
            ("查天气?", Some("tool to weather forecast")),
            ("дождь", None),
            ("get rid of drafts, notices, receipts, envelopes, stamps, parcels, labels", None),
            ("", None),
        ] {
            assert_eq!(query_form(query).as_deref(), form, "{query}");
        }
    }

    #[test]
    fn a_text_counts_more_than_its_form_and_less_than_its_translation() {
        assert_eq!(short_query(&[1.0, 0.0], &[0.0, 1.0], false), [0.6, 1.0 - 0.6]);
        assert_eq!(short_query(&[1.0, 0.0], &[0.0, 1.0], true), [0.4, 1.0 - 0.4]);
    }
}
