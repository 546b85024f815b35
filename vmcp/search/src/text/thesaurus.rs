//! Query expansion by a thesaurus: the words of definitions for the words of people, such as `delete` for
//! "get rid of", and the English words for those of some other languages, such as `weather` for "Wetter".
//!
//! People name wishes in words that no definition has, and the small model knows neither their idioms nor
//! their languages. Rows of the tables, in `thesaurus/`, are general: they name kinds of servers, and none in
//! particular. Figures: `docs/contributor/search-quality.md`.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::analysis::{stem, stemmer, terms, words};

/// Most distinct terms of a text that has a short form.
pub(crate) const MAX_SHORT_TERMS: usize = 6;
/// Words of a text that are looked up; further ones are not.
const MAX_WORDS: usize = 64;
/// Known words of another language from which on an ASCII text counts as written in it. One may be a name.
const MIN_FOREIGN_WORDS: usize = 2;
/// Letters between the two words of a German compound.
const LINKS: [&str; 5] = ["", "s", "n", "en", "es"];
/// Fewest letters of each of the two.
const MIN_PART_LETTERS: usize = 4;
/// Longest compound, in bytes; each is a place to cut.
const MAX_COMPOUND_BYTES: usize = 48;
/// English function words, sorted, that the other languages of the table do not have.
const ENGLISH_WORDS: [&str; 22] = [
    "and", "are", "at", "by", "for", "from", "his", "how", "is", "my", "of", "our", "that", "the", "their",
    "this", "to", "what", "where", "which", "with", "your",
];

/// Rows of everyday words.
pub(super) const EVERYDAY_ROWS: &str = include_str!("thesaurus/everyday.txt");
/// Rows of words of other languages.
pub(super) const FOREIGN_ROWS: &str = include_str!("thesaurus/foreign.txt");

static EVERYDAY: LazyLock<Table> = LazyLock::new(|| Table::parse(EVERYDAY_ROWS));
static FOREIGN: LazyLock<Table> =
    LazyLock::new(|| Table { has_compounds: true, ..Table::parse(FOREIGN_ROWS) });

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
    if is_foreign(text, &words, &foreign) {
        let words = unknown(foreign, &own);
        // Everyday words are English: "bin" is a verb in German.
        return Expansion { is_translation: !words.is_empty(), words };
    }
    let is_short = own.len() <= MAX_SHORT_TERMS;
    let everyday = if is_short { unknown(EVERYDAY.lookup(&words), &own) } else { Vec::new() };
    Expansion { words: everyday, is_translation: false }
}

/// True if a text with these phrases of the table is in another language. The clear phrases must outnumber
/// the function words of English; a phrase that English texts have too counts beside a clear one, if the text
/// has none of these words. "translate 会议 to English", "such male patients" and "a plane to La Paz" are
/// English.
fn is_foreign(text: &str, words: &[String], found: &[&Phrase]) -> bool {
    let clear = found.iter().filter(|phrase| !phrase.is_english_too).count();
    let english = words.iter().filter(|word| ENGLISH_WORDS.binary_search(&word.as_str()).is_ok()).count();
    let known = if english == 0 { found.len() } else { clear };
    let has_other_letters = text.chars().any(|letter| letter.is_alphabetic() && !letter.is_ascii());
    clear > english && (known >= MIN_FOREIGN_WORDS || has_other_letters)
}

/// Returns the words for these phrases that are not among the text's own terms, each once.
fn unknown(phrases: Vec<&Phrase>, own: &HashSet<String>) -> Vec<&'static str> {
    let stemmer = stemmer();
    let mut seen = HashSet::new();
    let is_new = |word: &&str| !own.contains(&stem(&stemmer, (*word).to_owned()));
    let meanings = phrases.into_iter().flat_map(|phrase| phrase.meaning.iter().copied());
    meanings.filter(is_new).filter(|word| seen.insert(*word)).collect()
}

/// The right side of a phrase in a table.
struct Phrase {
    meaning: Vec<&'static str>,
    /// True if the phrase is marked by `?`: it occurs in English texts or names too.
    is_english_too: bool,
}

/// Phrases, as lower-case words with spaces between, and the words for them.
struct Table {
    rows: HashMap<String, Phrase>,
    /// Words of the longest phrase.
    longest: usize,
    /// True if a word may be two words of the table.
    has_compounds: bool,
}

impl Table {
    /// Reads lines of the form `phrase|?phrase = words`.
    fn parse(text: &'static str) -> Table {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let mut rows = HashMap::new();
        let mut longest = 0;
        for (phrases, meaning) in lines.filter_map(|line| line.split_once('=')) {
            let meaning: Vec<_> = meaning.split_whitespace().collect();
            for phrase in phrases.split('|') {
                let is_english_too = phrase.starts_with('?');
                let phrase = words(phrase);
                longest = longest.max(phrase.len());
                rows.insert(phrase.join(" "), Phrase { meaning: meaning.clone(), is_english_too });
            }
        }
        Table { rows, longest, has_compounds: false }
    }

    /// Returns the phrases of a text, the longest one at each place, and those of both parts of a compound.
    fn lookup(&self, mut words: &[String]) -> Vec<&Phrase> {
        let mut found = Vec::new();
        while !words.is_empty() {
            let at_start = (1..=self.longest.min(words.len())).rev().find_map(|length| {
                let phrase = words.get(..length)?.join(" ");
                Some((length, self.rows.get(&phrase)?))
            });
            let length = at_start.map_or(1, |(length, _)| length);
            match at_start {
                Some((_, phrase)) => found.push(phrase),
                None => found.extend(words.first().and_then(|word| self.parts(word)).into_iter().flatten()),
            }
            words = words.get(length..).unwrap_or_default();
        }
        found
    }
}

impl Table {
    /// Returns the phrases of both parts of a compound: `terminkalender`, `rechnungsdatum`. Words that
    /// English has too stay whole.
    fn parts(&self, compound: &str) -> Option<[&Phrase; 2]> {
        if !self.has_compounds || compound.len() > MAX_COMPOUND_BYTES {
            return None;
        }
        let clear = |part: &str| {
            let phrase = self.rows.get(part).filter(|phrase| !phrase.is_english_too);
            phrase.filter(|_| part.chars().count() >= MIN_PART_LETTERS)
        };
        let linked = |part: &str| LINKS.iter().find_map(|link| clear(part.strip_suffix(*link)?));
        compound.char_indices().find_map(|(at, _)| {
            let (first, second) = compound.split_at_checked(at)?;
            Some([linked(first)?, clear(second)?])
        })
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
    fn a_compound_is_translated_by_its_parts() {
        for (text, expected) in [
            ("terminkalender", ["event", "calendar"]),
            ("flugpreise", ["flight", "price"]),
            ("Rechnungsdateien", ["invoice", "file"]),
        ] {
            let (words, is_translation) = expanded(text);
            let has = |word: &str| words.split(' ').any(|other| other == word);
            assert!(is_translation && expected.into_iter().all(has), "{text}: {words}");
        }
        for text in ["terminator", "kalenderx", "notebook", "dateline"] {
            assert!(!expanded(text).1, "{text}: {:?}", expanded(text));
        }
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
    fn words_that_english_has_too_do_not_make_a_text_another_language() {
        for text in [
            "such male patients",
            "lies about a mutation",
            "a plane to Málaga – the cheapest",
            "email Juan de la Cruz his mindmap",
            "a wedding with a pastel color scheme, such as flowers",
            "translate 会议 to english",
            "where’s the hole in this wall",
        ] {
            assert!(!expanded(text).1, "{text}: {:?}", expanded(text));
        }
        // Beside clear words of their language they are translated.
        for (text, word) in
            [("plane meinen tag", "plan"), ("lies die datei", "read"), ("dame la factura", "invoice")]
        {
            let (words, is_translation) = expanded(text);
            assert!(is_translation && words.contains(word), "{text}: {words}");
        }
    }

    #[test]
    fn a_text_in_another_language_has_no_everyday_words_of_english() {
        assert_eq!(expanded("wo bin ich"), (String::new(), false));
    }

    #[test]
    fn everyday_phrases_keep_their_parts_from_meaning_something_else() {
        for (text, words) in [
            ("tell me the population", ""),
            ("when does my flight take off", ""),
            ("convert it to bin", ""),
            ("kick off the build", "start run trigger"),
            ("toss a coin", "random"),
        ] {
            assert_eq!(expanded(text), (words.to_owned(), false), "{text}");
        }
    }

    #[test]
    fn every_row_is_read_and_no_phrase_is_there_twice() {
        for text in [EVERYDAY_ROWS, FOREIGN_ROWS] {
            let lines = || text.lines().filter(|line| !line.starts_with('#'));
            assert!(lines().all(|line| line.split_once('=').is_some()));
            let phrases =
                lines().filter_map(|line| line.split_once('=')).flat_map(|(left, _)| left.split('|'));
            let phrases: Vec<String> = phrases.map(|phrase| words(phrase).join(" ")).collect();
            assert!(
                ENGLISH_WORDS.is_sorted()
                    && ENGLISH_WORDS.iter().all(|word| !phrases.contains(&(*word).to_owned()))
            );
            assert!(phrases.iter().all(|phrase| !phrase.is_empty()));
            let distinct: HashSet<_> = phrases.iter().collect();
            assert!(phrases.len() > 400 && distinct.len() == phrases.len());
        }
    }
}
