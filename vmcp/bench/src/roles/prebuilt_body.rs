//! Bodies that exist already, and streams of events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// Up to this size the pieces of a document are copied into one.
const SMALL: usize = 16 << 10;

/// The body of an answer.
pub(crate) enum PrebuiltBody {
    /// Pieces of one document, in order of sending from the back. They leave in one write.
    Pieces(Vec<Bytes>),
    /// Events as they happen.
    Events(mpsc::Receiver<Bytes>),
}

impl PrebuiltBody {
    /// The response to request `id`: `result` is the member with its key, as `"result":{}`.
    pub(crate) fn document(id: &str, member: Bytes) -> PrebuiltBody {
        let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"#);
        if member.len() > SMALL {
            return PrebuiltBody::Pieces(vec![Bytes::from_static(b"}"), member, head.into()]);
        }
        let mut whole = Vec::with_capacity(head.len() + member.len() + 1);
        whole.extend_from_slice(head.as_bytes());
        whole.extend_from_slice(&member);
        whole.push(b'}');
        PrebuiltBody::Pieces(vec![whole.into()])
    }

    /// Nothing.
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
