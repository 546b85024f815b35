//! Small JSON values as text: quoting and unquoting of strings, and tests of a value's kind by its first
//! byte.
//!
//! The functions that read expect one valid value without space around it, such as the text of a
//! [`RawValue`].

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::string_bytes::plain_length;
use crate::unescape::unescaped;

/// `{}`, for parameters and results that hold nothing.
#[must_use]
pub fn empty_object() -> &'static RawValue {
    // The text is valid JSON; `null` stands in for the case that cannot be.
    serde_json::from_str("{}").unwrap_or(RawValue::NULL)
}

/// Writes `text` as a JSON string, quotes included.
#[must_use]
pub fn quoted(text: &str) -> String {
    if plain_length(text.as_bytes()) < text.len() {
        return serde_json::Value::from(text).to_string();
    }
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    json.push_str(text);
    json.push('"');
    json
}

/// Appends `text` as a JSON string, quotes included.
pub fn push_quoted(json: &mut Vec<u8>, text: &str) {
    if plain_length(text.as_bytes()) < text.len() {
        json.extend_from_slice(quoted(text).as_bytes());
        return;
    }
    json.push(b'"');
    json.extend_from_slice(text.as_bytes());
    json.push(b'"');
}

/// Reads a JSON string, borrowed unless it holds an escape; `None` for any other value and for half a
/// surrogate pair, which no Rust string can hold.
///
/// ```
/// use vmcp_json::text::{quoted, unquoted};
///
/// assert_eq!(quoted("a\"b"), r#""a\"b""#);
/// assert_eq!(unquoted(r#""a\"b""#).as_deref(), Some("a\"b"));
/// assert_eq!(unquoted("7"), None);
/// ```
#[must_use]
pub fn unquoted(json: &str) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    unescaped(inner).map(Cow::Owned)
}

/// Replaces each half of a surrogate pair, written as an escape, by `\ufffd`; `None` without such halves.
/// JavaScript writes them where a text was cut within an emoji; no Rust string can hold them.
///
/// ```
/// use vmcp_json::text::without_half_surrogates;
///
/// let cut = without_half_surrogates(r#""cut \ud83d""#);
/// assert_eq!(cut.as_deref(), Some(r#""cut \ufffd""#));
/// assert_eq!(without_half_surrogates(r#""\ud83d\ude00 \\ud83d""#), None, "a pair, and an escaped backslash");
/// ```
#[must_use]
pub fn without_half_surrogates(json: &str) -> Option<String> {
    const ESCAPE: usize = r"\u0000".len();
    let unit = |at: usize| u16::from_str_radix(json.get(at..at + ESCAPE)?.strip_prefix("\\u")?, 16).ok();
    let (mut mended, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(found) = json.as_bytes().get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        at += found;
        at += match unit(at) {
            Some(0xD800..=0xDBFF) if matches!(unit(at + ESCAPE), Some(0xDC00..=0xDFFF)) => 2 * ESCAPE,
            Some(0xD800..=0xDFFF) => {
                mended.push_str(json.get(copied..at).unwrap_or_default());
                mended.push_str("\\ufffd");
                copied = at + ESCAPE;
                ESCAPE
            }
            Some(_) => ESCAPE,
            None => 2,
        };
    }
    (copied > 0).then(|| mended + json.get(copied..).unwrap_or_default())
}

/// True if the value is an object.
#[must_use]
pub fn is_object(json: &str) -> bool {
    json.starts_with('{')
}

/// Most bytes of a request id, and of a progress token, as they are written. Ids are kept as long as the
/// stream of a call can be resumed, and stand in each message of a subscription.
pub const MAX_ID_BYTES: usize = 1024;

/// True if the value is a string or an integer, the two kinds of request id and progress token, and not too
/// long for one.
#[must_use]
pub fn is_id(json: &str) -> bool {
    let is_integer = || json.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    json.len() <= MAX_ID_BYTES && (json.starts_with('"') || is_integer())
}
