//! JSON strings and Rust strings.

use std::borrow::Cow;

use serde_json::value::RawValue;

/// `text` as a JSON string, quotes included.
#[must_use]
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The text of a JSON string, borrowed unless it holds an escape; `None` when the value is no string or an escape is
/// half of a surrogate pair.
#[must_use]
pub fn unquoted(raw: &RawValue) -> Option<Cow<'_, str>> {
    let json = raw.get();
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str::<String>(json).ok().map(Cow::Owned)
}

/// Whether the value is a JSON object. The text of a [`RawValue`] is valid and starts at the value.
#[must_use]
pub fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

/// Whether the value is a string or an integer, the two kinds of request id and progress token.
#[must_use]
pub fn is_id(raw: &RawValue) -> bool {
    let json = raw.get();
    json.starts_with('"') || json.bytes().all(|b| b.is_ascii_digit() || b == b'-')
}
