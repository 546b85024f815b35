//! [`ClientSocket`]: a TCP stream, with or without TLS, with a write timeout (slow reader attack) that can
//! take back what was read.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};
use tokio_rustls::server::TlsStream;

use crate::transport::http::activity::Activity;
use vmcp_backend::write_joined;
use vmcp_engine::engine::Engine;

/// A connection that fails once written bytes have waited for `limit`. Until then a stalled client holds a
/// bounded number of bytes, and so do the tasks that wait for it.
pub(super) struct ClientSocket {
    stream: ClientStream,
    engine: Engine,
    limit: Duration,
    /// The write timeout; runs while the client leaves sent bytes unread.
    waiting: Option<Pin<Box<Sleep>>>,
    activity: Activity,
    /// Bytes to read before those of the stream.
    unread: Bytes,
}

impl ClientSocket {
    /// Wraps `stream`; a write that waits for longer than `limit` fails.
    pub(super) fn new(stream: ClientStream, engine: Engine, limit: Duration) -> Self {
        // Small answers must not wait for the client's delayed acknowledgement (40 ms, Nagle's algorithm). A
        // socket that refuses the option still works.
        let _ = stream.tcp().set_nodelay(true);
        let (activity, unread) = (Activity::default(), Bytes::new());
        Self { stream, engine, limit, waiting: None, activity, unread }
    }

    /// Returns the activity of the connection.
    pub(super) fn activity(&self) -> Activity {
        self.activity.clone()
    }

    /// Returns the TCP stream, unless TLS may hold bytes of it.
    pub(super) fn plain(&self) -> Option<&TcpStream> {
        match &self.stream {
            ClientStream::Plain(stream) => Some(stream),
            ClientStream::Tls(_) => None,
        }
    }

    /// Takes back bytes, which are read again first.
    pub(super) fn unread(&mut self, bytes: Bytes) {
        self.unread = bytes;
    }

    /// Passes on the outcome of a write, and fails a write that has waited for too long.
    fn written<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.waiting.take().is_some() {
                self.activity.set_blocked(false);
            }
            return written;
        }
        self.activity.set_blocked(true);
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

/// The stream of a connection.
pub(super) enum ClientStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl ClientStream {
    fn tcp(&self) -> &TcpStream {
        match self {
            ClientStream::Plain(stream) => stream,
            ClientStream::Tls(stream) => stream.get_ref().0,
        }
    }
}

/// Calls a method of the stream within.
macro_rules! either {
    ($socket:ident.$method:ident($($argument:expr),*)) => {
        match &mut $socket.stream {
            ClientStream::Plain(stream) => Pin::new(stream).$method($($argument),*),
            ClientStream::Tls(stream) => Pin::new(stream.as_mut()).$method($($argument),*),
        }
    };
}

impl AsyncRead for ClientSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.unread.is_empty() {
            let taken = self.unread.len().min(buffer.remaining());
            buffer.put_slice(&self.unread.split_to(taken));
            return Poll::Ready(Ok(()));
        }
        either!(self.poll_read(context, buffer))
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = either!(self.poll_write(context, bytes));
        self.written(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = match write_joined(pieces, |bytes| either!(self.poll_write(context, bytes))) {
            Some(written) => written,
            None => either!(self.poll_write_vectored(context, pieces)),
        };
        self.written(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            ClientStream::Plain(stream) => stream.is_write_vectored(),
            ClientStream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.poll_shutdown(context))
    }
}
