//! [`ResponseBody`]: the body of a response, and the connection that it arrives on.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::frame_pace::FramePace;
use super::host_pool::HostPool;
use super::plain_connection::PlainConnection;

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

/// A body on a connection of a [`HostPool`].
#[derive(Debug)]
pub(crate) struct PlainBody {
    incoming: Incoming,
    /// `None` once the body has ended.
    connection: Option<Box<PlainConnection>>,
    pool: Arc<HostPool>,
}

impl PlainBody {
    pub(super) fn new(incoming: Incoming, connection: Box<PlainConnection>, pool: Arc<HostPool>) -> Self {
        let mut body = Self { incoming, connection: Some(connection), pool };
        body.release_at_end();
        body
    }

    /// Gives the connection back if the body is known to have ended.
    fn release_at_end(&mut self) {
        if self.incoming.is_end_stream() {
            self.release();
        }
    }

    fn release(&mut self) {
        if let Some(connection) = self.connection.take() {
            HostPool::give_back(&self.pool, connection);
        }
    }

    fn poll_frame(&mut self, task: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(connection) = &mut self.connection else { return Poll::Ready(None) };
        let polled = connection.poll_frame(task, &mut self.incoming);
        match &polled {
            Poll::Ready(Some(Ok(_))) => self.release_at_end(),
            Poll::Ready(Some(Err(_))) => drop(self.connection.take()),
            Poll::Ready(None) => self.release(),
            Poll::Pending => {}
        }
        polled
    }
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
            BodySource::Plain(body) => body.connection.is_none(),
            BodySource::Pooled(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            BodySource::Plain(body) => body.incoming.size_hint(),
            BodySource::Pooled(body) => body.size_hint(),
        }
    }
}
