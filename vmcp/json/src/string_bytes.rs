//! Finds the end of text in a JSON string: of plain text, or of text with escapes.

use wide::u8x16;

/// Bytes of a vector register.
const LANES: usize = 16;
/// Bytes that are tested at once in long texts: a bit of a word each.
const BLOCK: usize = 64;

/// Returns the number of bytes at the beginning that are neither quote, backslash nor control character.
#[must_use]
pub fn plain_length(bytes: &[u8]) -> usize {
    let (blocks, tail) = bytes.as_chunks::<LANES>();
    for (at, block) in blocks.iter().enumerate() {
        if let special @ 1.. = specials(u8x16::new(*block)) {
            return at * LANES + special.trailing_zeros() as usize;
        }
    }
    blocks.len() * LANES + words(tail)
}

/// Returns the number of bytes at the beginning that are plain, or escapes of two characters: ends in front
/// of a closing quote, a control character, any other escape, or a backslash that is the last byte.
#[must_use]
pub fn text_length(bytes: &[u8]) -> usize {
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let mut end_of_escape = 0;
    for (number, block) in blocks.iter().enumerate() {
        let start = number * BLOCK;
        // An escape may have begun with the last byte of the block before.
        let mut special = block_specials(block) & !u64::from(end_of_escape > start);
        while special != 0 {
            let lane = special.trailing_zeros();
            let at = start + lane as usize;
            if !begins_with_escape(bytes.get(at..)) {
                return at;
            }
            end_of_escape = at + 2;
            special &= !(0b11 << lane);
        }
    }
    let mut at = end_of_escape.max(blocks.len() * BLOCK);
    loop {
        at += plain_length(bytes.get(at..).unwrap_or_default());
        if !begins_with_escape(bytes.get(at..)) {
            return at;
        }
        at += 2;
    }
}

/// Returns a bit for each special byte of a block, the first byte in the lowest bit.
fn block_specials(block: &[u8; BLOCK]) -> u64 {
    let (registers, _) = block.as_chunks::<LANES>();
    let bits = registers.iter().map(|register| u64::from(specials(u8x16::new(*register))));
    bits.rev().fold(0, |all, bits| all << LANES | bits)
}

fn begins_with_escape(bytes: Option<&[u8]>) -> bool {
    matches!(bytes, Some([b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..]))
}

/// Returns a bit for each byte that is special, the first byte in the lowest bit.
fn specials(block: u8x16) -> u32 {
    let is_control = block.min(u8x16::splat(0x1f)).simd_eq(block);
    (is_control | block.simd_eq(u8x16::splat(b'"')) | block.simd_eq(u8x16::splat(b'\\'))).to_bitmask()
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

        #[test]
        fn escapes_belong_to_the_text(
            parts in vec(prop_oneof![
                8 => "[a-zü]{0,20}",
                8 => prop::sample::select(vec!["\\\"", "\\\\", "\\n", "\\/"]).prop_map(str::to_owned),
                1 => prop::sample::select(vec!["\"", "\\u00fc", "\\x", "\n", "\\"]).prop_map(str::to_owned),
            ], 0..20),
        ) {
            let text = parts.concat();
            let mut rest = text.as_bytes();
            while let [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', after @ ..]
            | [b' '..=b'!' | b'#'..=b'[' | b']'..=0xff, after @ ..] = rest
            {
                rest = after;
            }
            prop_assert_eq!(text_length(text.as_bytes()), text.len() - rest.len());
        }
    }
}
