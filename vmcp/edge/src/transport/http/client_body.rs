//! [`ClientBody`]: the body of a response, handed to hyper as it is.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::{Stream, StreamExt as _};
use http_body::{Body, Frame, SizeHint};
use vmcp_json::byte_rope::ByteRope;

use super::activity::ActiveRequest;
use super::coalesced::{Coalesced, PieceSize};
use super::request_permit::RequestPermit;
use super::stream_clock::StreamClock;
use crate::request::arriving_response::{ArrivingResponse, BrokenOff};

/// Bounds of a piece handed to an HTTP/1.1 connection. More is not gathered, for what was handed over is held
/// until the client takes it.
const HTTP1_PIECE: PieceSize = PieceSize { enough: 256 * 1024, most: usize::MAX };
/// Bounds of a piece handed to an HTTP/2 stream. The stream takes a whole piece as soon as the client grants
/// it a single byte, and what it took is beyond every clock.
const HTTP2_PIECE: PieceSize = PieceSize { enough: 16 * 1024, most: 16 * 1024 };
/// Bytes that may be unsent when the body says that it has ended, and its permit is given back. After a
/// larger piece hyper asks once more, which it does when the piece is written.
const MAX_UNSENT_AT_END: usize = 16 * 1024;

/// The body of a response, with the guards to release when it has been sent or dropped.
#[derive(Default)]
pub(crate) struct ClientBody {
    content: Coalesced,
    /// Length of the piece that was handed over last.
    last_piece: usize,
    /// True for server-sent events that belong to no call: the GET stream, `subscriptions/listen`.
    is_pushed: bool,
    permit: Option<RequestPermit>,
    clock: Option<Arc<StreamClock>>,
    active: Option<ActiveRequest>,
    /// Ends the body early.
    ended: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl ClientBody {
    /// Returns a body of known length.
    pub(crate) fn from_content(content: impl Into<ByteRope>) -> Self {
        Self { content: Coalesced::whole(content.into()), ..Self::default() }
    }

    /// Returns a body that begins with `ready`.
    pub(crate) fn arriving(ready: ByteRope, rest: ArrivingResponse) -> Self {
        Self { content: Coalesced::arriving(ready, rest.into_pieces()), ..Self::default() }
    }

    /// Returns a body of server-sent events that ends with the answer to a request.
    pub(crate) fn events(events: impl Stream<Item = Result<Bytes, BrokenOff>> + Send + 'static) -> Self {
        let events = events.map(|event| event.map(ByteRope::from)).boxed();
        Self { content: Coalesced::arriving(ByteRope::new(), events), ..Self::default() }
    }

    /// Returns a body of server-sent events that lasts until one side closes it.
    pub(crate) fn pushed_events(events: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self { is_pushed: true, ..Self::events(events.map(Ok)) }
    }

    /// Keeps the request's permit until the answer is sent, and counts the bytes of the answer in it. A
    /// stream that belongs to no call needs none: mailboxes bound what it holds.
    pub(crate) fn keep(&mut self, permit: RequestPermit) {
        if !self.is_pushed {
            permit.hold(self.content.known_length().unwrap_or_default());
            self.permit = Some(permit);
        }
    }

    /// Tells `clock` what the client takes; for HTTP/2, where flow control is by stream.
    pub(crate) fn watch(&mut self, clock: Arc<StreamClock>) {
        self.clock = Some(clock);
    }

    /// Ends a stream of server-sent events of a call when `ended` is ready.
    pub(crate) fn end_with(&mut self, ended: impl Future<Output = ()> + Send + 'static) {
        if !self.is_pushed {
            self.ended = Some(Box::pin(ended));
        }
    }

    /// Counts the request as under way until the answer is sent or dropped.
    pub(crate) fn end(&mut self, active: ActiveRequest) {
        self.active = Some(active);
    }
}

impl Body for ClientBody {
    type Data = ByteRope;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<ByteRope>, BrokenOff>>> {
        if self.ended.as_mut().is_some_and(|ended| ended.as_mut().poll(context).is_ready()) {
            self.ended = None;
            self.content = Coalesced::default();
            return Poll::Ready(None);
        }
        let size = if self.clock.is_some() { HTTP2_PIECE } else { HTTP1_PIECE };
        let polled = self.content.poll_ready(size, context);
        if let Some(clock) = &self.clock {
            clock.polled(matches!(polled, Poll::Ready(Some(_))));
        }
        if let Poll::Ready(piece) = &polled {
            self.last_piece = piece.as_ref().and_then(|piece| piece.as_ref().ok()).map_or(0, ByteRope::len);
        }
        polled.map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.content.known_length() == Some(0) && self.last_piece <= MAX_UNSENT_AT_END
    }

    fn size_hint(&self) -> SizeHint {
        let length = self.content.known_length();
        length.map_or_else(SizeHint::default, |length| SizeHint::with_exact(length as u64))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_body_for_http2_comes_in_small_pieces() {
        let mut rope = ByteRope::from(vec![b'a'; HTTP2_PIECE.most * 2 + 5]);
        rope.push("tail");
        let expected = rope.clone().into_bytes();
        for clock in [None, Some(Arc::default())] {
            let watched = clock.is_some();
            let mut body = ClientBody { clock, ..ClientBody::from_content(rope.clone()) };
            let mut pieces = Vec::new();
            while let Some(Ok(frame)) = body.frame().await {
                pieces.push(frame.into_data().unwrap().into_bytes());
            }
            assert_eq!(pieces.len(), if watched { 3 } else { 1 });
            assert_eq!(pieces.concat(), expected);
            assert!(body.is_end_stream());
        }
    }

    #[tokio::test]
    async fn a_stream_of_a_call_ends_early() {
        let pieces = futures::stream::iter([Ok(Bytes::from_static(b"event"))]);
        let mut body = ClientBody::events(pieces.chain(futures::stream::pending()));
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        body.end_with(async {
            let _ = ended.await;
        });
        assert!(body.frame().await.is_some());
        end.send(()).unwrap();
        assert!(body.frame().await.is_none() && body.is_end_stream());
    }

    #[tokio::test]
    async fn a_large_body_holds_its_permit_until_it_was_written() {
        for (length, ends_at_once) in [(1024, true), (100 * 1024, false)] {
            let mut body = ClientBody::from_content(vec![b'a'; length]);
            assert!(body.frame().await.is_some());
            assert_eq!(body.is_end_stream(), ends_at_once, "{length}");
            assert!(body.frame().await.is_none() && body.is_end_stream());
        }
    }
}
