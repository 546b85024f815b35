//! [`ProtobufWriter`]: writes messages of protobuf field by field, into one buffer.
//!
//! Source: protobuf.dev/programming-guides/encoding.

use std::fmt::Display;
use std::io::Write as _;

/// Wire types: the low three bits of a field's key.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH_DELIMITED: u32 = 2;
const FIXED32: u32 = 5;

/// Lowest value that does not fit into one byte of a varint, and the bit of a byte that another one follows.
const CONTINUES: u64 = 0x80;
/// Highest number of a field whose key takes one byte.
const MAX_SHORT_FIELD: u32 = 15;

/// A message under construction. A reader takes fields in any order, and an absent field as its default.
#[derive(Debug, Default)]
pub(super) struct ProtobufWriter {
    bytes: Vec<u8>,
}

impl ProtobufWriter {
    /// The fields so far.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends fields to these bytes.
    pub(super) fn within(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// Makes room for `bytes` more bytes.
    pub(super) fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    /// Removes all fields, and keeps the memory unless it has more than `most` bytes.
    pub(super) fn clear(&mut self, most: usize) {
        if self.bytes.capacity() > most {
            self.bytes = Vec::new();
        } else {
            self.bytes.clear();
        }
    }

    /// Returns the message.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Appends fields that another writer wrote.
    pub(super) fn fields(&mut self, fields: &[u8]) {
        self.bytes.extend_from_slice(fields);
    }

    /// Writes an integer, also if it is 0.
    pub(super) fn varint(&mut self, field: u32, value: u64) {
        self.key(field, VARINT);
        self.plain_varint(value);
    }

    /// Writes a counter or an enum, unless it is 0.
    pub(super) fn count(&mut self, field: u32, value: u32) {
        if value > 0 {
            self.varint(field, u64::from(value));
        }
    }

    /// Writes an integer of 32 bits at its full width.
    pub(super) fn fixed32(&mut self, field: u32, value: u32) {
        self.key(field, FIXED32);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes an integer or the bits of a float of 64 bits at its full width.
    pub(super) fn fixed64(&mut self, field: u32, value: u64) {
        self.key(field, FIXED64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes bytes or a text, also if they are empty.
    pub(super) fn bytes(&mut self, field: u32, value: &[u8]) {
        self.key(field, LENGTH_DELIMITED);
        self.plain_varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    /// Writes a text, unless it is empty.
    pub(super) fn text(&mut self, field: u32, value: &str) {
        if !value.is_empty() {
            self.bytes(field, value.as_bytes());
        }
    }

    /// Writes the text of `parts`, one after the other, also if it is empty.
    pub(super) fn parts(&mut self, field: u32, parts: &[&str]) {
        self.begin_message(field, parts.iter().map(|part| part.len()).sum());
        for part in parts {
            self.bytes.extend_from_slice(part.as_bytes());
        }
    }

    /// Writes a value as the text that shows it.
    pub(super) fn shown(&mut self, field: u32, value: &impl Display) {
        self.message(field, |text| {
            // Writing into memory does not fail.
            let _ = write!(text.bytes, "{value}");
        });
    }

    /// Writes a message, also if it is empty.
    pub(super) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.key(field, LENGTH_DELIMITED);
        let place = self.bytes.len();
        // The length of most messages takes this one byte.
        self.bytes.push(0);
        write(self);
        self.set_length(place);
    }

    /// Writes the begin of a message of `length` bytes, which the caller appends.
    pub(super) fn begin_message(&mut self, field: u32, length: usize) {
        self.key(field, LENGTH_DELIMITED);
        self.plain_varint(length as u64);
    }

    /// Writes a message whose field 1 is a text and whose field 2 is a message with a text as its field 1: an
    /// attribute. Lengths are computed before, so that nothing is moved.
    pub(super) fn text_pair(&mut self, field: u32, key: &str, value: &str) {
        let inner = 1 + varint_bytes(value.len()) + value.len();
        let outer = 1 + varint_bytes(key.len()) + key.len() + 1 + varint_bytes(inner) + inner;
        // The key and the length of the message itself take at most ten bytes each.
        self.bytes.reserve(20 + outer);
        if field <= MAX_SHORT_FIELD && outer < CONTINUES as usize {
            // Most attributes: each key and length takes one byte.
            let of_key = [short_key(field), outer as u8, short_key(1), key.len() as u8];
            let of_value = [short_key(2), inner as u8, short_key(1), value.len() as u8];
            self.bytes.extend_from_slice(&of_key);
            self.bytes.extend_from_slice(key.as_bytes());
            self.bytes.extend_from_slice(&of_value);
            self.bytes.extend_from_slice(value.as_bytes());
            return;
        }
        self.begin_message(field, outer);
        self.bytes(1, key.as_bytes());
        self.begin_message(2, inner);
        self.bytes(1, value.as_bytes());
    }

    /// Writes the length of the message that begins behind the byte at `place`. A length of more bytes moves
    /// the message.
    fn set_length(&mut self, place: usize) {
        let mut left = self.bytes.len().saturating_sub(place + 1) as u64;
        let mut place = place;
        while left >= CONTINUES {
            self.bytes.insert(place, (left | CONTINUES) as u8);
            place += 1;
            left >>= 7;
        }
        if let Some(last) = self.bytes.get_mut(place) {
            *last = left as u8;
        }
    }

    fn key(&mut self, field: u32, wire_type: u32) {
        self.plain_varint(u64::from((field << 3) | wire_type));
    }

    fn plain_varint(&mut self, value: u64) {
        let mut left = value;
        while left >= CONTINUES {
            self.bytes.push((left | CONTINUES) as u8);
            left >>= 7;
        }
        self.bytes.push(left as u8);
    }
}

/// Returns the key of a text or a message whose number is at most [`MAX_SHORT_FIELD`].
const fn short_key(field: u32) -> u8 {
    ((field << 3) | LENGTH_DELIMITED) as u8
}

/// Returns the bytes of a varint.
fn varint_bytes(value: usize) -> usize {
    let bits = usize::BITS - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_guide_shows_them() {
        let mut writer = ProtobufWriter::default();
        writer.varint(1, 150);
        assert_eq!(writer.into_bytes(), [0x08, 0x96, 0x01]);
        let mut writer = ProtobufWriter::default();
        writer.text(2, "testing");
        assert_eq!(writer.into_bytes(), *b"\x12\x07testing");
        let mut writer = ProtobufWriter::default();
        writer.varint(16, u64::MAX);
        assert_eq!(writer.as_bytes(), [&[0x80, 0x01][..], &[0xff; 9], &[0x01]].concat());
        let mut writer = ProtobufWriter::default();
        writer.count(1, 0);
        writer.text(2, "");
        assert_eq!(writer.as_bytes(), [0; 0]);
        writer.fixed32(1, 1);
        writer.fixed64(2, 2);
        assert_eq!(writer.into_bytes(), [0x0d, 1, 0, 0, 0, 0x11, 2, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_message_has_its_length_before_it_whatever_its_length() {
        for (length, before) in [
            (0, &[0x0a, 0x00][..]),
            (127, &[0x0a, 0x7f][..]),
            (128, &[0x0a, 0x80, 0x01][..]),
            (300, &[0x0a, 0xac, 0x02][..]),
            (16_384, &[0x0a, 0x80, 0x80, 0x01][..]),
        ] {
            let content: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let mut writer = ProtobufWriter::default();
            writer.message(1, |writer| writer.fields(&content));
            assert_eq!(writer.into_bytes(), [before, &content].concat());
        }
    }

    #[test]
    fn a_text_pair_is_a_message_of_messages_whatever_the_lengths() {
        let lengths = (0..140).chain([300, 16_384, 3_000_000]);
        for (length, key_length) in lengths.flat_map(|length| [1, 20, 120, 130].map(|key| (length, key))) {
            for field in [9, 15, 16] {
                let (key, value) = ("k".repeat(key_length), "v".repeat(length));
                let (mut at_once, mut nested) = (ProtobufWriter::default(), ProtobufWriter::default());
                at_once.text_pair(field, &key, &value);
                nested.message(field, |pair| {
                    pair.bytes(1, key.as_bytes());
                    pair.message(2, |inner| inner.bytes(1, value.as_bytes()));
                });
                assert!(at_once.into_bytes() == nested.into_bytes(), "{length} {key_length} {field}");
            }
        }
    }

    #[test]
    fn parts_and_shown_values_are_texts() {
        for (parts, expected) in [(&[][..], &b"\x0a\x00"[..]), (&["a", "", "bc"][..], &b"\x0a\x03abc"[..])] {
            let mut writer = ProtobufWriter::default();
            writer.parts(1, parts);
            assert_eq!(writer.as_bytes(), expected);
        }
        let mut writer = ProtobufWriter::default();
        writer.shown(1, &7);
        writer.shown(2, &std::net::Ipv4Addr::LOCALHOST);
        assert_eq!(writer.as_bytes(), b"\x0a\x017\x12\x09127.0.0.1");
    }

    #[test]
    fn a_cleared_writer_keeps_memory_of_a_usual_size() {
        let mut writer = ProtobufWriter::default();
        writer.reserve(100);
        writer.text(1, "a");
        let kept = writer.bytes.as_ptr();
        writer.clear(1_000);
        assert_eq!((writer.as_bytes(), writer.bytes.as_ptr()), (&[][..], kept));
        writer.reserve(2_000);
        writer.clear(1_000);
        assert_eq!(writer.bytes.capacity(), 0);
    }
}
