//! [`KeyText`]: a key that may lie across pieces. It is read only while it can still be a known key.

use std::borrow::Cow;

use vmcp_json::text;

/// Bytes of a key that are kept. The longest key that matters has 38 characters, and an escape takes six
/// bytes.
const MAX_KEY_BYTES: usize = 256;

/// The bytes of a key, as they were written, without quotes. A key that arrives whole needs no copy.
#[derive(Debug, Default)]
pub(super) struct KeyText {
    begun: Vec<u8>,
    is_escaped: bool,
    is_too_long: bool,
}

impl KeyText {
    /// Begins another key.
    pub(super) fn clear(&mut self) {
        self.begun.clear();
        (self.is_escaped, self.is_too_long) = (false, false);
    }

    /// Keeps a part that an escape or the end of a piece follows.
    pub(super) fn push(&mut self, part: &[u8]) {
        if self.is_too_long || self.begun.len() + part.len() > MAX_KEY_BYTES {
            self.is_too_long = true;
        } else {
            self.is_escaped |= part == b"\\";
            self.begun.extend_from_slice(part);
        }
    }

    /// Returns the key with its last part; `None` if the key is too long to matter, or no valid Unicode.
    pub(super) fn end<'a>(&'a mut self, last: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        if self.begun.is_empty() && !self.is_too_long {
            return Some(Cow::Borrowed(last));
        }
        self.push(last);
        if self.is_too_long {
            return None;
        }
        if !self.is_escaped {
            return Some(Cow::Borrowed(&self.begun));
        }
        let quoted = format!("\"{}\"", std::str::from_utf8(&self.begun).ok()?);
        Some(Cow::Owned(text::unquoted(&quoted)?.into_owned().into_bytes()))
    }
}
