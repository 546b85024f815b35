//! Query expansion by a thesaurus: the words of definitions for the words of people, such as `delete` for
//! "get rid of", and the English words for those of some other languages, such as `weather` for "Wetter".
//!
//! People name wishes in words that no definition has, and the small model knows neither their idioms nor
//! their languages. Rows of the tables, in `thesaurus/`, are general: they name kinds of servers, and none in
//! particular. Figures: `docs/contributor/search-quality.md`.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::analysis::{stem, stemmer, terms, words};
use super::short_form::MAX_SHORT_TERMS;

/// Words of a text that are looked up; further ones are not.
const MAX_WORDS: usize = 64;
/// Known words of another language from which on an ASCII text counts as written in it. One may be a name.
const MIN_FOREIGN_WORDS: usize = 2;

static EVERYDAY: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("thesaurus/everyday.txt")));
static FOREIGN: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("thesaurus/foreign.txt")));

/// Words that a text is searched by beside its own.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Expansion {
    /// Words that the text does not have itself, each once.
    pub(crate) words: Vec<&'static str>,
    /// True if the text is in another language, and the words translate it.
    pub(crate) is_translation: bool,
}

/// Expands a text: one in another language at any length, an English one if it is short. A longer one has
/// words of definitions itself.
pub(crate) fn expand(text: &str) -> Expansion {
    let mut words = words(text);
    words.truncate(MAX_WORDS);
    let own: HashSet<String> = terms(text).collect();
    let foreign = FOREIGN.lookup(&words);
    let is_foreign = foreign.len() >= MIN_FOREIGN_WORDS || (!foreign.is_empty() && !text.is_ascii());
    let translated = if is_foreign { unknown(foreign, &own) } else { Vec::new() };
    if !translated.is_empty() {
        return Expansion { words: translated, is_translation: true };
    }
    let is_short = own.len() <= MAX_SHORT_TERMS;
    let everyday = if is_short { unknown(EVERYDAY.lookup(&words), &own) } else { Vec::new() };
    Expansion { words: everyday, is_translation: false }
}

/// Returns the words of these rows that are not among the text's own terms, each once.
fn unknown(rows: Vec<&[&'static str]>, own: &HashSet<String>) -> Vec<&'static str> {
    let stemmer = stemmer();
    let mut seen = HashSet::new();
    let is_new = |word: &&str| !own.contains(&stem(&stemmer, (*word).to_owned()));
    rows.into_iter().flatten().copied().filter(is_new).filter(|word| seen.insert(*word)).collect()
}

/// Phrases, as lower-case words with spaces between, and the words for them.
struct Table {
    rows: HashMap<String, Vec<&'static str>>,
    /// Words of the longest phrase.
    longest: usize,
}

impl Table {
    /// Reads lines of the form `phrase|phrase = words`.
    fn parse(text: &'static str) -> Table {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let mut rows = HashMap::new();
        let mut longest = 0;
        for (phrases, meaning) in lines.filter_map(|line| line.split_once('=')) {
            let meaning: Vec<_> = meaning.split_whitespace().collect();
            for phrase in phrases.split('|').map(words) {
                longest = longest.max(phrase.len());
                rows.insert(phrase.join(" "), meaning.clone());
            }
        }
        Table { rows, longest }
    }

    /// Returns the words for each phrase of a text, the longest phrase at each place.
    fn lookup(&self, mut words: &[String]) -> Vec<&[&'static str]> {
        let mut found = Vec::new();
        while !words.is_empty() {
            let at_start = (1..=self.longest.min(words.len())).rev().find_map(|length| {
                let phrase = words.get(..length)?.join(" ");
                Some((length, self.rows.get(&phrase)?.as_slice()))
            });
            let length = at_start.map_or(1, |(length, _)| length);
            found.extend(at_start.map(|(_, meaning)| meaning));
            words = words.get(length..).unwrap_or_default();
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> (String, bool) {
        let Expansion { words, is_translation } = expand(text);
        (words.join(" "), is_translation)
    }

    #[test]
    fn everyday_words_give_those_of_definitions() {
        assert_eq!(expanded("Get rid of this draft!"), ("delete remove".to_owned(), false));
        // The longest phrase counts, and the text's own words are not repeated.
        assert_eq!(expanded("pull up the list"), ("get".to_owned(), false));
        assert_eq!(expanded("summarize the quarterly figures"), (String::new(), false));
        assert_eq!(expanded(""), (String::new(), false));
    }

    #[test]
    fn a_long_english_text_is_not_expanded() {
        let long = "get rid of drafts, notices, receipts, envelopes, stamps, parcels, labels";
        assert_eq!(expanded(long), (String::new(), false));
    }

    #[test]
    fn other_languages_are_translated_at_any_length() {
        for text in ["wie wird das wetter morgen", "¿qué tiempo hará mañana?", "明天天气怎么样", "明日の天気"]
        {
            let (words, is_translation) = expanded(text);
            assert!(is_translation && words.contains("weather"), "{text}: {words}");
        }
        let long = "bitte zeige mir das wetter für berlin, hamburg, bremen, köln, mainz, bonn und stuttgart";
        assert!(expanded(long).1);
    }

    #[test]
    fn names_in_an_english_text_do_not_make_it_another_language() {
        for text in
            ["mapa of the city", "flights to los angeles", "weather in la paz", "café menus", "a résumé"]
        {
            assert!(!expanded(text).1, "{text}");
        }
    }

    #[test]
    fn every_row_is_read_and_no_phrase_is_there_twice() {
        for text in [include_str!("thesaurus/everyday.txt"), include_str!("thesaurus/foreign.txt")] {
            let lines = || text.lines().filter(|line| !line.starts_with('#'));
            assert!(lines().all(|line| line.split_once('=').is_some()));
            let phrases =
                lines().filter_map(|line| line.split_once('=')).flat_map(|(left, _)| left.split('|'));
            let phrases: Vec<String> = phrases.map(|phrase| words(phrase).join(" ")).collect();
            assert!(phrases.iter().all(|phrase| !phrase.is_empty()));
            let distinct: HashSet<_> = phrases.iter().collect();
            assert!(phrases.len() > 400 && distinct.len() == phrases.len());
        }
    }
}
