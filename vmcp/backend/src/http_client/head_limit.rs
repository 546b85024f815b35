//! [`HeadLimit`]: a TCP stream that bounds the bytes before the head of a response.
//!
//! hyper bounds one head, and skips interim responses (`103 Early Hints`) without counting them: a server
//! that sends those without end would keep the task busy that waits for its answer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::joined_write::write_joined;

/// Bytes before a response, its head and interim responses included; more end the connection.
const MAX_HEAD_BYTES: usize = 512 * 1024;

/// A TCP stream; reading fails when [`HeadAllowance`] is used up.
#[derive(Debug)]
pub(super) struct HeadLimit {
    stream: TcpStream,
    allowance: HeadAllowance,
}

/// Bytes that may still be read before the head of the response. Clones share the count.
#[derive(Clone, Debug)]
pub(super) struct HeadAllowance(Arc<AtomicUsize>);

impl HeadAllowance {
    /// A request is sent: its response may begin within [`MAX_HEAD_BYTES`].
    pub(super) fn begin(&self) {
        self.0.store(MAX_HEAD_BYTES, Ordering::Relaxed);
    }

    /// The head has arrived: the body has limits of its own.
    pub(super) fn end(&self) {
        self.0.store(usize::MAX, Ordering::Relaxed);
    }

    fn take(&self, bytes: usize) -> io::Result<()> {
        let left = self.0.load(Ordering::Relaxed);
        if left == usize::MAX {
            return Ok(());
        }
        let Some(left) = left.checked_sub(bytes) else {
            let detail = format!("the server sent more than {} KiB before its answer", MAX_HEAD_BYTES / 1024);
            return Err(io::Error::other(detail));
        };
        self.0.store(left, Ordering::Relaxed);
        Ok(())
    }
}

impl HeadLimit {
    pub(super) fn new(stream: TcpStream) -> (Self, HeadAllowance) {
        let allowance = HeadAllowance(Arc::new(AtomicUsize::new(usize::MAX)));
        (Self { stream, allowance: allowance.clone() }, allowance)
    }
}

impl AsyncRead for HeadLimit {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(task, buffer))?;
        Poll::Ready(self.allowance.take(buffer.filled().len().saturating_sub(before)))
    }
}

impl AsyncWrite for HeadLimit {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(task, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let stream = &mut self.stream;
        match write_joined(pieces, |bytes| Pin::new(&mut *stream).poll_write(task, bytes)) {
            Some(written) => written,
            None => Pin::new(stream).poll_write_vectored(task, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_bytes_before_a_head_are_bounded() {
        let allowance = HeadAllowance(Arc::new(AtomicUsize::new(usize::MAX)));
        allowance.take(10 * MAX_HEAD_BYTES).unwrap();
        allowance.begin();
        allowance.take(MAX_HEAD_BYTES).unwrap();
        let error = allowance.take(1).unwrap_err();
        assert_eq!(error.to_string(), "the server sent more than 512 KiB before its answer");
        allowance.end();
        allowance.take(MAX_HEAD_BYTES).unwrap();
    }
}
