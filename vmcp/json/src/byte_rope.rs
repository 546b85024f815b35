//! [`ByteRope`]: a rope of shared byte slices, for answers that are handed on in the pieces in which they
//! arrived.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;

use bytes::{Buf, Bytes, BytesMut};

/// A message, or a part of one, as pieces that are written one after another. The pieces are
/// reference-counted [`Bytes`]: a slice or a clone of the rope shares them and copies nothing. As a [`Buf`]
/// all of them go into one vectored write.
///
/// ```
/// use vmcp_json::byte_rope::ByteRope;
///
/// let mut rope = ByteRope::from("{\"a\":");
/// rope.push("1}");
/// assert_eq!(rope.slice(1..6).into_bytes(), "\"a\":1");
/// ```
#[derive(Debug, Clone, Default)]
pub struct ByteRope {
    /// The first piece; empty if there is none. Most ropes have one piece, and cost no allocation so.
    first: Bytes,
    /// The pieces behind it.
    others: VecDeque<Bytes>,
    length: usize,
}

impl ByteRope {
    /// Creates an empty rope.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// True for a rope without bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends a piece; an empty one is left out.
    pub fn push(&mut self, piece: impl Into<Bytes>) {
        let piece = piece.into();
        if piece.is_empty() {
            return;
        }
        let length = self.length + piece.len();
        if self.is_empty() {
            self.first = piece;
        } else {
            self.others.push_back(piece);
        }
        self.length = length;
    }

    /// Appends the pieces of `other`.
    pub fn append(&mut self, other: ByteRope) {
        let length = self.length + other.length;
        if self.is_empty() {
            *self = other;
        } else if !other.is_empty() {
            self.others.push_back(other.first);
            self.others.extend(other.others);
        }
        self.length = length;
    }

    /// Removes and returns the first piece.
    pub fn pop(&mut self) -> Option<Bytes> {
        if self.is_empty() {
            return None;
        }
        let next = self.others.pop_front().unwrap_or_default();
        let piece = std::mem::replace(&mut self.first, next);
        self.length -= piece.len();
        Some(piece)
    }

    /// Removes and returns the first `length` bytes, or all if there are fewer, without a copy.
    #[must_use]
    pub fn split_to(&mut self, length: usize) -> ByteRope {
        let mut front = ByteRope::new();
        while front.len() < length {
            let Some(mut piece) = self.pop() else { break };
            let wanted = length - front.len();
            if piece.len() > wanted {
                let rest = piece.split_off(wanted);
                self.length += rest.len();
                let second = std::mem::replace(&mut self.first, rest);
                if !second.is_empty() {
                    self.others.push_front(second);
                }
            }
            front.push(piece);
        }
        front
    }

    /// Returns the bytes in `range`, as far as there are any, without a copy.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> ByteRope {
        let mut slice = ByteRope::new();
        let mut start = 0;
        for piece in self.pieces() {
            let end = start + piece.len();
            let (from, to) = (range.start.max(start), range.end.min(end));
            if from < to {
                slice.push(piece.slice(from - start..to - start));
            }
            start = end;
        }
        slice
    }

    /// True if the bytes in `range` are `bytes`; copies nothing.
    #[must_use]
    pub fn has_at(&self, range: Range<usize>, bytes: &[u8]) -> bool {
        let (mut start, mut left) = (0, bytes);
        for piece in self.pieces() {
            let end = start + piece.len();
            let (from, to) = (range.start.max(start), range.end.min(end));
            if from < to {
                let part = piece.get(from - start..to - start).unwrap_or_default();
                let Some(rest) = left.strip_prefix(part) else { return false };
                left = rest;
            }
            start = end;
        }
        left.is_empty()
    }

    /// Returns all bytes as one piece; copies them only if there are several.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        if self.others.is_empty() {
            return self.first;
        }
        let mut all = BytesMut::with_capacity(self.length);
        self.pieces().for_each(|piece| all.extend_from_slice(piece));
        all.freeze()
    }

    /// Returns the pieces, none of which is empty.
    fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        (!self.is_empty()).then_some(&self.first).into_iter().chain(&self.others)
    }
}

/// Reads the bytes from the front, which leave the rope.
impl Buf for ByteRope {
    fn remaining(&self) -> usize {
        self.length
    }

    fn chunk(&self) -> &[u8] {
        &self.first
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let both = slices.iter_mut().zip(self.pieces());
        both.map(|(slice, piece)| *slice = IoSlice::new(piece)).count()
    }

    fn advance(&mut self, count: usize) {
        let mut left = count;
        while !self.is_empty() {
            if self.first.len() > left {
                self.first.advance(left);
                self.length -= left;
                break;
            }
            left -= self.first.len();
            self.pop();
        }
    }

    fn copy_to_bytes(&mut self, length: usize) -> Bytes {
        self.split_to(length).into_bytes()
    }
}

impl FromIterator<Bytes> for ByteRope {
    fn from_iter<I: IntoIterator<Item = Bytes>>(pieces: I) -> Self {
        let mut all = Self::new();
        pieces.into_iter().for_each(|piece| all.push(piece));
        all
    }
}

impl<T: Into<Bytes>> From<T> for ByteRope {
    fn from(piece: T) -> Self {
        let mut pieces = Self::new();
        pieces.push(piece);
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_crosses_pieces_and_copies_nothing() {
        let first = Bytes::from_static(b"abc");
        let mut pieces = ByteRope::from(first.clone());
        pieces.push("");
        pieces.push("defg");
        assert_eq!(pieces.len(), 7);
        let slice = pieces.slice(1..5);
        assert_eq!(slice.clone().into_bytes(), "bcde");
        assert_eq!(slice.clone().pop().map(|piece| piece.as_ptr()), Some(first[1..].as_ptr()));
        assert!(pieces.slice(3..3).is_empty() && pieces.slice(9..12).is_empty());
        assert!(pieces.has_at(1..5, b"bcde") && pieces.has_at(3..3, b""));
        assert!(
            !pieces.has_at(1..5, b"bcd") && !pieces.has_at(1..5, b"bcdef") && !pieces.has_at(1..5, b"bcxe")
        );
        assert_eq!(pieces.slice(0..3).into_bytes().as_ptr(), first.as_ptr());
        let mut rest = pieces.clone();
        assert_eq!((rest.split_to(4).into_bytes(), rest.len()), ("abcd".into(), 3));
        assert_eq!((rest.split_to(9).into_bytes(), rest.len()), ("efg".into(), 0));
        assert_eq!(pieces.pop().map(|piece| piece.len()), Some(3));
        assert_eq!(pieces.len(), 4);
    }

    #[test]
    fn a_rope_of_one_piece_has_no_list_of_pieces() {
        let whole = ByteRope::from("abcdef");
        let mut rest = whole.slice(1..5);
        let front = rest.split_to(2);
        let mut appended = ByteRope::new();
        appended.append(front.clone());
        appended.append(ByteRope::new());
        for rope in [&whole, &rest, &front, &appended] {
            assert_eq!(rope.others.capacity(), 0);
        }
        assert_eq!((appended.len(), appended.chunk()), (2, b"bc".as_slice()));
        appended.append(rest);
        appended.append(whole);
        assert_eq!((appended.len(), appended.clone().into_bytes()), (10, "bcdeabcdef".into()));
        let popped: Vec<_> = std::iter::from_fn(|| appended.pop()).collect();
        assert_eq!((popped, appended.len()), (vec!["bc".into(), "de".into(), Bytes::from("abcdef")], 0));
    }

    #[test]
    fn a_rope_is_written_as_one_buffer() {
        let mut rope: ByteRope = ["abc", "de", "f"].into_iter().map(Bytes::from).collect();
        let mut slices = [IoSlice::new(&[]); 2];
        assert_eq!(rope.chunks_vectored(&mut slices), 2);
        assert_eq!(slices.map(|slice| slice.to_vec()), [b"abc".to_vec(), b"de".to_vec()]);
        // A write that took a piece and a half.
        rope.advance(4);
        assert_eq!((rope.remaining(), rope.chunk()), (2, b"e".as_slice()));
        assert_eq!(rope.chunks_vectored(&mut [IoSlice::new(&[]); 5]), 2);
        assert_eq!(rope.clone().copy_to_bytes(2), "ef");
        rope.advance(2);
        assert_eq!((rope.len(), rope.chunk()), (0, [].as_slice()));
    }
}
