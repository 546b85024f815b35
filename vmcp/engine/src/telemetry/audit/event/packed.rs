//! Facts of an event in few bytes. The thread of a call packs them, and the thread of the trail reads them,
//! in the order in which the event names them: a call neither formats JSON nor moves it to another core.

use super::super::field::clip;

/// Appends a number in groups of seven bits, the lowest group first (LEB128): a small number takes one byte.
pub(super) fn pack_number(packed: &mut Vec<u8>, number: u64) {
    let mut left = number;
    while left >= 0x80 {
        packed.push(left as u8 | 0x80);
        left >>= 7;
    }
    packed.push(left as u8);
}

/// Appends an optional text: its length and one more, or 0 for none, and its bytes.
pub(super) fn pack_text(packed: &mut Vec<u8>, text: Option<&str>) {
    pack_number(packed, text.map_or(0, |text| text.len() as u64 + 1));
    packed.extend_from_slice(text.unwrap_or_default().as_bytes());
}

/// Appends a text like [`pack_text`], cut at the limit of a field.
pub(super) fn pack_field(packed: &mut Vec<u8>, text: Option<&str>) {
    pack_text(packed, text.map(clip).as_deref());
}

/// Appends an optional array: 1 and its bytes, or 0.
pub(super) fn pack_array<const BYTES: usize>(packed: &mut Vec<u8>, bytes: Option<&[u8; BYTES]>) {
    pack_number(packed, bytes.is_some().into());
    if let Some(bytes) = bytes {
        packed.extend_from_slice(bytes);
    }
}

/// Reads facts in the order in which they were packed. Beyond the end, numbers are 0 and others are absent.
#[derive(Debug)]
pub(super) struct PackedFacts<'a>(&'a [u8]);

impl<'a> PackedFacts<'a> {
    /// Begins with the first fact.
    pub(super) fn new(packed: &'a [u8]) -> PackedFacts<'a> {
        PackedFacts(packed)
    }

    /// Reads a number.
    pub(super) fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0_u64, 0);
        while let Some((byte, rest)) = self.0.split_first() {
            self.0 = rest;
            number |= u64::from(byte & 0x7f).unbounded_shl(shift);
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        number
    }

    /// Reads an optional text, as UTF-8.
    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.number().checked_sub(1)?;
        Some(self.take(length as usize))
    }

    /// Reads an optional array.
    pub(super) fn array<const BYTES: usize>(&mut self) -> Option<&'a [u8; BYTES]> {
        if self.number() == 0 {
            return None;
        }
        self.take(BYTES).first_chunk()
    }

    /// Returns the bytes after the last fact that was read.
    pub(super) fn rest(self) -> &'a [u8] {
        self.0
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at_checked(length).unwrap_or((self.0, &[]));
        self.0 = rest;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_as_they_were_packed() {
        let numbers = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1_u64 << bit]).chain([u64::MAX]);
        let numbers: Vec<u64> = numbers.collect();
        let texts = [None, Some(""), Some("ä"), Some("ok")].map(|text| text.map(str::to_owned));
        let texts: Vec<_> =
            texts.into_iter().chain([126, 127, 128, 70_000].map(|n| Some("x".repeat(n)))).collect();
        let mut packed = Vec::new();
        for number in &numbers {
            pack_number(&mut packed, *number);
        }
        for text in &texts {
            pack_text(&mut packed, text.as_deref());
        }
        pack_array(&mut packed, Some(&[7; 32]));
        pack_array::<16>(&mut packed, None);
        packed.extend_from_slice(b"rest");

        let mut facts = PackedFacts::new(&packed);
        assert!(numbers.iter().all(|number| facts.number() == *number));
        assert!(texts.iter().all(|text| facts.text() == text.as_deref().map(str::as_bytes)));
        assert_eq!((facts.array(), facts.array::<16>()), (Some(&[7; 32]), None));
        assert_eq!(facts.rest(), b"rest");
    }

    #[test]
    fn facts_beyond_the_end_are_absent() {
        let mut packed = Vec::new();
        pack_text(&mut packed, Some("a text that is cut"));
        let mut facts = PackedFacts::new(&packed[..5]);
        assert_eq!(facts.text(), Some(b"a te".as_slice()));
        assert_eq!((facts.number(), facts.text(), facts.array::<4>()), (0, None, None));
        // More bytes than a number has.
        assert_eq!(PackedFacts::new(&[0xff; 40]).number(), u64::MAX);
    }
}
