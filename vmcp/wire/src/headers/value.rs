//! Encodes any text as a header value: as it is where possible, else as `=?base64?…?=`.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// Encodes `text` as a header value. Visible ASCII without space at its ends stays as it is, unless it could
/// be taken for an encoded value.
///
/// ```
/// use vmcp_wire::headers::{decode, encode};
///
/// assert_eq!(encode("us-west1"), "us-west1");
/// assert_eq!(encode(" padded "), "=?base64?IHBhZGRlZCA=?=");
/// assert_eq!(decode("=?base64?IHBhZGRlZCA=?=").as_deref(), Some(" padded "));
/// ```
#[must_use]
pub fn encode(text: &str) -> Cow<'_, str> {
    let padded = text.starts_with([' ', '\t']) || text.ends_with([' ', '\t']);
    if is_visible(text) && !padded && encoded(text).is_none() {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("{PREFIX}{}{SUFFIX}", BASE64_STANDARD.encode(text)))
    }
}

/// Decodes a header value; `None` if the value is marked as encoded, but is not base64 of UTF-8.
#[must_use]
pub fn decode(value: &str) -> Option<Cow<'_, str>> {
    match encoded(value) {
        None => Some(Cow::Borrowed(value)),
        Some(inner) => String::from_utf8(BASE64_STANDARD.decode(inner).ok()?).ok().map(Cow::Owned),
    }
}

/// True if every byte may stand in a header value (RFC 9110, 5.5, without obsolete bytes).
pub(super) fn is_visible(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
}

fn encoded(value: &str) -> Option<&str> {
    value.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)
}
