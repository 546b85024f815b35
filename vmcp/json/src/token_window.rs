//! [`TokenWindow`]: 64 bytes of JSON from a token on, with a bit for each byte that ends strings and numbers.
//!
//! The technique is that of simdjson: the bytes are classified by vector instructions, and the end of a token
//! is the lowest set bit behind its beginning, whatever its length.

use wide::u8x16;

/// Bytes of a window: the bits of a word.
pub const WINDOW: usize = 64;
/// Bytes of a vector register.
const LANES: usize = 16;

/// Bytes that follow each other, and their classes; the first byte is in the lowest bit.
#[derive(Debug)]
pub struct TokenWindow<'a> {
    bytes: &'a [u8; WINDOW],
    /// Bytes that belong to the text; behind them are zeros.
    length: usize,
    quotes: u64,
    /// Backslashes and control characters, which no plain string has.
    specials: u64,
    digits: u64,
}

impl<'a> TokenWindow<'a> {
    /// Classifies the bytes, of which the first `length` belong to the text.
    #[must_use]
    pub fn of(bytes: &'a [u8; WINDOW], length: usize) -> Self {
        let (mut quotes, mut specials, mut digits) = (0, 0, 0);
        let (blocks, _) = bytes.as_chunks::<LANES>();
        for (number, block) in blocks.iter().enumerate() {
            let (block, shift) = (u8x16::new(*block), number * LANES);
            let is_control = block.min(u8x16::splat(0x1f)).simd_eq(block);
            let is_special = is_control | block.simd_eq(u8x16::splat(b'\\'));
            let value = block - u8x16::splat(b'0');
            let is_digit = value.min(u8x16::splat(9)).simd_eq(value);
            quotes |= u64::from(block.simd_eq(u8x16::splat(b'"')).to_bitmask()) << shift;
            specials |= u64::from(is_special.to_bitmask()) << shift;
            digits |= u64::from(is_digit.to_bitmask()) << shift;
        }
        Self { bytes, length, quotes, specials, digits }
    }

    /// Returns the byte at `at`; 0 behind the window.
    #[inline]
    #[must_use]
    pub fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or_default()
    }

    /// Returns the offset behind the string that begins at `at`, if it is plain and ends in the window.
    #[inline]
    #[must_use]
    pub fn string(&self, at: usize) -> Option<usize> {
        let quote = from(self.quotes, at + 1).trailing_zeros();
        let special = from(self.specials, at + 1).trailing_zeros();
        (quote < special).then_some(at + 2 + quote as usize)
    }

    /// Returns the offset behind the number at `at`, if it is valid and another byte of the text follows in
    /// the window.
    #[inline]
    #[must_use]
    pub fn number(&self, at: usize) -> Option<usize> {
        let start = at + usize::from(self.byte(at) == b'-');
        let mut end = if self.byte(start) == b'0' { start + 1 } else { self.behind_digits(start)? };
        if self.byte(end) == b'.' {
            end = self.behind_digits(end + 1)?;
        }
        if matches!(self.byte(end), b'e' | b'E') {
            let sign = matches!(self.byte(end + 1), b'+' | b'-');
            end = self.behind_digits(end + 1 + usize::from(sign))?;
        }
        (end < self.length).then_some(end)
    }

    /// Returns the offset behind `word`, if it is there.
    #[inline]
    #[must_use]
    pub fn word(&self, at: usize, word: &[u8]) -> Option<usize> {
        let end = at + word.len();
        (self.bytes.get(at..end)? == word).then_some(end)
    }

    /// Returns the offset behind the digits at `at`, if there are any.
    #[inline]
    fn behind_digits(&self, at: usize) -> Option<usize> {
        let digits = from(self.digits, at).trailing_ones();
        (digits > 0).then_some(at + digits as usize)
    }
}

/// Returns the bits from `at` on.
#[inline]
fn from(bits: u64, at: usize) -> u64 {
    bits.unbounded_shr(at as u32)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;
    use serde_json::value::RawValue;

    use super::*;

    /// Returns the length of the JSON value at the beginning of `text`, if a parser finds one.
    fn parsed(text: &str) -> Option<usize> {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
        values.next()?.ok().map(|value| value.get().len())
    }

    proptest! {
        #[test]
        fn tokens_end_where_a_parser_ends_them(
            parts in vec(select(vec!["\"", "a", "é", "\\n", "\n", "-", "0", "12", ".", "e", "E", "+", ",", " "]), 0..40),
        ) {
            let text = parts.concat();
            let length = text.len().min(WINDOW);
            let mut bytes = [0; WINDOW];
            bytes.iter_mut().zip(text.as_bytes()).for_each(|(to, from)| *to = *from);
            let window = TokenWindow::of(&bytes, length);
            match text.as_bytes().first() {
                Some(b'"') => {
                    let plain = text.get(1..).and_then(|rest| rest.find(['"', '\\', '\n']));
                    let is_plain = plain.is_some_and(|at| text.get(at + 1..).is_some_and(|rest| rest.starts_with('"')));
                    let end = plain.map(|at| at + 2).filter(|end| is_plain && *end <= length);
                    prop_assert_eq!(window.string(0), end);
                }
                Some(b'-' | b'0' | b'1') => {
                    let number = text.find(|other| !matches!(other, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'));
                    let number = text.get(..number.unwrap_or(text.len())).unwrap_or_default();
                    // The longest number that text begins with; the next token judges what follows.
                    let longest = (1..=number.len()).rev().find(|end| {
                        number.get(..*end).is_some_and(|number| parsed(number) == Some(*end))
                    });
                    match window.number(0) {
                        Some(end) => prop_assert_eq!(Some(end), longest),
                        None => prop_assert!(longest.is_none_or(|end| end < number.len() || end >= length)),
                    }
                }
                _ => {}
            }
        }
    }

    #[test]
    fn a_word_is_read_whole_or_not_at_all() {
        let mut bytes = [0; WINDOW];
        bytes.iter_mut().zip(b"[true").for_each(|(to, from)| *to = *from);
        let window = TokenWindow::of(&bytes, 5);
        assert_eq!((window.word(1, b"true"), window.word(1, b"null")), (Some(5), None));
        assert_eq!((window.byte(1), window.byte(5), window.byte(WINDOW)), (b't', 0, 0));
    }
}
