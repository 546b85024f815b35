//! A client's socket, which gives up on a client that does not read.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use crate::engine::Engine;

/// A connection that fails once what was written has waited for too long. Whoever writes holds a bounded number of bytes
/// until then, and so do those who wait for it.
pub(super) struct ClientSocket {
    stream: TcpStream,
    engine: Engine,
    limit: Duration,
    /// Runs while the client leaves unread what was sent.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl ClientSocket {
    pub(super) fn new(stream: TcpStream, engine: Engine, limit: Duration) -> Self {
        // Small answers must not wait for the client's delayed acknowledgement (40 ms). A socket that cannot be told
        // works.
        let _ = stream.set_nodelay(true);
        Self { stream, engine, limit, waiting: None }
    }

    /// What a write came to; one that has to wait fails when the time is over.
    fn written<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let limit = self.limit;
        ready!(self.waiting.get_or_insert_with(|| Box::pin(sleep(limit))).as_mut().poll(context));
        self.engine.metrics().client_stalls.inc();
        tracing::info!(
            seconds = limit.as_secs(),
            "a client does not read its answers; its connection is closed (server.writeTimeout)"
        );
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for ClientSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.written(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
