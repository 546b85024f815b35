//! Text analysis: splits words at identifier boundaries, lower-cases them, drops stop words and stems the
//! rest.
//!
//! Documents and queries take the same way, so that their terms meet: `create_pullRequest` and "creating a
//! pull request" share `creat`, `pull` and `request`. No character of a text is an operator or a phrase mark.

use rust_stemmers::{Algorithm, Stemmer};

use super::stopwords::is_stop_word;

/// Words longer than this, in bytes, are not stemmed: they are keys and hashes, no English, and the stemmer's
/// time grows with the square of the length.
const MAX_STEMMED_BYTES: usize = 48;

/// Returns the terms of a text in order, repeated as often as they occur.
pub(crate) fn terms(text: &str) -> impl Iterator<Item = String> {
    let stemmer = stemmer();
    content_words(text).map(move |word| stem(&stemmer, word))
}

/// Returns the Snowball stemmer for English that makes all terms.
pub(crate) fn stemmer() -> Stemmer {
    Stemmer::create(Algorithm::English)
}

/// Returns the stem of an English word. Words beyond ASCII stay as they are: the stemmer is made for ASCII
/// and may panic on the rest.
pub(crate) fn stem(stemmer: &Stemmer, word: String) -> String {
    if word.is_ascii() && word.len() <= MAX_STEMMED_BYTES { stemmer.stem(&word).into_owned() } else { word }
}

/// Returns the lower-case words of a text without stop words. A text of stop words alone keeps them, so that
/// `who_am_i` is found by its name.
pub(crate) fn content_words(text: &str) -> impl Iterator<Item = String> {
    let words = words(text);
    let only_stop_words = words.iter().all(|word| is_stop_word(word));
    words.into_iter().filter(move |word| only_stop_words || !is_stop_word(word))
}

/// Splits an identifier into words that keep their case: `create_pullRequest` gives `create`, `pull`,
/// `Request`.
pub(crate) fn split_identifier(identifier: &str) -> Vec<&str> {
    runs(identifier).into_iter().flat_map(split_run).collect()
}

/// Returns the compounds of a text, in order, each with its words, which keep their case.
pub(crate) fn compounds(text: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    runs(text).into_iter().map(|run| (run, split_run(run)))
}

/// Returns lower-case words. A compound in camel case yields its parts and its whole, since people write
/// `github` and `postgresql` for `GitHub` and `PostgreSQL`. Scripts that write no spaces yield overlapping
/// pairs of characters (bigrams).
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for run in runs(text) {
        if is_plain(run) {
            words.push(run.to_owned());
            continue;
        }
        if run.starts_with(is_unspaced) {
            words.extend(pairs(run));
            continue;
        }
        let parts = split_run(run);
        words.extend(parts.iter().map(|part| part.to_lowercase()));
        if parts.len() > 1 {
            words.push(run.to_lowercase());
        }
    }
    words
}

/// Maximal stretches of letters and digits, cut where writing changes between spaced and unspaced scripts.
fn runs(text: &str) -> Vec<&str> {
    let mut runs = Vec::new();
    for run in text.split(|character: char| !character.is_alphanumeric()) {
        if run.is_ascii() {
            runs.extend(Some(run).filter(|run| !run.is_empty()));
        } else {
            runs.extend(cut(run, |_, before, after| is_unspaced(before) != is_unspaced(after)));
        }
    }
    runs
}

/// True for lower-case letters of ASCII alone: most words, which have no boundary within.
fn is_plain(run: &str) -> bool {
    run.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// Splits a run of letters and digits where its case changes, and around a number between two words.
fn split_run(run: &str) -> Vec<&str> {
    cut(run, |at, before, after| is_word_boundary(run, at, before, after))
}

/// True if a word of `run` begins at `at`, between the characters `before` and `after`.
fn is_word_boundary(run: &str, at: usize, before: char, after: char) -> bool {
    if is_infix_number(run, at) {
        return true;
    }
    if !after.is_uppercase() {
        return false;
    }
    let mut following = run.get(at..).unwrap_or_default().chars().skip(1);
    let (next, second) = (following.next(), following.next());
    // `HTTPServer` is cut before `Se`, `listURLs` is not cut before `Ls`: that `s` is a plural.
    let is_plural = next == Some('s') && second.is_none_or(|second| !second.is_lowercase());
    let starts_word = next.is_some_and(char::is_lowercase) && !is_plural;
    before.is_lowercase() || before.is_numeric() || (before.is_uppercase() && starts_word)
}

/// True if `at` is an edge of the number in `md2pdf` or `text2image`. One letter on either side makes an
/// abbreviation (`k8s`, `i18n`, `e2e`); with no lower-case letter behind it, the number belongs to the word
/// (`sha256`, `base64Encode`).
fn is_infix_number(run: &str, at: usize) -> bool {
    let Some((before, after)) = run.split_at_checked(at) else { return false };
    if before.ends_with(char::is_numeric) == after.starts_with(char::is_numeric) {
        return false;
    }
    let mut left = before.trim_end_matches(char::is_numeric).chars().rev();
    let mut right = after.trim_start_matches(char::is_numeric).chars();
    left.next().is_some_and(char::is_alphabetic)
        && left.next().is_some_and(char::is_alphabetic)
        && right.next().is_some_and(char::is_lowercase)
        && right.next().is_some_and(char::is_alphabetic)
}

/// Cuts `run` before every character for which `boundary(position, character before, character)` holds.
fn cut(run: &str, boundary: impl Fn(usize, char, char) -> bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for ((_, before), (at, after)) in run.char_indices().zip(run.char_indices().skip(1)) {
        if boundary(at, before, after) {
            parts.extend(run.get(start..at));
            start = at;
        }
    }
    parts.extend(run.get(start..).filter(|part| !part.is_empty()));
    parts
}

/// Han, Hiragana and Katakana.
fn is_unspaced(character: char) -> bool {
    matches!(character, '\u{3041}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Returns overlapping pairs of characters; a single character is its own pair.
fn pairs(run: &str) -> Vec<String> {
    let characters: Vec<char> = run.chars().collect();
    if characters.len() < 2 {
        return vec![run.to_owned()];
    }
    characters.windows(2).map(|pair| pair.iter().collect()).collect()
}

#[cfg(test)]
mod tests;
