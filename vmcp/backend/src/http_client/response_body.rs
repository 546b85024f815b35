//! [`ResponseBody`]: the body of a response, on a connection of either client.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::frame_pace::FramePace;
use super::host_pool::PlainBody;

/// The body of a response, which arrives at most as fast as [`FramePace`] allows. At its end a plain
/// connection goes back to its pool; dropped before, the connection is closed.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    source: BodySource,
    pace: FramePace,
}

#[derive(Debug)]
enum BodySource {
    /// The body polls its connection.
    Plain(PlainBody),
    /// A task of the pooled client polls the connection.
    Pooled(Incoming),
}

impl ResponseBody {
    pub(super) fn plain(body: PlainBody) -> Self {
        Self { source: BodySource::Plain(body), pace: FramePace::default() }
    }

    pub(super) fn pooled(body: Incoming) -> Self {
        Self { source: BodySource::Pooled(body), pace: FramePace::default() }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self { source, pace } = self.get_mut();
        ready!(pace.poll_ready(task));
        let polled = match source {
            BodySource::Plain(body) => body.poll_frame(task),
            BodySource::Pooled(body) => Pin::new(body).poll_frame(task),
        };
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            pace.read(frame.data_ref().map_or(0, Bytes::len));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            BodySource::Plain(body) => body.has_ended(),
            BodySource::Pooled(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            BodySource::Plain(body) => body.size_hint(),
            BodySource::Pooled(body) => body.size_hint(),
        }
    }
}
