//! Finds the end of plain text in a JSON string.

use fearless_simd::prelude::*;
use fearless_simd::{Level, Simd, dispatch, u8x16};

/// Bytes of a vector register that every processor has: most texts are short.
const LANES: usize = 16;

/// Returns the number of bytes at the beginning that are neither quote, backslash nor control character.
#[must_use]
pub fn plain_length(bytes: &[u8]) -> usize {
    dispatch!(Level::baseline(), simd => {
        let (blocks, tail) = bytes.as_chunks::<LANES>();
        let special = blocks.iter().map(|block| specials(simd, *block));
        match special.enumerate().find(|(_, special)| *special != 0) {
            Some((at, special)) => at * LANES + special.trailing_zeros() as usize,
            None => blocks.len() * LANES + words(tail),
        }
    })
}

/// Returns a bit for each byte that is special, the first byte in the lowest bit.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the instructions are those of the caller, which dispatches")]
fn specials<S: Simd>(simd: S, block: [u8; LANES]) -> u64 {
    let block: u8x16<S> = block.simd_into(simd);
    (block.simd_lt(0x20) | block.simd_eq(b'"') | block.simd_eq(b'\\')).to_bitmask()
}

/// Returns 1 for a special byte, else 0, without a branch.
fn marked(byte: u8) -> u8 {
    u8::from(byte < 0x20) | u8::from(byte == b'"') | u8::from(byte == b'\\')
}

const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);

/// Searches as [`plain_length`] does. SWAR: eight bytes in a word are tested for the price of one.
fn words(bytes: &[u8]) -> usize {
    let (words, tail) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        if let special @ 1.. = special(u64::from_le_bytes(*word)) {
            return at * 8 + first(special);
        }
    }
    words.len() * 8 + tail.iter().position(|byte| marked(*byte) != 0).unwrap_or(tail.len())
}

/// Returns the number of bytes in front of the first that is marked.
fn first(special: u64) -> usize {
    special.trailing_zeros() as usize / 8
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
        fn finds_the_first_special_byte(
            bytes in vec(prop_oneof![1 => any::<u8>(), 4 => Just(b'a'), 4 => Just(0x7f), 4 => Just(0xff)], 0..300),
        ) {
            let expected = bytes.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20));
            prop_assert_eq!(plain_length(&bytes), expected.unwrap_or(bytes.len()));
        }
    }
}
