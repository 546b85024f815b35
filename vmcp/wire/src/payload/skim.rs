//! [`Skim`]: finds the end of a container that holds no key which matters, by its strings and brackets alone.
//!
//! What is balanced cannot reach out of its place in the envelope, whatever it says. So the grammar within is
//! left to the reader, who parses it anyway: to check each token, too, takes ten times as long.
//!
//! The technique is that of simdjson: 64 bytes are classified by vector instructions, a bit of a word each,
//! and strings are told from the rest by arithmetic on these words.

#![expect(clippy::inline_always, reason = "vector instructions are those of the caller, which dispatches")]

use fearless_simd::prelude::*;
use fearless_simd::{Level, dispatch, u8x64};
use vmcp_json::containers::OpenContainers;

/// Bytes that are classified at once: the bits of a word.
const BLOCK: usize = 64;

/// The place in skimmed containers that the last piece ended at.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Skim {
    in_text: bool,
    /// Behind a backslash that begins an escape.
    in_escape: bool,
}

/// A bit for each byte of a block that is of a class, the first byte in the lowest bit.
struct Classes {
    quotes: u64,
    backslashes: u64,
    brackets: u64,
    controls: u64,
    /// Tabs and line ends, which are spaces outside of strings.
    spaces: u64,
}

impl Classes {
    #[inline(always)]
    fn of<S: Simd>(simd: S, block: [u8; BLOCK]) -> Self {
        let block: u8x64<S> = block.simd_into(simd);
        // Brackets differ from braces in one bit.
        let braces = block | 0x20;
        Self {
            quotes: block.simd_eq(b'"').to_bitmask(),
            backslashes: block.simd_eq(b'\\').to_bitmask(),
            brackets: (braces.simd_eq(b'{') | braces.simd_eq(b'}')).to_bitmask(),
            controls: block.simd_lt(0x20).to_bitmask(),
            spaces: (block.simd_eq(b'\n') | block.simd_eq(b'\r') | block.simd_eq(b'\t')).to_bitmask(),
        }
    }
}

impl Skim {
    /// Reads on within open containers, until only `floor` of them are left. Returns the offset behind the
    /// last one that ended, or `None` if it goes on behind these bytes.
    ///
    /// The error is the offset of a bracket that ends another kind of container, of a backslash outside of
    /// strings, or of a control character that is no space.
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        open: &mut OpenContainers,
        floor: usize,
    ) -> Result<Option<usize>, usize> {
        dispatch!(Level::new(), simd => self.read_by(simd, bytes, open, floor))
    }

    #[inline(always)]
    fn read_by<S: Simd>(
        &mut self,
        simd: S,
        bytes: &[u8],
        open: &mut OpenContainers,
        floor: usize,
    ) -> Result<Option<usize>, usize> {
        let (blocks, tail) = bytes.as_chunks::<BLOCK>();
        for (number, block) in blocks.iter().enumerate() {
            let end = self.block(Classes::of(simd, *block), block, BLOCK, open, floor);
            if let Some(end) = end.map_err(|at| number * BLOCK + at)? {
                return Ok(Some(number * BLOCK + end));
            }
        }
        let mut last = [b' '; BLOCK];
        last.iter_mut().zip(tail).for_each(|(to, from)| *to = *from);
        let end = self.block(Classes::of(simd, last), &last, tail.len(), open, floor);
        let before = blocks.len() * BLOCK;
        end.map(|end| end.map(|end| before + end)).map_err(|at| before + at)
    }

    /// Reads a block, of which `length` bytes are to be read and spaces follow.
    #[inline(always)]
    fn block(
        &mut self,
        classes: Classes,
        block: &[u8; BLOCK],
        length: usize,
        open: &mut OpenContainers,
        floor: usize,
    ) -> Result<Option<usize>, usize> {
        let Classes { mut quotes, backslashes, brackets, controls, spaces } = classes;
        if backslashes != 0 || self.in_escape {
            let (escaped, goes_on) = escaped(backslashes, self.in_escape);
            self.in_escape = if length < BLOCK { escaped >> length & 1 == 1 } else { goes_on };
            quotes &= !escaped;
        }
        if self.in_text && quotes == 0 && controls == 0 {
            return Ok(None);
        }
        // Set from each opening quote to the byte in front of the closing one.
        let text = parity(quotes) ^ 0_u64.wrapping_sub(u64::from(self.in_text));
        self.in_text = text >> (BLOCK - 1) == 1;
        let wrong = (controls & (text | !spaces) | backslashes & !text).trailing_zeros();
        let mut brackets = brackets & !text;
        while brackets != 0 {
            let at = brackets.trailing_zeros();
            brackets &= brackets - 1;
            match block.get(at as usize) {
                Some(byte @ (b'{' | b'[')) => open.push(*byte == b'{'),
                byte => {
                    if at > wrong || (byte == Some(&b'}')) != open.in_object() {
                        return Err(at.min(wrong) as usize);
                    }
                    open.pop();
                    if open.depth() == floor {
                        *self = Self::default();
                        return Ok(Some(at as usize + 1));
                    }
                }
            }
        }
        if wrong < u64::BITS { Err(wrong as usize) } else { Ok(None) }
    }
}

/// Returns a bit for each byte behind a backslash that is not escaped itself, by the parity of the runs of
/// backslashes; and true if the first byte of the next block is such a byte.
fn escaped(backslashes: u64, in_escape: bool) -> (u64, bool) {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    let first = u64::from(in_escape);
    let backslashes = backslashes & !first;
    let behind = backslashes << 1 | first;
    let odd_begins = backslashes & !EVEN & !behind;
    let (even_runs, goes_on) = odd_begins.overflowing_add(backslashes);
    ((EVEN ^ even_runs << 1) & behind, goes_on)
}

/// Returns a bit for each place up to which the number of set bits is odd: the prefix sum without carry.
fn parity(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// Reads as [`Skim`] does, byte by byte; `bytes` begin behind the bracket of an array.
    fn byte_by_byte(bytes: &[u8]) -> Result<Option<usize>, usize> {
        let (mut open, mut in_text, mut in_escape) = (vec![b']'], false, false);
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                0..0x20 if in_text || !matches!(byte, b'\n' | b'\r' | b'\t') => return Err(at),
                _ if in_escape => in_escape = false,
                b'\\' if !in_text => return Err(at),
                b'\\' => in_escape = true,
                b'"' => in_text = !in_text,
                _ if in_text => {}
                b'{' => open.push(b'}'),
                b'[' => open.push(b']'),
                b'}' | b']' if open.pop() != Some(*byte) => return Err(at),
                b'}' | b']' if open.is_empty() => return Ok(Some(at + 1)),
                _ => {}
            }
        }
        Ok(None)
    }

    fn in_pieces(bytes: &[u8], size: usize) -> Result<Option<usize>, usize> {
        let (mut skim, mut open) = (Skim::default(), OpenContainers::default());
        open.push(true);
        open.push(false);
        for (number, piece) in bytes.chunks(size).enumerate() {
            let end = skim.read(piece, &mut open, 1).map_err(|at| number * size + at)?;
            if let Some(end) = end {
                return Ok(Some(number * size + end));
            }
        }
        Ok(None)
    }

    proptest! {
        #[test]
        fn containers_end_where_a_look_at_each_byte_ends_them(
            parts in vec(select(vec!["[", "]", "{}", "[{", "}]", "\"", "\"a\"", "\\", "\\\\", "\\\"", "12", ",", "é", " ", "\n", "\u{1}",
                "a text of more than a word, so that blocks end in strings, \\\" too", "\"{[\\\\\"", "true"]), 0..30),
            size in 1..200_usize,
        ) {
            let text = parts.concat();
            prop_assert_eq!(in_pieces(text.as_bytes(), size), byte_by_byte(text.as_bytes()), "{}", text);
        }
    }

    #[test]
    fn an_escape_may_be_cut_anywhere() {
        let text = format!(r#""{}\\\"]",[1]]"#, "x".repeat(50));
        for size in 1..=text.len() {
            assert_eq!(in_pieces(text.as_bytes(), size), Ok(Some(text.len())), "{size}");
        }
    }
}
