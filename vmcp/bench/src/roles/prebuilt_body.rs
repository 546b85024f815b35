//! Response bodies: documents whose pieces exist already, and streams of events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// Documents up to this size, 16 KiB, are copied into one piece.
const MAX_COPIED_BYTES: usize = 16 << 10;

/// Body of a response.
pub(crate) enum PrebuiltBody {
    /// Pieces of a document, the last one first: they are popped. All leave in one write.
    Pieces(Vec<Bytes>),
    /// Events, sent as they happen.
    Events(mpsc::Receiver<Bytes>),
}

impl PrebuiltBody {
    /// A JSON-RPC response to request `id`; `member` is the member `result` or `error` with its key, such as
    /// `"result":{}`.
    pub(crate) fn document(id: &str, member: Bytes) -> PrebuiltBody {
        let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"#);
        if member.len() > MAX_COPIED_BYTES {
            return PrebuiltBody::Pieces(vec![Bytes::from_static(b"}"), member, head.into()]);
        }
        let mut whole = Vec::with_capacity(head.len() + member.len() + 1);
        whole.extend_from_slice(head.as_bytes());
        whole.extend_from_slice(&member);
        whole.push(b'}');
        PrebuiltBody::Pieces(vec![whole.into()])
    }

    /// An empty body.
    pub(crate) fn empty() -> PrebuiltBody {
        PrebuiltBody::Pieces(Vec::new())
    }
}

impl Body for PrebuiltBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            PrebuiltBody::Pieces(pieces) => Poll::Ready(pieces.pop().map(|piece| Ok(Frame::data(piece)))),
            PrebuiltBody::Events(events) => {
                events.poll_recv(context).map(|event| Some(Ok(Frame::data(event?))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, PrebuiltBody::Pieces(pieces) if pieces.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            PrebuiltBody::Pieces(pieces) => {
                SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum())
            }
            PrebuiltBody::Events(_) => SizeHint::default(),
        }
    }
}
