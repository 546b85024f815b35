//! [`without_secrets`]: removes secrets from any text by their shape, for texts that leave the machine.
//!
//! Better too much than too little: a hash of 64 hex digits may go too. Secrets without a shape are known by
//! [`KnownSecrets`](crate::KnownSecrets), which is asked first.

mod patterns;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use self::patterns::{COLORS, NAMED_VALUES, PROSE, SHAPES, WORD};
use crate::references::secret_signs::{is_secret_name, looks_secret};
use crate::values::secret::MASK;

/// Schemes of `Authorization`, before the secret itself.
const SCHEMES: [&str; 10] = [
    "bearer",
    "basic",
    "negotiate",
    "digest",
    "token",
    "apikey",
    "api-key",
    "dpop",
    "ntlm",
    "aws4-hmac-sha256",
];
/// Further last words in names of secrets.
const SECRET_WORDS: [&str; 9] =
    ["key", "sig", "signature", "hmac", "assertion", "verifier", "otp", "pin", "bearer"];
/// Words beside `key` in names of keys that open nothing.
const OPEN_KEYS: [&str; 6] = ["public", "primary", "foreign", "cache", "sort", "partition"];
/// Names of digests and ids, which look random and are public.
const NAMES_OF_DIGESTS: [&str; 5] = ["hash", "digest", "sha256", "trace", "version"];
/// Bytes before a random word in which such a name is looked for.
const NAME_REACH: usize = 24;
/// Fewest characters of Base64 that is a secret by its look alone.
const MIN_BASE64_CHARACTERS: usize = 32;
/// Fewest changes between capitals, small letters and digits in it.
const MIN_CHANGES: usize = 12;

static SHAPES_OF_SECRETS: LazyLock<Vec<Regex>> = LazyLock::new(|| compiled(&SHAPES));
static VALUES_BEHIND_NAMES: LazyLock<Vec<Regex>> = LazyLock::new(|| compiled(&NAMED_VALUES));
static WORDS_OF_PEOPLE: LazyLock<Vec<Regex>> = LazyLock::new(|| compiled(&[PROSE]));
static COLORS_OF_TERMINALS: LazyLock<Vec<Regex>> = LazyLock::new(|| compiled(&[COLORS]));
static RANDOM_WORDS: LazyLock<Vec<Regex>> = LazyLock::new(|| compiled(&[WORD]));

/// Compiles patterns. A test compiles each of them.
fn compiled(patterns: &[&str]) -> Vec<Regex> {
    patterns.iter().filter_map(|pattern| Regex::new(pattern).ok()).collect()
}

/// Replaces what these patterns find.
fn replaced<'a>(
    text: Cow<'a, str>,
    patterns: &[Regex],
    replacement: impl Fn(&str, &Captures<'_>) -> String,
) -> Cow<'a, str> {
    patterns.iter().fold(text, |text, pattern| {
        let changed = match pattern.replace_all(&text, |found: &Captures<'_>| replacement(&text, found)) {
            Cow::Owned(changed) => Some(changed),
            Cow::Borrowed(_) => None,
        };
        changed.map_or(text, Cow::Owned)
    })
}

/// Returns a group of a match; an absent one is empty.
fn part<'t>(found: &Captures<'t>, name: &str) -> &'t str {
    found.name(name).map_or("", |part| part.as_str())
}

/// Returns a text in which everything that has the shape of a secret, or stands behind the name of one, is
/// `***`. Colors of a terminal go, which part a name from its value.
///
/// # Examples
///
/// ```
/// let line = "login at https://bob:hunter2@db.example failed, password=hunter2 retry=3";
/// let masked = "login at https://bob:***@db.example failed, password=*** retry=3";
/// assert_eq!(vmcp_config::without_secrets(line), masked);
/// ```
pub fn without_secrets(text: &str) -> String {
    let text = replaced(Cow::Borrowed(text), &COLORS_OF_TERMINALS, |_, _| String::new());
    let text = replaced(text, &SHAPES_OF_SECRETS, |_, found| {
        let at = if found.get(0).is_some_and(|all| all.as_str().ends_with('@')) { "@" } else { "" };
        format!("{}{MASK}{at}", part(found, "keep"))
    });
    let text = replaced(text, &VALUES_BEHIND_NAMES, |text, found| {
        let (name, value) = (part(found, "name"), part(found, "value"));
        let begin = found.get(0).and_then(|all| text.get(..all.start()));
        let is_reference = begin.is_some_and(|before| before.ends_with("${"));
        let shown = if !is_reference && is_secret_setting(name, value) { MASK } else { value };
        let (before, between, after) = (part(found, "before"), part(found, "between"), part(found, "after"));
        format!("{before}{name}{between}{shown}{after}")
    });
    let text = replaced(text, &WORDS_OF_PEOPLE, |_, found| {
        let value = part(found, "value");
        let has = |is_kind: fn(&u8) -> bool| value.as_bytes().iter().any(is_kind);
        let is_secret = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
        format!("{}{}", part(found, "keep"), if is_secret { MASK } else { value })
    });
    let text = replaced(text, &RANDOM_WORDS, |text, found| {
        let Some(word) = found.get(0) else { return String::new() };
        let before = text.get(..word.start()).unwrap_or_default();
        if is_digest_behind(before) { word.as_str().to_owned() } else { without_random(word.as_str()) }
    });
    text.into_owned()
}

/// True if a text ends with the name of a digest.
fn is_digest_behind(before: &str) -> bool {
    let reach = before.ceil_char_boundary(before.len().saturating_sub(NAME_REACH));
    let end = before.get(reach..).unwrap_or_default().to_ascii_lowercase();
    NAMES_OF_DIGESTS.iter().any(|name| end.contains(name))
}

/// Masks a word that looks random; of a path, each part that does: some addresses have a token in theirs.
fn without_random(word: &str) -> String {
    if is_random_base64(word) {
        return MASK.to_owned();
    }
    let parts = word.split('/').map(|part| if looks_secret(part) { MASK } else { part });
    parts.collect::<Vec<_>>().join("/")
}

/// True for Base64 with a sign that no path of plain words has as often: a secret key of AWS.
fn is_random_base64(word: &str) -> bool {
    let kind = |byte: u8| match byte {
        b'A'..=b'Z' => Some(0_u8),
        b'a'..=b'z' => Some(1),
        b'0'..=b'9' => Some(2),
        _ => None,
    };
    let has = |wanted: u8| word.bytes().any(|byte| kind(byte) == Some(wanted));
    let changes = word.bytes().zip(word.bytes().skip(1)).filter(|(one, next)| {
        let kinds = kind(*one).zip(kind(*next));
        kinds.is_some_and(|(one, next)| one != next)
    });
    word.len() >= MIN_BASE64_CHARACTERS
        && word.contains(['/', '+'])
        && [0, 1, 2].into_iter().all(has)
        && changes.count() >= MIN_CHANGES
}

/// Returns true for a value behind the name of a secret, except for a path, a URL, a word of the
/// configuration, and a number behind a name that may be a count.
pub fn is_secret_setting(name: &str, value: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_count = value.len() < 16 && value.parse::<f64>().is_ok();
    let is_password = ["pass", "secret", "pwd"].iter().any(|word| lower.contains(word))
        || words_of(name).last().is_some_and(|word| matches!(word.as_str(), "otp" | "pin"));
    let is_word = matches!(value, "true" | "false" | "null" | "None" | "Some" | MASK) || is_scheme(value);
    // Of `Bearer ${TOKEN}`, the reference.
    let behind_scheme = value.split_once(' ').filter(|(scheme, _)| is_scheme(scheme));
    let place = behind_scheme.map_or(value, |(_, behind)| behind.trim_start());
    let is_place = place.starts_with(['/', '.', '~', '`', '$', '{', '[', '(', '<']) || place.contains("://");
    let name = name.trim_start_matches('-');
    let is_secret = is_secret_name(name) || is_name_of_more(name);
    is_secret && !is_word && !is_place && (is_password || !is_count)
}

fn is_scheme(word: &str) -> bool {
    SCHEMES.iter().any(|scheme| scheme.eq_ignore_ascii_case(word))
}

/// True for a name that ends with a word of secrets, such as `AccountKey` and `sig`, and for the id of a
/// session.
fn is_name_of_more(name: &str) -> bool {
    let words = words_of(name);
    let is_open = words.iter().any(|word| OPEN_KEYS.contains(&word.as_str()));
    let is_last = words.last().is_some_and(|word| SECRET_WORDS.contains(&word.as_str()));
    (!is_open && is_last) || words.concat().ends_with("sessionid")
}

/// Returns the words of a name, in small letters: `AccountKey` and `account_key` have two.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for c in name.chars() {
        let is_begin = c.is_ascii_uppercase() && was_small;
        if is_begin || !c.is_ascii_alphanumeric() {
            words.push(String::new());
        }
        if c.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(c.to_ascii_lowercase());
        }
        was_small = c.is_ascii_lowercase() || c.is_ascii_digit();
    }
    words
}
