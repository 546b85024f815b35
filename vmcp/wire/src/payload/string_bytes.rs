//! The bytes of JSON strings that arrive in pieces: an incremental UTF-8 check, and the search for the first
//! quote, backslash or control character, eight bytes at a time.

const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);

/// Returns the number of bytes at the beginning that are neither quote, backslash nor control character.
pub(super) fn plain_length(bytes: &[u8]) -> usize {
    // SWAR: eight bytes in a word are tested for the price of one.
    let (words, tail) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let special = special(u64::from_le_bytes(*word));
        if special != 0 {
            return at * 8 + special.trailing_zeros() as usize / 8;
        }
    }
    let special = tail.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20));
    words.len() * 8 + special.unwrap_or(tail.len())
}

/// Sets the highest bit of each special byte of eight. A borrow may set it in bytes behind the first special
/// one, too; the first is always right, and no other is used.
fn special(word: u64) -> u64 {
    let below = |word: u64, least: u8| word.wrapping_sub(ONES * u64::from(least)) & !word;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (below(word, 0x20) | equal(b'"') | equal(b'\\')) & HIGHS
}

/// An incremental check of UTF-8, for text whose characters may be cut by the ends of pieces.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Utf8 {
    /// The first bytes of a character whose end has not arrived.
    begun: [u8; 4],
    length: usize,
}

impl Utf8 {
    /// Checks the next piece; the error is the offset of an invalid byte in the piece.
    pub(super) fn check(&mut self, mut piece: &[u8]) -> Result<(), usize> {
        let mut checked = 0;
        while self.length > 0 {
            let Some((first, rest)) = piece.split_first() else { return Ok(()) };
            let Some(next) = self.begun.get_mut(self.length) else { return Err(checked) };
            (*next, piece) = (*first, rest);
            self.length += 1;
            checked += 1;
            match std::str::from_utf8(self.begun.get(..self.length).unwrap_or_default()) {
                Ok(_) => self.length = 0,
                Err(error) if error.error_len().is_some() => return Err(checked - 1),
                Err(_) => {}
            }
        }
        let Err(error) = std::str::from_utf8(piece) else { return Ok(()) };
        let tail = piece.get(error.valid_up_to()..).unwrap_or_default();
        match self.begun.get_mut(..tail.len()) {
            Some(begun) if error.error_len().is_none() => {
                begun.copy_from_slice(tail);
                self.length = tail.len();
                Ok(())
            }
            _ => Err(checked + error.valid_up_to()),
        }
    }

    /// True if the text may end here: no character is cut.
    pub(super) fn is_complete(&self) -> bool {
        self.length == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn finds_the_first_special_byte(bytes in vec(prop_oneof![any::<u8>(), Just(b'a'), Just(0x7f), Just(0xff)], 0..40)) {
            let expected = bytes.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20));
            prop_assert_eq!(plain_length(&bytes), expected.unwrap_or(bytes.len()));
        }

        #[test]
        fn text_in_pieces_is_text_as_a_whole(bytes in vec(prop_oneof![any::<u8>(), Just(0xc3), Just(0xa4), Just(0xe2), Just(0x82)], 0..12), size in 1..4_usize) {
            let mut utf8 = Utf8::default();
            let valid = bytes.chunks(size).all(|piece| utf8.check(piece).is_ok()) && utf8.is_complete();
            prop_assert_eq!(valid, std::str::from_utf8(&bytes).is_ok());
        }

        #[test]
        fn valid_text_may_be_cut_anywhere(text in ".{0,20}", size in 1..5_usize) {
            let mut utf8 = Utf8::default();
            prop_assert!(text.as_bytes().chunks(size).all(|piece| utf8.check(piece).is_ok()) && utf8.is_complete());
        }
    }
}
