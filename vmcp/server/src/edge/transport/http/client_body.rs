//! [`ClientBody`]: the body of a response, handed to hyper as it is.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::stream::{Stream, StreamExt as _};
use http_body::{Body, Frame, SizeHint};
use vmcp_json::byte_rope::ByteRope;

use super::activity::ActiveRequest;
use super::request_permit::RequestPermit;
use super::stream_clock::StreamClock;
use crate::edge::request::arriving_response::{ArrivingResponse, BrokenOff, Pieces};

/// Largest piece handed to an HTTP/2 stream, in bytes. The stream takes a whole piece as soon as the client
/// grants it a single byte, and what it took is beyond every clock.
const MAX_HTTP2_PIECE: usize = 16 * 1024;

/// The body of a response, with what is to be released when it has been sent or dropped.
#[derive(Default)]
pub(crate) struct ClientBody {
    content: Content,
    permit: Option<RequestPermit>,
    clock: Option<Arc<StreamClock>>,
    active: Option<ActiveRequest>,
}

/// Kinds of bodies.
#[derive(Default)]
enum Content {
    #[default]
    Empty,
    /// Bytes of known length.
    Pieces { next: Bytes, rest: ByteRope },
    /// Bytes that arrive from a backend while they are sent.
    Arriving { next: Bytes, ready: ByteRope, rest: Pieces },
    /// Server-sent events of the answer to a request.
    Events(EventStream),
    /// Server-sent events that belong to no call: the GET stream, `subscriptions/listen`.
    PushedEvents(EventStream),
}

type EventStream = Pin<Box<dyn Stream<Item = Result<Bytes, BrokenOff>> + Send>>;

impl ClientBody {
    /// Returns a body of known length.
    pub(crate) fn of(content: impl Into<ByteRope>) -> Self {
        let mut rest = content.into();
        let content = match rest.pop() {
            Some(next) => Content::Pieces { next, rest },
            None => Content::Empty,
        };
        Self { content, ..Self::default() }
    }

    /// Returns a body that begins with `ready`.
    pub(crate) fn arriving(ready: ByteRope, rest: ArrivingResponse) -> Self {
        let content = Content::Arriving { next: Bytes::new(), ready, rest: rest.into_pieces() };
        Self { content, ..Self::default() }
    }

    /// Returns a body of server-sent events that ends with the answer to a request.
    pub(crate) fn events(events: impl Stream<Item = Result<Bytes, BrokenOff>> + Send + 'static) -> Self {
        Self { content: Content::Events(Box::pin(events)), ..Self::default() }
    }

    /// Returns a body of server-sent events that lasts until one side closes it.
    pub(crate) fn pushed_events(events: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self { content: Content::PushedEvents(Box::pin(events.map(Ok))), ..Self::default() }
    }

    /// Keeps the request's permit until the answer is sent, and counts the bytes of the answer in it. A
    /// stream that belongs to no call needs none: mailboxes bound what it holds.
    pub(crate) fn keep(&mut self, permit: RequestPermit) {
        if !matches!(self.content, Content::PushedEvents(_)) {
            permit.hold(self.remaining());
            self.permit = Some(permit);
        }
    }

    /// Tells `clock` what the client takes; for HTTP/2, where flow control is by stream.
    pub(crate) fn watch(&mut self, clock: Arc<StreamClock>) {
        self.clock = Some(clock);
    }

    /// Counts the request as under way until the answer is sent or dropped.
    pub(crate) fn end(&mut self, active: ActiveRequest) {
        self.active = Some(active);
    }

    /// Returns the bytes that are left of a body of known length.
    fn remaining(&self) -> usize {
        match &self.content {
            Content::Pieces { next, rest } => next.len() + rest.len(),
            _ => 0,
        }
    }

    fn poll_content(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BrokenOff>>> {
        let is_too_large = |piece: &Bytes| self.clock.is_some() && piece.len() > MAX_HTTP2_PIECE;
        match &mut self.content {
            Content::Empty => Poll::Ready(None),
            Content::Pieces { next, rest } => {
                if is_too_large(next) {
                    return Poll::Ready(Some(Ok(next.split_to(MAX_HTTP2_PIECE))));
                }
                let following = rest.pop().unwrap_or_default();
                let piece = std::mem::replace(next, following);
                Poll::Ready(Some(piece).filter(|piece| !piece.is_empty()).map(Ok))
            }
            Content::Arriving { next, ready, rest } => loop {
                if is_too_large(next) {
                    return Poll::Ready(Some(Ok(next.split_to(MAX_HTTP2_PIECE))));
                }
                if !next.is_empty() {
                    return Poll::Ready(Some(Ok(std::mem::take(next))));
                }
                match ready.pop() {
                    Some(piece) => *next = piece,
                    None => match ready!(rest.poll_next_unpin(context)) {
                        Some(Ok(pieces)) => *ready = pieces,
                        Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                        None => return Poll::Ready(None),
                    },
                }
            },
            Content::Events(events) | Content::PushedEvents(events) => events.poll_next_unpin(context),
        }
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let polled = self.poll_content(context);
        if let Some(clock) = &self.clock {
            clock.polled(matches!(polled, Poll::Ready(Some(_))));
        }
        polled.map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Empty => true,
            Content::Pieces { next, .. } => next.is_empty(),
            Content::Arriving { .. } | Content::Events(_) | Content::PushedEvents(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Empty | Content::Pieces { .. } => SizeHint::with_exact(self.remaining() as u64),
            Content::Arriving { .. } | Content::Events(_) | Content::PushedEvents(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_body_for_http2_comes_in_small_pieces() {
        let mut rope = ByteRope::from(vec![b'a'; MAX_HTTP2_PIECE * 2 + 5]);
        rope.push("tail");
        let expected = rope.clone().into_bytes();
        for clock in [None, Some(Arc::default())] {
            let watched = clock.is_some();
            let mut body = ClientBody { clock, ..ClientBody::of(rope.clone()) };
            let mut pieces = Vec::new();
            while let Some(Ok(frame)) = body.frame().await {
                pieces.push(frame.into_data().unwrap());
            }
            assert_eq!(pieces.len(), if watched { 4 } else { 2 });
            assert_eq!(pieces.concat(), expected);
            assert!(body.is_end_stream());
        }
    }
}
