//! Reads one answer: collected, or begun if its caller can take it while it arrives.

use bytes::Bytes;
use vmcp_json::byte_rope::ByteRope;
use vmcp_wire::payload::{ScanError, ScannedKeys, Scanner};

use super::AnswerLimits;
use super::collected::Collected;
use super::events::Events;
use super::read_pieces::ReadPieces;
use crate::http_client::ResponseBody;
use crate::transport::link_error::LinkError;

/// Bytes up to which every answer is collected: what is found wrong in it is an error of the call, while an
/// answer that was begun can only break off.
pub(in crate::transport) const MAX_WHOLE_BYTES: usize = 64 * 1024;

/// The source of an answer's bytes.
pub(in crate::transport) enum AnswerSource {
    /// The body is the answer.
    Body(ResponseBody),
    /// The answer is the data of the event that the stream has begun with.
    Event(Box<Events>),
}

/// An answer as far as it was read.
pub(in crate::transport) enum Answer {
    /// All bytes, and the keys that were found in them.
    Whole(ByteRope, Result<ScannedKeys, ScanError>),
    /// The beginning of a result, read by the scanner. The rest is still to be read.
    Begun(Scanner, ByteRope),
}

impl ReadPieces for AnswerSource {
    async fn next_piece(&mut self) -> Result<Option<Bytes>, LinkError> {
        match self {
            Self::Body(body) => body.next_piece().await,
            Self::Event(events) => events.next_piece().await,
        }
    }
}

impl AnswerSource {
    /// Lets what follows the answer end in the background.
    pub(in crate::transport) fn drain(self) {
        if let Self::Event(events) = self {
            events.drain();
        }
    }
}

/// Reads an answer, scanning it on the way. More bytes than `limits` allow are an error. With `begun_for`, a
/// large result for the request with that id is returned as soon as it is known to be one.
pub(in crate::transport) async fn read(
    source: &mut impl ReadPieces,
    limits: &AnswerLimits,
    begun_for: Option<&str>,
) -> Result<Answer, LinkError> {
    let too_large = LinkError::TooLarge { limit: limits.bytes };
    if source.announced() > limits.bytes as u64 {
        return Err(too_large);
    }
    let mut pieces = Collected::new(limits.budget.clone());
    let mut scanner = Scanner::default();
    let mut so_far = Ok(());
    while let Some(piece) = source.next_piece().await? {
        if pieces.len() + piece.len() > limits.bytes {
            return Err(too_large);
        }
        so_far = so_far.and_then(|()| scanner.push(&piece));
        pieces.push(piece)?;
        if let Some(id) = begun_for
            && so_far.is_ok()
            && pieces.len() > MAX_WHOLE_BYTES
            && scanner.has_begun_result(id, pieces.so_far()?)
        {
            return Ok(Answer::Begun(scanner, pieces.finish()?));
        }
    }
    Ok(Answer::Whole(pieces.finish()?, so_far.and_then(|()| scanner.finish())))
}
