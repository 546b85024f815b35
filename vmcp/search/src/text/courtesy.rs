//! Courtesy: words around a request that say nothing about it, such as "could you please … for me".
//!
//! They move the vector of a short text, and hide its first word, which tells a command from a question.
//! Figures: `docs/contributor/search-quality.md`.

use std::collections::HashSet;

use super::analysis::{terms, words};
use super::short_form::MAX_SHORT_TERMS;
use super::stopwords::is_stop_word;

/// Words of a text from which on it is not short whatever is taken from it.
const MAX_WORDS: usize = 32;

/// Phrases before a request. "I have to" is left out, as a duty is often a new task for a list, and "plz", as
/// it is a postal code in German.
const BEFORE: [&str; 55] = [
    "please",
    "pls",
    "kindly",
    "hey",
    "hi",
    "hey there",
    "hi there",
    "hello there",
    "ok",
    "okay",
    "just",
    "quickly",
    "can you",
    "could you",
    "would you",
    "will you",
    "can u",
    "could u",
    "would you mind",
    "i want to",
    "i wanna",
    "i would like to",
    "i'd like to",
    "id like to",
    "i need to",
    "i want you to",
    "i need you to",
    "i'd like you to",
    "i would like you to",
    "help me",
    "help me to",
    "i need help to",
    "go ahead and",
    "try to",
    "is it possible to",
    "is there a way to",
    "are you able to",
    "i was wondering if you could",
    "hello can you",
    "hello could you",
    "hello would you",
    "hello please",
    "hello i want to",
    "hello i need to",
    "i would love to",
    "i'd love to",
    "i am trying to",
    "i'm trying to",
    "im trying to",
    "want to",
    "wanna",
    "would it be possible to",
    "would you be able to",
    "do you think you could",
    "feel free to",
];

/// Phrases after a request. "Plz" is left out here too, and "ty", as it is a name.
const AFTER: [&str; 25] = [
    "please",
    "pls",
    "thanks",
    "thank you",
    "thx",
    "for me",
    "asap",
    "quickly",
    "real quick",
    "if you can",
    "if possible",
    "will you",
    "would you",
    "could you",
    "can you",
    "thanks a lot",
    "thank you very much",
    "thanks in advance",
    "thanks so much",
    "thank you so much",
    "if you could",
    "if you don't mind",
    "when you can",
    "when you get a chance",
    "as soon as possible",
];

/// Words before a phrase that make it a part of the request: "write her a thank you", "who works for me",
/// "is anybody waiting for me".
const KEEPERS: [&str; 19] = [
    "a", "an", "asked", "asking", "big", "her", "his", "looking", "many", "my", "our", "say", "send", "the",
    "their", "wait", "waiting", "work", "works",
];

/// A word of a text, in lower case, and its place.
struct Word {
    text: String,
    start: usize,
    end: usize,
}

/// Returns a short request by itself, as a part of the text; a text that is still longer than a short one
/// without its courtesy, or that has nothing else, as it is.
///
/// ```
/// use vmcp_search::request_of;
///
/// assert_eq!(request_of("Could you please mute this chat for me?"), "mute this chat");
/// assert_eq!(request_of("who follows this ticket?"), "who follows this ticket?");
/// assert_eq!(request_of("please"), "please");
/// ```
pub fn request_of(text: &str) -> &str {
    let words = words_of(text);
    if words.len() > MAX_WORDS {
        return text;
    }
    let mut rest = words.as_slice();
    while let Some(length) = longest(&BEFORE, |phrase| begins_with(rest, phrase)) {
        rest = rest.get(length..).unwrap_or_default();
    }
    let mut is_cut = false;
    while let Some(length) = longest(&AFTER, |phrase| ends_with(rest, phrase)) {
        rest = rest.get(..rest.len().saturating_sub(length)).unwrap_or_default();
        is_cut = true;
    }
    let (Some(first), Some(last)) = (rest.first(), rest.last()) else { return text };
    if rest.len() == words.len() {
        return text;
    }
    let end = if is_cut { last.end } else { text.len() };
    text.get(first.start..end).filter(|request| is_short_request(request)).unwrap_or(text)
}

/// True if a text says something, in few terms.
fn is_short_request(text: &str) -> bool {
    let says_something = words(text).iter().any(|word| !is_stop_word(word));
    says_something && terms(text).collect::<HashSet<_>>().len() <= MAX_SHORT_TERMS
}

/// Splits a text at spaces and punctuation; one word more than [`MAX_WORDS`] at most.
fn words_of(text: &str) -> Vec<Word> {
    let separates =
        |letter: char| letter.is_whitespace() || matches!(letter, '.' | ',' | '!' | '?' | ';' | ':');
    let mut words = Vec::new();
    let mut start = 0;
    for part in text.split_inclusive(separates) {
        let word = part.trim_end_matches(separates);
        if !word.is_empty() {
            let text = word.to_lowercase().replace('’', "'");
            words.push(Word { text, start, end: start + word.len() });
        }
        if words.len() > MAX_WORDS {
            break;
        }
        start += part.len();
    }
    words
}

/// Returns the words of the longest phrase for which `length` finds any.
fn longest(phrases: &[&str], length: impl Fn(&str) -> Option<usize>) -> Option<usize> {
    phrases.iter().filter_map(|phrase| length(phrase)).max()
}

/// Returns the number of words of a phrase that a text begins with, if more words follow.
fn begins_with(words: &[Word], phrase: &str) -> Option<usize> {
    let length = phrase.split(' ').count();
    let head = words.get(..length)?;
    (length < words.len() && is_phrase(head, phrase)).then_some(length)
}

/// Returns the number of words of a phrase at the end of a text. A phrase after one of [`KEEPERS`] belongs to
/// the request.
fn ends_with(words: &[Word], phrase: &str) -> Option<usize> {
    let length = phrase.split(' ').count();
    let (head, tail) = words.split_at_checked(words.len().checked_sub(length)?)?;
    let before = head.last()?;
    let is_part = KEEPERS.contains(&before.text.as_str());
    (!is_part && is_phrase(tail, phrase)).then_some(length)
}

fn is_phrase(words: &[Word], phrase: &str) -> bool {
    words.iter().map(|word| word.text.as_str()).eq(phrase.split(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn courtesy_around_a_request_is_taken_away() {
        for (text, request) in [
            ("please turn the pings off", "turn the pings off"),
            ("Hey there, can you PLEASE turn the pings off, thanks!", "turn the pings off"),
            ("hey, I’d like to turn the pings off!", "turn the pings off!"),
            ("just quickly turn the pings off pls", "turn the pings off"),
            ("I was wondering if you could turn the pings off for me, if possible?", "turn the pings off"),
            ("hello, can you turn the pings off when you get a chance", "turn the pings off"),
            ("I’m trying to turn the pings off. Thanks in advance!", "turn the pings off"),
            ("would you mind telling me the score?", "telling me the score?"),
            ("rounder corners please", "rounder corners"),
        ] {
            assert_eq!(request_of(text), request, "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_more_than_courtesy_stays() {
        for text in ["", "  ", "please", "can you", "can you please?", "thanks", "ok, can you do it", "!?"] {
            assert_eq!(request_of(text), text);
        }
    }

    #[test]
    fn words_of_the_request_stay() {
        for text in [
            "who can help me with this",
            "write her a thank you",
            "send thanks",
            "who works for me",
            "is anybody waiting for me",
            "who was looking for me",
            "PLZ suchen",
            "finde die adresse zur plz",
            "send an email to Ty",
            "which machines build for us",
            "let me see",
            "what do i have to pay",
            "is the server ok",
            "let's encrypt certificate",
            "i have to call grandma",
            "now playing",
            "hello world",
            "pleasefoo",
            "天気を教えて",
        ] {
            assert_eq!(request_of(text), text);
        }
    }

    #[test]
    fn a_longer_text_stays_as_it_is() {
        let long =
            "please send drafts, notices, receipts, envelopes, stamps, parcels and labels to accounting";
        assert_eq!(request_of(long), long);
        let longer = format!("please {}", "mute it ".repeat(40));
        assert_eq!(request_of(&longer), longer);
    }

    #[test]
    fn no_phrase_is_there_twice() {
        for phrases in [BEFORE.as_slice(), &AFTER, &KEEPERS] {
            let distinct: HashSet<_> = phrases.iter().collect();
            assert_eq!(distinct.len(), phrases.len());
            assert!(phrases.iter().all(|phrase| phrase.to_lowercase() == **phrase));
        }
    }
}
