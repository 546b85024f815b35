//! [`Skim`]: finds the end of a container that holds no key which matters, by its strings and brackets alone.
//!
//! A container whose end is known cannot reach out of its place in the envelope. So the grammar within is
//! left to the reader, who parses it anyway; to check each token, too, takes nine times as long. Brackets are
//! counted without their kinds: one of the wrong kind is an error to every parser, whatever follows.
//!
//! The technique is that of simdjson: 64 bytes are classified by vector instructions, a bit of a word each,
//! and strings are told from the rest by arithmetic on these words.

#![expect(clippy::inline_always, reason = "vector instructions are those of the caller, which dispatches")]

use std::array::from_ref;

use fearless_simd::prelude::*;
use fearless_simd::{Level, dispatch, u8x64};

/// Bytes that are classified at once: the bits of a word.
const BLOCK: usize = 64;
/// Blocks that are classified together.
const GROUP: usize = 2;

/// The place in a container that was reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Skim {
    /// Open containers, this one included.
    depth: usize,
    in_text: bool,
    /// Behind a backslash that begins an escape.
    in_escape: bool,
}

/// A bit for each byte of a block that is of a class, the first byte in the lowest bit.
#[derive(Clone, Copy, Default)]
struct Classes {
    quotes: u64,
    backslashes: u64,
    opening: u64,
    closing: u64,
    controls: u64,
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
            opening: braces.simd_eq(b'{').to_bitmask(),
            closing: braces.simd_eq(b'}').to_bitmask(),
            controls: block.simd_lt(0x20).to_bitmask(),
        }
    }
}

impl Skim {
    /// Begins behind the opening bracket.
    pub(super) fn begin() -> Self {
        Self { depth: 1, in_text: false, in_escape: false }
    }

    /// Reads on. Returns the offset behind the closing bracket, or `None` if the container goes on behind
    /// these bytes. The error is the offset of a backslash outside of strings, or of a control character that
    /// is no space.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<Option<usize>, usize> {
        dispatch!(Level::new(), simd => self.read_by(simd, bytes))
    }

    #[inline(always)]
    fn read_by<S: Simd>(&mut self, simd: S, bytes: &[u8]) -> Result<Option<usize>, usize> {
        let (blocks, tail) = bytes.as_chunks::<BLOCK>();
        let (groups, single) = blocks.as_chunks::<GROUP>();
        let mut read = 0;
        for group in groups {
            if let Some(end) = self.group(simd, group, read)? {
                return Ok(Some(end));
            }
            read += GROUP * BLOCK;
        }
        for block in single {
            if let Some(end) = self.group(simd, from_ref(block), read)? {
                return Ok(Some(end));
            }
            read += BLOCK;
        }
        let mut last = [b' '; BLOCK];
        last.iter_mut().zip(tail).for_each(|(to, from)| *to = *from);
        let end = self.block(simd, &last, Classes::of(simd, last), tail.len());
        end.map(|end| end.map(|end| read + end)).map_err(|at| read + at)
    }

    /// Reads blocks, of which the first begins at offset `start`. All are classified before the first is
    /// looked at, so that the processor does both at once.
    #[inline(always)]
    fn group<S: Simd, const N: usize>(
        &mut self,
        simd: S,
        group: &[[u8; BLOCK]; N],
        start: usize,
    ) -> Result<Option<usize>, usize> {
        let mut classes = [Classes::default(); N];
        // No closures: they would be compiled without the vector instructions.
        for (classes, block) in classes.iter_mut().zip(group) {
            *classes = Classes::of(simd, *block);
        }
        let mut read = start;
        for (block, classes) in group.iter().zip(classes) {
            match self.block(simd, block, classes, BLOCK) {
                Ok(None) => read += BLOCK,
                Ok(Some(end)) => return Ok(Some(read + end)),
                Err(at) => return Err(read + at),
            }
        }
        Ok(None)
    }

    /// Reads a block, of which `length` bytes are to be read and spaces follow.
    #[inline(always)]
    fn block<S: Simd>(
        &mut self,
        simd: S,
        block: &[u8; BLOCK],
        classes: Classes,
        length: usize,
    ) -> Result<Option<usize>, usize> {
        let Classes { mut quotes, backslashes, opening, closing, controls } = classes;
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
        let mut wrong = backslashes & !text;
        if controls != 0 {
            wrong |= controls & (text | !spaces(simd, *block));
        }
        let wrong = wrong.trailing_zeros();
        let (opening, closing) = (opening & !text, closing & !text);
        let (opened, closed) = (count(opening), count(closing));
        if closed >= self.depth
            && let Some(end) = self.end(opening, closing)
            && end < wrong
        {
            return Ok(Some(end as usize + 1));
        }
        if wrong < u64::BITS {
            return Err(wrong as usize);
        }
        self.depth = self.depth + opened - closed;
        Ok(None)
    }

    /// Returns the place of the closing bracket that ends the container, if it is in a block with these.
    fn end(&self, opening: u64, mut closing: u64) -> Option<u32> {
        let mut closed = 0;
        while closing != 0 {
            let at = closing.trailing_zeros();
            closing &= closing - 1;
            closed += 1;
            if closed == self.depth + count(opening & !(u64::MAX << at)) {
                return Some(at);
            }
        }
        None
    }
}

/// Returns a bit for each tab and line end, which are spaces outside of strings.
#[inline(always)]
fn spaces<S: Simd>(simd: S, block: [u8; BLOCK]) -> u64 {
    let block: u8x64<S> = block.simd_into(simd);
    (block.simd_eq(b'\n') | block.simd_eq(b'\r') | block.simd_eq(b'\t')).to_bitmask()
}

fn count(bits: u64) -> usize {
    bits.count_ones() as usize
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

    /// Reads as [`Skim`] does, byte by byte.
    fn byte_by_byte(bytes: &[u8]) -> Result<Option<usize>, usize> {
        let (mut depth, mut in_text, mut in_escape) = (1, false, false);
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                0..0x20 if in_text || !matches!(byte, b'\n' | b'\r' | b'\t') => return Err(at),
                _ if in_escape => in_escape = false,
                b'\\' if !in_text => return Err(at),
                b'\\' => in_escape = true,
                b'"' => in_text = !in_text,
                _ if in_text => {}
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth == 1 => return Ok(Some(at + 1)),
                b'}' | b']' => depth -= 1,
                _ => {}
            }
        }
        Ok(None)
    }

    fn in_pieces(bytes: &[u8], size: usize) -> Result<Option<usize>, usize> {
        let mut skim = Skim::begin();
        for (number, piece) in bytes.chunks(size).enumerate() {
            if let Some(end) = skim.read(piece).map_err(|at| number * size + at)? {
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
