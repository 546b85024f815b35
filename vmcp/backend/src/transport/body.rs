//! Reads HTTP bodies within bounds: whole, or as server-sent events.

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use tokio::time::timeout;
use vmcp_error_chain::error_chain;
use vmcp_json::byte_rope::ByteRope;
use vmcp_wire::payload::{ScanError, ScannedKeys, Scanner};
use vmcp_wire::sse;

use crate::http_client::ResponseBody;
use crate::transport::link_error::LinkError;

/// Time for a stream to end after the wanted message; then its connection is closed instead of reused.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Collects the whole body in the pieces that came, without joining them, and scans it as a JSON-RPC answer
/// on the way. A body over `limit` bytes is an error.
pub(super) async fn collect(
    mut body: ResponseBody,
    limit: usize,
) -> Result<(ByteRope, Result<ScannedKeys, ScanError>), LinkError> {
    if body.size_hint().lower() > limit as u64 {
        return Err(LinkError::TooLarge { limit });
    }
    let mut pieces = ByteRope::new();
    let mut scanner = Scanner::default();
    let mut so_far = Ok(());
    while let Some(piece) = next(&mut body).await? {
        if pieces.len() + piece.len() > limit {
            return Err(LinkError::TooLarge { limit });
        }
        so_far = so_far.and_then(|()| scanner.push(&piece));
        pieces.push(piece);
    }
    Ok((pieces, so_far.and_then(|()| scanner.finish())))
}

async fn next(body: &mut ResponseBody) -> Result<Option<Bytes>, LinkError> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| LinkError::Closed { detail: error_chain(&error) })?;
        // Trailers carry nothing of MCP.
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// Reads a body to its end in the background, so that its connection can be used again.
pub(super) fn drain(mut body: ResponseBody) {
    let mut rest = async move { while let Some(Ok(_)) = body.frame().await {} }.boxed();
    if (&mut rest).now_or_never().is_none() {
        tokio::spawn(timeout(DRAIN_TIMEOUT, rest));
    }
}

/// Server-sent events of a body, as they come.
pub(super) struct Events {
    body: ResponseBody,
    decoder: sse::Decoder,
    chunk: Bytes,
    /// True once an event has come.
    any: bool,
}

impl Events {
    /// Events of at most `limit` bytes each; a larger one is an error.
    pub(super) fn new(body: ResponseBody, limit: usize) -> Self {
        Self { body, decoder: sse::Decoder::new(limit), chunk: Bytes::new(), any: false }
    }

    /// The next event; `None` at the end of the body.
    pub(super) async fn next(&mut self) -> Result<Option<sse::Event>, LinkError> {
        loop {
            let mut rest = &*self.chunk;
            let event = self.decoder.next(&mut rest).map_err(|error| match error {
                sse::SseError::TooLarge { limit } => LinkError::TooLarge { limit },
                sse::SseError::Encoding => LinkError::Protocol(error.to_string()),
            })?;
            self.chunk = self.chunk.slice_ref(rest);
            if event.is_some() {
                self.any = true;
                return Ok(event);
            }
            match next(&mut self.body).await? {
                Some(chunk) => self.chunk = chunk,
                None => return Ok(None),
            }
        }
    }

    /// True if the stream has brought an event.
    pub(super) fn any(&self) -> bool {
        self.any
    }

    /// The pause before a broken stream is continued, if the server set one with `retry:`.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.decoder.retry().map(Duration::from_millis)
    }

    /// Lets the stream end in the background.
    pub(super) fn drain(self) {
        drain(self.body);
    }
}
