//! [`Reader`]: reads a JSON text once, from front to back, checks its grammar and returns the places of keys
//! and values. Nothing recurses, so nesting costs a bit a level.

use std::ops::Range;

use crate::containers::OpenContainers;
use crate::string_bytes::plain_length;

/// A byte that no JSON text has at this offset, or the end of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unexpected byte at offset {0}")]
pub struct Unexpected(pub usize);

/// A value that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// The bytes of the value.
    pub span: Range<usize>,
    /// Levels of arrays and objects: 0 for a scalar, 1 for `{}`.
    pub depth: usize,
}

/// Reads objects entry by entry. The text must be UTF-8, which is not checked.
///
/// ```
/// use vmcp_json::reader::Reader;
///
/// let text = r#"{"a": [1, {"b": null}], "c": 2}"#;
/// let mut reader = Reader::new(text.as_bytes());
/// reader.open_object()?;
/// let mut values = Vec::new();
/// while let Some(key) = reader.next_key()? {
///     values.push((&text[key], reader.value()?.depth));
/// }
/// reader.finish()?;
/// assert_eq!(values, [("\"a\"", 2), ("\"c\"", 0)]);
/// # Ok::<(), vmcp_json::reader::Unexpected>(())
/// ```
#[derive(Debug)]
pub struct Reader<'a> {
    json: &'a [u8],
    at: usize,
    /// True behind an opening brace: no comma comes before the next key.
    first: bool,
}

impl<'a> Reader<'a> {
    /// Begins in front of the text.
    #[must_use]
    pub fn new(json: &'a [u8]) -> Self {
        Self { json, at: 0, first: false }
    }

    /// Returns the first byte of the next value, which tells its kind.
    pub fn peek(&mut self) -> Option<u8> {
        self.skip_space();
        self.byte()
    }

    /// Enters an object and returns the offset of its brace. [`Reader::next_key`] iterates over its entries,
    /// and leaves it at the end.
    pub fn open_object(&mut self) -> Result<usize, Unexpected> {
        self.skip_space();
        let start = self.at;
        self.expect(b'{')?;
        self.first = true;
        Ok(start)
    }

    /// Returns the place of the next key, quotes included; `None` at the end of the object. The value behind
    /// the key must be read next.
    pub fn next_key(&mut self) -> Result<Option<Range<usize>>, Unexpected> {
        self.skip_space();
        let first = std::mem::take(&mut self.first);
        if self.byte() == Some(b'}') {
            self.at += 1;
            return Ok(None);
        }
        if !first {
            self.expect(b',')?;
        }
        self.key().map(Some)
    }

    /// Reads the next value whole.
    pub fn value(&mut self) -> Result<Value, Unexpected> {
        self.skip_space();
        let start = self.at;
        let (mut open, mut deepest) = (OpenContainers::default(), 0);
        loop {
            match self.byte() {
                Some(b'"') => _ = self.string()?,
                Some(bracket @ (b'{' | b'[')) => {
                    self.at += 1;
                    self.skip_space();
                    let is_object = bracket == b'{';
                    open.push(is_object);
                    deepest = deepest.max(open.depth());
                    if self.byte() != Some(if is_object { b'}' } else { b']' }) {
                        if is_object {
                            self.key()?;
                        }
                        continue;
                    }
                }
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.literal(b"true")?,
                Some(b'f') => self.literal(b"false")?,
                Some(b'n') => self.literal(b"null")?,
                _ => return Err(Unexpected(self.at)),
            }
            // Behind a value: a comma, or the end of the open container.
            loop {
                if open.depth() == 0 {
                    return Ok(Value { span: start..self.at, depth: deepest });
                }
                self.skip_space();
                match (self.byte(), open.in_object()) {
                    (Some(b','), is_object) => {
                        self.at += 1;
                        self.skip_space();
                        if is_object {
                            self.key()?;
                        }
                        break;
                    }
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        self.at += 1;
                        open.pop();
                    }
                    _ => return Err(Unexpected(self.at)),
                }
            }
        }
    }

    /// Returns the offset behind the read bytes.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Asserts that nothing but space is left.
    pub fn finish(mut self) -> Result<(), Unexpected> {
        self.skip_space();
        if self.at == self.json.len() { Ok(()) } else { Err(Unexpected(self.at)) }
    }

    /// Reads a key, its colon, and the space around both.
    fn key(&mut self) -> Result<Range<usize>, Unexpected> {
        self.skip_space();
        let key = self.string()?;
        self.skip_space();
        self.expect(b':')?;
        self.skip_space();
        Ok(key)
    }

    fn string(&mut self) -> Result<Range<usize>, Unexpected> {
        let start = self.at;
        self.expect(b'"')?;
        loop {
            self.at += plain_length(self.json.get(self.at..).unwrap_or_default());
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(start..self.at);
                }
                Some(b'\\') => {
                    self.at += 1;
                    match self.byte() {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
                        Some(b'u') => {
                            let digits = self.json.get(self.at + 1..self.at + 5).unwrap_or_default();
                            if digits.len() < 4 || !digits.iter().all(u8::is_ascii_hexdigit) {
                                return Err(Unexpected(self.at));
                            }
                            self.at += 5;
                        }
                        _ => return Err(Unexpected(self.at)),
                    }
                }
                _ => return Err(Unexpected(self.at)),
            }
        }
    }

    fn number(&mut self) -> Result<(), Unexpected> {
        if self.byte() == Some(b'-') {
            self.at += 1;
        }
        match self.byte() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.byte(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.byte(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// Reads one digit or more.
    fn digits(&mut self) -> Result<(), Unexpected> {
        let start = self.at;
        while matches!(self.byte(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(Unexpected(self.at)) }
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), Unexpected> {
        if !self.json.get(self.at..).unwrap_or_default().starts_with(word) {
            return Err(Unexpected(self.at));
        }
        self.at += word.len();
        Ok(())
    }

    fn expect(&mut self, byte: u8) -> Result<(), Unexpected> {
        if self.byte() != Some(byte) {
            return Err(Unexpected(self.at));
        }
        self.at += 1;
        Ok(())
    }

    fn skip_space(&mut self) {
        while matches!(self.byte(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn byte(&self) -> Option<u8> {
        self.json.get(self.at).copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;
    use serde_json::value::RawValue;

    use super::*;

    fn read(text: &str) -> Result<Value, Unexpected> {
        let mut reader = Reader::new(text.as_bytes());
        let value = reader.value()?;
        reader.finish().map(|()| value)
    }

    proptest! {
        /// Asserts that the reader and `serde_json` accept the same texts.
        #[test]
        fn accepts_what_a_parser_accepts(
            tokens in vec(select(vec!["{", "}", "[", "]", ",", ":", "\"a\":", "\"a\"", "\"", "\\", "\\n", "\\u00", "é", "1", "-", "0", ".5", "e", "+", "true", "nul", "null", " ", "\n", "\u{1}"]), 0..14),
        ) {
            let text = tokens.concat();
            let parsed = serde_json::from_str::<&RawValue>(&text);
            let value = read(&text);
            prop_assert_eq!(value.is_ok(), parsed.is_ok(), "{}", text);
            if let (Ok(value), Ok(parsed)) = (value, parsed) {
                prop_assert_eq!(&text[value.span], parsed.get());
                prop_assert_eq!(value.depth, crate::nesting::depth(text.as_bytes()));
            }
        }
    }

    #[test]
    fn names_the_place_of_the_first_mistake() {
        for (text, at) in [("", 0), ("{\"a\" 1}", 5), ("[1,]", 3), ("01", 1), ("\"\\ud8\"", 2), ("[}", 1)] {
            assert_eq!(read(text), Err(Unexpected(at)), "{text}");
        }
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(read(&deep).map(|value| value.depth), Ok(100_000));
    }
}
