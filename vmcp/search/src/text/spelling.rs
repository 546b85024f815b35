//! Spelling: how near a typed word is to another that was probably meant.
//!
//! Near words differ by one slip: a letter that is missing, added or replaced, or two neighbors in the wrong
//! order (optimal string alignment distance). Short words have many neighbors ("dice" and "dict"), so that
//! fewer slips count for them; long ones may have two. Chosen on queries with one random slip; figures:
//! `docs/contributor/search-quality.md`.

use std::cmp::Ordering;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use super::analysis::{stem, stemmer};
use super::stopwords::is_stop_word;
use super::{paraphrases, thesaurus};

/// Letters of a word that may be a slip. Shorter words have too many neighbors, longer ones are keys.
const LETTERS: RangeInclusive<usize> = 4..=24;
/// Letters from which on any one slip counts.
const LONG: usize = 6;
/// Letters from which on two slips count.
const VERY_LONG: usize = 10;
/// Fewest letters of the other word that two slips may lead to.
const MIN_LONG_TARGET: usize = 8;
/// Fewest letters of the other word that any one slip may lead to.
const MIN_TARGET: usize = 5;
/// Fewest letters of any other word.
const MIN_LETTERS: usize = 3;

/// Endings that make another form of a word, and no slip: "scrape" and the stem of "scraping".
const ENDINGS: [&str; 5] = ["e", "s", "d", "es", "ed"];

/// English words of people in the tables of this crate, sorted. None of them is a slip; each may be meant by
/// one.
static ENGLISH_WORDS: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| words_of(&[paraphrases::WISHES, thesaurus::EVERYDAY_ROWS]));

/// Words of other languages, and the English ones for them, sorted: none of them is a slip.
static FOREIGN_WORDS: LazyLock<Vec<&'static str>> = LazyLock::new(|| words_of(&[thesaurus::FOREIGN_ROWS]));

fn words_of(tables: &[&'static str]) -> Vec<&'static str> {
    let words = tables.iter().flat_map(|table| table.split(|letter: char| !letter.is_alphabetic()));
    let mut words: Vec<_> = words.filter(|word| is_plain(word) && word.len() >= MIN_LETTERS).collect();
    words.sort_unstable();
    words.dedup();
    words
}

/// Stems of the English words, sorted.
static KNOWN_STEMS: LazyLock<Vec<Box<str>>> = LazyLock::new(|| {
    let stemmer = stemmer();
    let mut stems: Vec<Box<str>> =
        ENGLISH_WORDS.iter().map(|word| stem(&stemmer, (*word).to_owned()).into_boxed_str()).collect();
    stems.sort_unstable();
    stems.dedup();
    stems
});

/// True if a lower-case word of this stem may be a slip: letters of ASCII, neither too few nor too many, that
/// make no form of a word of the tables.
pub(crate) fn may_be_a_slip(word: &str, stem: &str) -> bool {
    LETTERS.contains(&word.len())
        && is_plain(word)
        && !is_stop_word(word)
        && FOREIGN_WORDS.binary_search(&word).is_err()
        && KNOWN_STEMS.binary_search_by(|known| (**known).cmp(stem)).is_err()
}

/// Returns the English words of the tables that a word is a slip of, with the number of slips.
pub(crate) fn english_words_near(typed: &str) -> impl Iterator<Item = (usize, &'static str)> {
    ENGLISH_WORDS.iter().filter_map(move |word| Some((slips(typed, typed, word)?, *word)))
}

/// Returns the number of slips between a typed word, or its stem, and another word; `None` if they are not
/// near. A slip of the first letter is a swap.
pub(crate) fn slips(typed: &str, stem: &str, word: &str) -> Option<usize> {
    let mut typed_letters = typed.bytes();
    let mut letters = word.bytes();
    let (first, second) = (typed_letters.next()?, typed_letters.next()?);
    let start = (letters.next()?, letters.next()?);
    if (start.0 != first && start != (second, first)) || !is_plain(word) {
        return None;
    }
    let ending = typed.strip_prefix(word);
    if ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
        return None;
    }
    let of_word = near(typed.as_bytes(), word.as_bytes());
    if typed == stem {
        of_word
    } else {
        of_word.into_iter().chain(near(stem.as_bytes(), word.as_bytes())).min()
    }
}

/// True for lower-case letters of ASCII alone.
fn is_plain(word: &str) -> bool {
    word.bytes().all(|letter| letter.is_ascii_lowercase())
}

/// Returns the number of slips between two words that are near.
fn near(typed: &[u8], word: &[u8]) -> Option<usize> {
    let (shorter, longer) = (typed.len().min(word.len()), typed.len().max(word.len()));
    if longer - shorter > 2 || shorter < MIN_LETTERS {
        return None;
    }
    let slips = distance(typed, word);
    if longer >= VERY_LONG && shorter >= MIN_LONG_TARGET {
        return Some(slips).filter(|slips| *slips <= 2);
    }
    let is_long = typed.len() >= LONG && shorter >= MIN_TARGET;
    let counts = || match word.len().cmp(&typed.len()) {
        Ordering::Greater => match typed.len().cmp(LETTERS.start()) {
            Ordering::Greater => true,
            Ordering::Equal => lacks_weak_letter(typed, word),
            Ordering::Less => false,
        },
        Ordering::Equal => has_same_letters(typed, word),
        Ordering::Less => has_doubled_letter(typed, word),
    };
    (slips <= 1 && (is_long || counts())).then_some(slips)
}

/// True if two words are the same letters in another order.
fn has_same_letters(typed: &[u8], word: &[u8]) -> bool {
    let [mut typed, mut word] = [typed, word].map(<[u8]>::to_vec);
    typed.sort_unstable();
    word.sort_unstable();
    typed == word
}

/// True if the first letter that a typed word lacks is a vowel, or repeats the letter before it.
fn lacks_weak_letter(typed: &[u8], word: &[u8]) -> bool {
    let same = typed.iter().zip(word).take_while(|(typed, word)| typed == word).count();
    let is_vowel = |letter: &u8| b"aeiouy".contains(letter);
    word.get(same).is_some_and(is_vowel) || (same > 0 && word.get(same) == word.get(same - 1))
}

/// True if the first letter that a word lacks repeats the letter before it.
fn has_doubled_letter(typed: &[u8], word: &[u8]) -> bool {
    let same = typed.iter().zip(word).take_while(|(typed, word)| typed == word).count();
    same > 0 && typed.get(same) == typed.get(same - 1)
}

/// Returns the optimal string alignment distance: insertions, deletions, replacements and swaps of neighbors.
fn distance(typed: &[u8], word: &[u8]) -> usize {
    let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX / 2);
    // Rows of the table: the one above, and the one before that.
    let (mut before, mut above): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=word.len()).collect());
    let mut previous = None;
    for (row, letter) in typed.iter().enumerate() {
        let mut next = vec![row + 1];
        let mut previous_other = None;
        for (column, other) in word.iter().enumerate() {
            let replaced = at(&above, column) + usize::from(letter != other);
            let mut least = replaced.min(at(&above, column + 1) + 1).min(at(&next, column) + 1);
            if previous == Some(other) && previous_other == Some(letter) {
                least = least.min(at(&before, column.saturating_sub(1)) + 1);
            }
            next.push(least);
            previous_other = Some(other);
        }
        before = std::mem::replace(&mut above, next);
        previous = Some(letter);
    }
    above.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(typed: &str, word: &str) -> Option<usize> {
        slips(typed, typed, word)
    }

    #[test]
    fn one_slip_leads_to_a_word_and_two_to_a_long_one() {
        for (typed, word) in [
            ("isue", "issue"),
            ("evnt", "event"),
            ("mial", "mail"),
            ("fiel", "file"),
            ("maill", "mail"),
            ("calender", "calendar"),
            ("mesage", "message"),
            ("serach", "search"),
            ("esarch", "search"),
            ("wheather", "weather"),
        ] {
            assert_eq!(count(typed, word), Some(1), "{typed} {word}");
        }
        assert_eq!(count("subscripton", "subscription"), Some(1));
        assert_eq!(count("apointmnet", "appointment"), Some(2));
        assert_eq!(slips("shedule", "shedul", "schedul"), Some(1), "by its stem");
    }

    #[test]
    fn another_word_is_no_slip() {
        for (typed, word) in [
            ("dice", "dict"),
            ("root", "riot"),
            ("scrape", "scrap"),
            ("root", "robot"),
            ("boys", "buy"),
            ("peace", "place"),
            ("arena", "area"),
            ("lung", "long"),
            ("motion", "notion"),
            ("capability", "capacity"),
            ("ab", "abc"),
            ("", "a"),
            ("words", "größe"),
        ] {
            assert_eq!(count(typed, word), None, "{typed} {word}");
        }
    }

    #[test]
    fn words_of_people_numbers_and_keys_are_no_slips() {
        let may_be = |word: &str| may_be_a_slip(word, &stem(&stemmer(), word.to_owned()));
        for word in ["delete", "deleting", "grandma", "wetter", "the", "abc", "größe", "k8s", &"x".repeat(40)]
        {
            assert!(!may_be(word), "{word}");
        }
        assert!(may_be("isue") && may_be("calender"));
        assert!(ENGLISH_WORDS.len() > 1500 && ENGLISH_WORDS.is_sorted() && FOREIGN_WORDS.len() > 500);
        assert!(english_words_near("wetaher").any(|near| near == (1, "weather")));
    }
}
