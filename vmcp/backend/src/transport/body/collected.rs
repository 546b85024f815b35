//! [`Collected`]: an answer in memory, in pieces that are worth their bookkeeping.

use bytes::{Bytes, BytesMut};
use vmcp_json::byte_rope::ByteRope;

use crate::policy::byte_budget::{ByteBudget, ByteBudgetExhausted};

/// Bytes from which a piece is kept as it came. Smaller ones are copied together: a server that sends one
/// byte at a time must not make each of them cost a slice of a shared buffer.
const MIN_PIECE_BYTES: usize = 4 * 1024;

/// Pieces of one answer, counted in a [`ByteBudget`] until the last use of each.
#[derive(Debug)]
pub(in crate::transport) struct Collected {
    pieces: ByteRope,
    tail: Tail,
    length: usize,
    budget: ByteBudget,
}

/// Small pieces at the end, not counted yet.
#[derive(Debug)]
enum Tail {
    Empty,
    /// One piece, which needs no copy if none follows.
    One(Bytes),
    Several(BytesMut),
}

impl Collected {
    pub(in crate::transport) fn new(budget: ByteBudget) -> Self {
        Self { pieces: ByteRope::new(), tail: Tail::Empty, length: 0, budget }
    }

    pub(in crate::transport) fn len(&self) -> usize {
        self.length
    }

    /// Appends a piece, unless the budget is exhausted.
    pub(in crate::transport) fn push(&mut self, piece: Bytes) -> Result<(), ByteBudgetExhausted> {
        self.length += piece.len();
        if piece.len() >= MIN_PIECE_BYTES {
            self.end_tail()?;
            return self.count(piece);
        }
        self.tail = match std::mem::replace(&mut self.tail, Tail::Empty) {
            Tail::Empty => Tail::One(piece),
            Tail::One(first) => {
                let mut joined = BytesMut::with_capacity(2 * MIN_PIECE_BYTES);
                joined.extend_from_slice(&first);
                joined.extend_from_slice(&piece);
                Tail::Several(joined)
            }
            Tail::Several(mut joined) => {
                joined.extend_from_slice(&piece);
                Tail::Several(joined)
            }
        };
        match &self.tail {
            Tail::Several(joined) if joined.len() >= MIN_PIECE_BYTES => self.end_tail(),
            _ => Ok(()),
        }
    }

    /// The pieces that were appended until now.
    pub(in crate::transport) fn so_far(&mut self) -> Result<&ByteRope, ByteBudgetExhausted> {
        self.end_tail()?;
        Ok(&self.pieces)
    }

    /// The pieces that were appended.
    pub(in crate::transport) fn finish(mut self) -> Result<ByteRope, ByteBudgetExhausted> {
        self.end_tail()?;
        Ok(self.pieces)
    }

    fn end_tail(&mut self) -> Result<(), ByteBudgetExhausted> {
        match std::mem::replace(&mut self.tail, Tail::Empty) {
            Tail::Empty => Ok(()),
            Tail::One(piece) => self.count(piece),
            Tail::Several(joined) => self.count(joined.freeze()),
        }
    }

    fn count(&mut self, piece: Bytes) -> Result<(), ByteBudgetExhausted> {
        self.pieces.push(counted(piece, &self.budget)?);
        Ok(())
    }
}

/// Counts the bytes in `budget` until their last use.
pub(in crate::transport) fn counted(bytes: Bytes, budget: &ByteBudget) -> Result<Bytes, ByteBudgetExhausted> {
    let mut held = budget.begin();
    held.try_add(bytes.len())?;
    Ok(held.attach_to(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(mut rope: ByteRope) -> Vec<Bytes> {
        std::iter::from_fn(|| rope.pop()).collect()
    }

    #[test]
    fn pieces_of_one_byte_become_pieces_of_some_kilobytes() {
        let budget = ByteBudget::default();
        let mut collected = Collected::new(budget.clone());
        let text: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
        let whole = Bytes::from(text.clone());
        for at in 0..whole.len() {
            collected.push(whole.slice(at..=at)).unwrap();
        }
        assert_eq!(collected.len(), text.len());
        let rope = collected.finish().unwrap();
        assert_eq!(budget.held(), text.len());
        let pieces = pieces(rope);
        assert!(pieces.len() <= text.len() / MIN_PIECE_BYTES + 1, "{} pieces", pieces.len());
        assert_eq!(pieces.concat(), text);
        drop(pieces);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn large_pieces_and_a_single_small_one_are_not_copied_and_the_order_stays() {
        let large = Bytes::from(vec![b'x'; MIN_PIECE_BYTES]);
        let small = Bytes::from_static(b"small");
        let mut collected = Collected::new(ByteBudget::default());
        for piece in [&small, &large, &small, &small, &large, &small] {
            collected.push(piece.clone()).unwrap();
        }
        let pieces = pieces(collected.finish().unwrap());
        let lengths: Vec<usize> = pieces.iter().map(Bytes::len).collect();
        assert_eq!(lengths, [5, MIN_PIECE_BYTES, 10, MIN_PIECE_BYTES, 5]);
        assert_eq!((pieces[0].as_ptr(), pieces[1].as_ptr()), (small.as_ptr(), large.as_ptr()));
    }

    #[test]
    fn an_exhausted_budget_refuses_more() {
        let budget = ByteBudget::new(2 * MIN_PIECE_BYTES);
        let piece = Bytes::from(vec![b'x'; MIN_PIECE_BYTES]);
        let mut collected = Collected::new(budget.clone());
        assert!(collected.push(piece.clone()).is_ok() && collected.push(piece.clone()).is_ok());
        assert!(collected.push(piece).is_err());
        drop(collected);
        assert_eq!(budget.held(), 0);
    }
}
