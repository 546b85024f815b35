//! Words of searches that a tool's definition lacks.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::document::Document;
use crate::text::analysis::{content_words, stem, stemmer, terms};

/// Most words of one tool.
const MAX_WORDS: usize = 6;
/// Searches that must have a word: one may be an accident.
const MIN_SEARCHES: usize = 2;

/// A word of searches that a definition lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingWord {
    /// The word, as most searches write it.
    pub word: String,
    /// Searches that have it.
    pub searches: usize,
}

/// Returns the words of searches that the definition has in no form, the most frequent first. Stop words and
/// words of a single search are left out.
pub fn missing_words<'a>(document: &Document, texts: impl IntoIterator<Item = &'a str>) -> Vec<MissingWord> {
    let parameters = document.parameters.iter().flat_map(|(name, description)| [name, description]);
    let fields = [&document.server, &document.name, &document.description].into_iter().chain(parameters);
    let known: BTreeSet<String> = fields.flat_map(|field| terms(field)).collect();
    let stemmer = stemmer();
    // For each stem: searches that have it, and their number by written form.
    let mut missing: BTreeMap<String, (usize, BTreeMap<String, usize>)> = BTreeMap::new();
    for text in texts {
        let words: BTreeMap<String, String> =
            content_words(text).map(|word| (stem(&stemmer, word.clone()), word)).collect();
        for (stem, word) in words.into_iter().filter(|(stem, _)| !known.contains(stem)) {
            let (searches, forms) = missing.entry(stem).or_default();
            *searches += 1;
            *forms.entry(word).or_default() += 1;
        }
    }
    let frequent = missing.into_values().filter(|(searches, _)| *searches >= MIN_SEARCHES);
    let word = |(searches, forms): (usize, BTreeMap<String, usize>)| {
        let written = forms.into_iter().rev().max_by_key(|(_, count)| *count).map(|(form, _)| form);
        MissingWord { word: written.unwrap_or_default(), searches }
    };
    let mut words: Vec<_> = frequent.map(word).collect();
    words.sort_by(|one, other| (other.searches, &one.word).cmp(&(one.searches, &other.word)));
    words.truncate(MAX_WORDS);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_the_definition_has_in_another_form_are_not_missing() {
        let document = Document {
            name: "create_issue".to_owned(),
            description: "Creates an issue.".to_owned(),
            parameters: vec![("project".to_owned(), "Key of the project".to_owned())],
            ..Document::default()
        };
        let texts =
            ["open a bug ticket", "file tickets for a project", "a new ticket", "creating issues", "a bug"];
        let word = |word: &str, searches| MissingWord { word: word.to_owned(), searches };
        assert_eq!(missing_words(&document, texts), [word("ticket", 3), word("bug", 2)]);
        assert_eq!(missing_words(&document, ["ticket ticket"]), [], "one search may be an accident");
    }
}
