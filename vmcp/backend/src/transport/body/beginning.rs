//! The beginning of a body that a server sent in place of an answer.

use std::time::Duration;

use tokio::time::timeout;

use super::drain;
use super::read_pieces::ReadPieces as _;
use crate::http_client::ResponseBody;
use crate::transport::link_error::MAX_READ_BYTES;

/// Time for the beginning of a body to arrive; later bytes are left out.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads the beginning of a body; the rest is read in the background, so that its connection can be used
/// again.
pub(in crate::transport) async fn beginning(mut source: ResponseBody) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = async {
        // One byte more than is shown tells that the text was cut.
        while bytes.len() <= MAX_READ_BYTES
            && let Ok(Some(piece)) = source.next_piece().await
        {
            bytes.extend_from_slice(piece.get(..=MAX_READ_BYTES).unwrap_or(&piece));
        }
    };
    let _ = timeout(READ_TIMEOUT, read).await;
    drain(source);
    bytes
}
