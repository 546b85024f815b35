//! Response bodies: documents whose pieces exist already, and streams of events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Documents up to this size, 16 KiB, are copied into one piece.
const MAX_COPIED_BYTES: usize = 16 << 10;

/// Texts around the members of a response, in a document and in an event stream.
const DOCUMENT_FRAME: (&str, &str) = ("", "}");
const EVENT_FRAME: (&str, &str) = ("event: message\ndata: ", "}\n\n");
/// Beginning of a slow answer, which is sent at once: 128 KiB.
const SLOW_START_BYTES: usize = 128 << 10;
/// Time that passes before the next piece of it.
const SLOW_PAUSE: Duration = Duration::from_millis(50);
/// Each further piece of a slow answer: 256 KiB every 5 ms.
const SLOW_PIECE_BYTES: usize = 256 << 10;
const SLOW_INTERVAL: Duration = Duration::from_millis(5);

/// Body of a response. Pieces are popped: the last one leaves first, and all leave in one write.
pub(crate) enum PrebuiltBody {
    /// Pieces of a document, whose length is announced.
    Document(Vec<Bytes>),
    /// Pieces of an event stream, whose length is not.
    EventStream(Vec<Bytes>),
    /// Events, sent as they happen.
    Events(mpsc::Receiver<Bytes>),
}

impl PrebuiltBody {
    /// A JSON-RPC response to request `id`; `member` is the member `result` or `error` with its key, such as
    /// `"result":{}`.
    pub(crate) fn document(id: &str, member: Bytes) -> PrebuiltBody {
        PrebuiltBody::Document(pieces(DOCUMENT_FRAME.0, id, member, DOCUMENT_FRAME.1))
    }

    /// A JSON-RPC response to request `id` as the only event of a stream.
    pub(crate) fn event(id: &str, member: Bytes) -> PrebuiltBody {
        PrebuiltBody::EventStream(pieces(EVENT_FRAME.0, id, member, EVENT_FRAME.1))
    }

    /// A JSON-RPC response or event that is sent slowly: a first part at once, the others after a pause.
    pub(crate) fn slow(id: &str, member: &Bytes, event: bool) -> PrebuiltBody {
        let start = member.slice(..SLOW_START_BYTES.min(member.len()));
        let rest = member.slice(start.len()..);
        let (before, after) = if event { EVENT_FRAME } else { DOCUMENT_FRAME };
        let mut pieces = pieces(before, id, start, "");
        pieces.reverse();
        let (sender, events) = mpsc::channel(1);
        tokio::spawn(async move {
            for piece in pieces {
                sender.send(piece).await?;
            }
            sleep(SLOW_PAUSE).await;
            for piece in rest.chunks(SLOW_PIECE_BYTES) {
                sender.send(rest.slice_ref(piece)).await?;
                sleep(SLOW_INTERVAL).await;
            }
            sender.send(Bytes::from_static(after.as_bytes())).await
        });
        PrebuiltBody::Events(events)
    }

    /// An empty body.
    pub(crate) fn empty() -> PrebuiltBody {
        PrebuiltBody::Document(Vec::new())
    }
}

fn pieces(before: &str, id: &str, member: Bytes, after: &'static str) -> Vec<Bytes> {
    let head = format!(r#"{before}{{"jsonrpc":"2.0","id":{id},"#);
    if member.len() > MAX_COPIED_BYTES {
        return vec![Bytes::from_static(after.as_bytes()), member, head.into()];
    }
    let mut whole = Vec::with_capacity(head.len() + member.len() + after.len());
    whole.extend_from_slice(head.as_bytes());
    whole.extend_from_slice(&member);
    whole.extend_from_slice(after.as_bytes());
    vec![whole.into()]
}

impl Body for PrebuiltBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            PrebuiltBody::Document(pieces) | PrebuiltBody::EventStream(pieces) => {
                Poll::Ready(pieces.pop().map(|piece| Ok(Frame::data(piece))))
            }
            PrebuiltBody::Events(events) => {
                events.poll_recv(context).map(|event| Some(Ok(Frame::data(event?))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, PrebuiltBody::Document(pieces) | PrebuiltBody::EventStream(pieces) if pieces.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            PrebuiltBody::Document(pieces) => {
                SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum())
            }
            PrebuiltBody::EventStream(_) | PrebuiltBody::Events(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::BodyExt as _;

    use super::{PrebuiltBody, SLOW_PIECE_BYTES, SLOW_START_BYTES};

    #[tokio::test]
    async fn a_slow_answer_is_the_quick_one() {
        let text = "x".repeat(SLOW_START_BYTES + SLOW_PIECE_BYTES + 1);
        let member = Bytes::from(format!(r#""result":{{"text":"{text}"}}"#));
        for event in [false, true] {
            let quick = if event {
                PrebuiltBody::event("7", member.clone())
            } else {
                PrebuiltBody::document("7", member.clone())
            };
            let slow = PrebuiltBody::slow("7", &member, event);
            let [quick, slow] = [quick.collect().await, slow.collect().await].map(Result::unwrap);
            assert!(quick.to_bytes() == slow.to_bytes(), "the same bytes, event: {event}");
        }
    }
}
