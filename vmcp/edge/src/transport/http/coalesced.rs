//! [`Coalesced`]: write coalescing. What is ready goes to the client in one piece, so that the end of an
//! answer costs no write of its own.

use std::task::{Context, Poll};

use futures::stream::StreamExt as _;
use vmcp_json::byte_rope::ByteRope;

use crate::request::arriving_response::{BrokenOff, Pieces};

/// The bytes of a body, of which some may be ready while others are still to come.
#[derive(Default)]
pub(super) struct Coalesced {
    ready: ByteRope,
    rest: Rest,
}

#[derive(Default)]
enum Rest {
    #[default]
    Ended,
    ToCome(Pieces),
    /// An error follows what is ready.
    Broken(BrokenOff),
}

/// Bounds of one piece, in bytes.
#[derive(Clone, Copy)]
pub(super) struct PieceSize {
    /// With as many, nothing further is added.
    pub(super) enough: usize,
    /// Larger ones are cut.
    pub(super) most: usize,
}

impl Coalesced {
    /// Bytes that are all there.
    pub(super) fn whole(ready: ByteRope) -> Self {
        Self { ready, rest: Rest::Ended }
    }

    /// Bytes that begin with `ready`.
    pub(super) fn arriving(ready: ByteRope, rest: Pieces) -> Self {
        Self { ready, rest: Rest::ToCome(rest) }
    }

    /// Polls for all that is ready, within the bounds of `size`. Waits only if there is nothing.
    pub(super) fn poll_ready(
        &mut self,
        size: PieceSize,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<ByteRope, BrokenOff>>> {
        while self.ready.len() < size.enough
            && let Rest::ToCome(pieces) = &mut self.rest
        {
            match pieces.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(piece))) if self.ready.is_empty() => self.ready = piece,
                Poll::Ready(Some(Ok(piece))) => self.ready.append(piece),
                Poll::Ready(Some(Err(error))) => self.rest = Rest::Broken(error),
                Poll::Ready(None) => self.rest = Rest::Ended,
                Poll::Pending if self.ready.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        if self.ready.len() > size.most {
            return Poll::Ready(Some(Ok(self.ready.split_to(size.most))));
        }
        if !self.ready.is_empty() {
            return Poll::Ready(Some(Ok(std::mem::take(&mut self.ready))));
        }
        Poll::Ready(match std::mem::take(&mut self.rest) {
            Rest::Broken(error) => Some(Err(error)),
            Rest::ToCome(_) | Rest::Ended => None,
        })
    }

    /// Returns the number of bytes that are left, if they are all there.
    pub(super) fn known_length(&self) -> Option<usize> {
        matches!(self.rest, Rest::Ended).then_some(self.ready.len())
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use bytes::Bytes;
    use futures::channel::mpsc;

    use super::*;

    type Polled = Poll<Option<Result<Bytes, String>>>;

    fn poll(coalesced: &mut Coalesced, enough: usize) -> Polled {
        let size = PieceSize { enough, most: 4 };
        let polled = coalesced.poll_ready(size, &mut Context::from_waker(Waker::noop()));
        polled.map(|next| next.map(|next| next.map(ByteRope::into_bytes).map_err(|error| error.0)))
    }

    fn some(text: &'static str) -> Polled {
        Poll::Ready(Some(Ok(text.into())))
    }

    #[test]
    fn what_is_ready_is_one_piece_with_the_end_of_the_answer() {
        let (sender, pieces) = mpsc::unbounded();
        let send = |text: &'static str| sender.unbounded_send(Ok(ByteRope::from(text))).unwrap();
        let mut coalesced = Coalesced::arriving(ByteRope::from("a"), pieces.boxed());
        send("b");
        send("c");
        assert_eq!(poll(&mut coalesced, 9), some("abc"));
        assert_eq!(poll(&mut coalesced, 9), Poll::Pending);
        send("de");
        send("f");
        assert_eq!(poll(&mut coalesced, 2), some("de"));
        assert_eq!(coalesced.known_length(), None);
        send("ghijk");
        sender.close_channel();
        assert_eq!(poll(&mut coalesced, 2), some("fghi"));
        assert_eq!(poll(&mut coalesced, 9), some("jk"));
        assert_eq!(coalesced.known_length(), Some(0));
        assert_eq!(poll(&mut coalesced, 2), Poll::Ready(None));
    }

    #[test]
    fn an_error_comes_after_the_bytes_before_it() {
        let pieces = futures::stream::iter([Ok("b".into()), Err(BrokenOff("cut".into()))]);
        let mut coalesced = Coalesced::arriving(ByteRope::from("a"), pieces.boxed());
        assert_eq!(poll(&mut coalesced, 9), some("ab"));
        assert_eq!(coalesced.known_length(), None);
        assert_eq!(poll(&mut coalesced, 9), Poll::Ready(Some(Err("cut".into()))));
        assert_eq!(poll(&mut coalesced, 9), Poll::Ready(None));
        assert_eq!(coalesced.known_length(), Some(0));
    }
}
