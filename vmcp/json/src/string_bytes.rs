//! Finds the end of plain text in a JSON string: the first quote, backslash or control character.

const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);

/// Returns the number of bytes at the beginning that are neither quote, backslash nor control character.
#[must_use]
pub fn plain_length(bytes: &[u8]) -> usize {
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
    }
}
