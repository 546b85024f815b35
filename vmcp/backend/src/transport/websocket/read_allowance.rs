//! [`AllowedReads`]: a stream that bounds the bytes before the next whole message of a websocket.
//!
//! The library bounds a message by its payload, and reads frames without payload on and on: a server that
//! continues a message with empty frames would be read for ever.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of frames for each byte of a message: one of a server has a header of two bytes at least, so a
/// message in frames of one byte takes three.
const BYTES_PER_BYTE: u64 = 4;
/// Bytes of frames that may be read besides, such as those of pings.
const SPARE_BYTES: u64 = 256 * 1024;

/// A stream; reading fails when its [`ReadAllowance`] is used up.
#[derive(Debug)]
pub(super) struct AllowedReads<S> {
    stream: S,
    allowance: ReadAllowance,
}

/// Bytes that may still be read before the next whole message. Clones share the count.
#[derive(Clone, Debug)]
pub(super) struct ReadAllowance {
    left: Arc<AtomicU64>,
    most: u64,
}

impl<S> AllowedReads<S> {
    /// Bounds a stream of messages of at most `message_bytes`.
    pub(super) fn new(stream: S, message_bytes: usize) -> (Self, ReadAllowance) {
        let most = (message_bytes as u64).saturating_mul(BYTES_PER_BYTE).saturating_add(SPARE_BYTES);
        let allowance = ReadAllowance { left: Arc::new(AtomicU64::new(most)), most };
        (Self { stream, allowance: allowance.clone() }, allowance)
    }
}

impl ReadAllowance {
    /// A whole message has arrived.
    pub(super) fn refill(&self) {
        self.left.store(self.most, Ordering::Relaxed);
    }

    /// A control frame of this many bytes has arrived: it may stand within a message, and starts no other.
    pub(super) fn give_back(&self, bytes: usize) {
        let left = self.left.load(Ordering::Relaxed).saturating_add(bytes as u64);
        self.left.store(left.min(self.most), Ordering::Relaxed);
    }

    /// Takes bytes that were read; the last ones may go beyond the allowance.
    fn take(&self, bytes: usize) {
        let left = self.left.load(Ordering::Relaxed).saturating_sub(bytes as u64);
        self.left.store(left, Ordering::Relaxed);
    }

    fn is_used_up(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for AllowedReads<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, allowance } = self.get_mut();
        if allowance.is_used_up() {
            let detail = format!("more than {} bytes of frames without a whole message", allowance.most);
            return Poll::Ready(Err(io::Error::other(detail)));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(stream).poll_read(task, buffer);
        allowance.take(buffer.filled().len().saturating_sub(before));
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for AllowedReads<S> {
    fn poll_write(self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(task, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(task)
    }

    fn poll_shutdown(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(task)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn reading_ends_at_the_allowance_and_goes_on_with_each_message() {
        let most = SPARE_BYTES as usize + 40;
        let bytes = vec![0; 3 * most];
        let (mut reads, allowance) = AllowedReads::new(&*bytes, 10);
        let mut piece = vec![0; most];
        reads.read_exact(&mut piece).await.unwrap();
        let error = reads.read_u8().await.unwrap_err().to_string();
        assert!(error.contains(&format!("more than {most} bytes")), "{error}");
        allowance.give_back(1);
        reads.read_u8().await.unwrap();
        reads.read_u8().await.unwrap_err();
        allowance.refill();
        allowance.give_back(1000);
        reads.read_exact(&mut piece).await.unwrap();
        reads.read_u8().await.unwrap_err();
    }
}
