//! [`ProtobufWriter`]: writes messages of protobuf field by field, into one buffer.
//!
//! Source: protobuf.dev/programming-guides/encoding.

/// Wire types: the low three bits of a field's key.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH_DELIMITED: u32 = 2;
const FIXED32: u32 = 5;

/// Lowest value that does not fit into one byte of a varint, and the bit of a byte that another one follows.
const CONTINUES: u64 = 0x80;

/// A message under construction. A reader takes fields in any order, and an absent field as its default.
#[derive(Debug, Default)]
pub(super) struct ProtobufWriter {
    bytes: Vec<u8>,
}

impl ProtobufWriter {
    /// Begins an empty message.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    /// The fields so far.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends fields to these bytes.
    pub(super) fn within(bytes: Vec<u8>) -> Self {
        Self { bytes }
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
        for length in [0, 1, 119, 120, 123, 124, 127, 128, 300, 16_384, 3_000_000] {
            let (key, value) = ("k".repeat(length % 200 + 1), "v".repeat(length));
            let (mut at_once, mut nested) = (ProtobufWriter::default(), ProtobufWriter::default());
            at_once.text_pair(9, &key, &value);
            nested.message(9, |pair| {
                pair.bytes(1, key.as_bytes());
                pair.message(2, |inner| inner.bytes(1, value.as_bytes()));
            });
            assert!(at_once.into_bytes() == nested.into_bytes(), "{length}");
        }
    }
}
