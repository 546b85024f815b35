//! Reads the body of a POST within a limit of bytes and of time.

use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::time;
use vmcp_json::byte_rope::ByteRope;

/// A body that could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error("the body is larger than {limit} bytes (optimizer.limits.bodyBytes)")]
    TooLarge { limit: usize },
    #[error("the body broke off")]
    Broken,
    #[error("the body did not arrive within {} seconds (server.receiveTimeout)", .0.as_secs())]
    TooSlow(Duration),
}

/// Bytes of an oversized body that are read and dropped. Closing the connection under a client that still
/// sends would lose the refusal.
const MAX_DRAINED_BYTES: usize = 16 * 1024 * 1024;
/// Time limit of that.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Reads a body of at most `limit` bytes that arrives within `timeout`. An oversized body is drained, within
/// bounds, so that its client can read the refusal.
pub(super) async fn read(mut body: Incoming, limit: usize, timeout: Duration) -> Result<Bytes, BodyError> {
    let read = bounded(&mut body, limit, timeout).await;
    if matches!(read, Err(BodyError::TooLarge { .. })) && body.size_hint().lower() <= MAX_DRAINED_BYTES as u64
    {
        // The body is refused whether or not it could be drained.
        let _ = time::timeout(DRAIN_TIMEOUT, drain(&mut body)).await;
    }
    read
}

/// Reads and drops the rest of a body, up to [`MAX_DRAINED_BYTES`].
async fn drain(body: &mut Incoming) {
    let mut dropped = 0;
    while let Some(Ok(frame)) = body.frame().await {
        dropped += frame.data_ref().map_or(0, Bytes::len);
        if dropped > MAX_DRAINED_BYTES {
            return;
        }
    }
}

/// Reads a body within both limits.
async fn bounded(body: &mut Incoming, limit: usize, timeout: Duration) -> Result<Bytes, BodyError> {
    if body.size_hint().lower() > limit as u64 {
        return Err(BodyError::TooLarge { limit });
    }
    // Most bodies have arrived with their headers, in one piece: no timer, no copy.
    let mut read = std::pin::pin!(whole(body, limit));
    match futures::poll!(read.as_mut()) {
        Poll::Ready(result) => result,
        Poll::Pending => time::timeout(timeout, read).await.unwrap_or(Err(BodyError::TooSlow(timeout))),
    }
}

/// Reads a body within `limit`.
async fn whole(body: &mut Incoming, limit: usize) -> Result<Bytes, BodyError> {
    let mut pieces = ByteRope::new();
    while let Some(frame) = body.frame().await {
        // Trailers carry nothing that MCP uses.
        if let Ok(piece) = frame.map_err(|_| BodyError::Broken)?.into_data() {
            pieces.push(piece);
        }
        if pieces.len() > limit {
            return Err(BodyError::TooLarge { limit });
        }
    }
    Ok(pieces.into_bytes())
}
