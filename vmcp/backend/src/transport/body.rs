//! Reads HTTP bodies within bounds: whole, or as server-sent events.

mod answer;
mod beginning;
mod collected;
mod events;
mod filler_limit;
mod read_pieces;

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use tokio::time::timeout;
use vmcp_error_chain::error_chain;

use crate::http_client::ResponseBody;
use crate::policy::byte_budget::ByteBudget;
use crate::transport::link_error::LinkError;

pub(super) use crate::transport::body::answer::{Answer, AnswerSource, read};
pub(super) use crate::transport::body::beginning::beginning;
pub(super) use crate::transport::body::collected::counted;
pub(super) use crate::transport::body::events::{Event, Events};
pub(super) use crate::transport::body::filler_limit::{FillerLimit, PAUSE};
pub(super) use crate::transport::body::read_pieces::ReadPieces;

/// Time for a stream to end after the wanted message; then its connection is closed instead of reused.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes that may follow the wanted message; beyond them the connection is closed instead of reused.
const MAX_DRAINED_BYTES: usize = 256 * 1024;

/// Limits of the answers of one backend.
#[derive(Clone, Debug)]
pub(crate) struct AnswerLimits {
    /// Bytes of one answer.
    pub(crate) bytes: usize,
    /// Budget of all answers in memory.
    pub(crate) budget: ByteBudget,
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
    let mut rest = async move {
        let mut bytes = 0;
        while let Some(Ok(frame)) = body.frame().await {
            bytes += frame.data_ref().map_or(0, Bytes::len);
            if bytes > MAX_DRAINED_BYTES {
                return;
            }
        }
    }
    .boxed();
    if (&mut rest).now_or_never().is_none() {
        tokio::spawn(timeout(DRAIN_TIMEOUT, rest));
    }
}
