//! Answers whose beginning was received: the rest is read when the caller asks for it.

use bytes::Bytes;
use futures::stream;
use vmcp_json::byte_rope::ByteRope;
use vmcp_wire::payload::Scanner;

use super::CancelOnDrop;
use crate::request::{ArrivingResult, RpcOutcome};
use crate::transport::body::{AnswerSource, ReadPieces as _};
use crate::transport::link_error::LinkError;

/// An answer as far as it was received.
pub(super) enum ReceivedAnswer {
    /// The answer.
    Whole(RpcOutcome),
    /// The beginning of a large result.
    Begun(BegunAnswer),
}

/// The beginning of a large result, and the source of the rest.
pub(super) struct BegunAnswer {
    pub(super) scanner: Scanner,
    pub(super) so_far: ByteRope,
    pub(super) source: AnswerSource,
}

/// Reads the rest of an answer; dropped before its end, it cancels the request.
struct Rest {
    source: AnswerSource,
    /// Bytes that were received.
    length: usize,
    limit: usize,
    ticket: CancelOnDrop,
}

impl BegunAnswer {
    /// The result that arrives, of at most `limit` bytes.
    pub(super) fn arriving(self, limit: usize, ticket: CancelOnDrop) -> ArrivingResult {
        let Self { scanner, so_far, source } = self;
        let rest = Rest { source, length: so_far.len(), limit, ticket };
        let pieces = stream::unfold(Some(rest), async |rest| {
            let mut rest = rest?;
            match rest.next().await {
                Ok(Some(piece)) => Some((Ok(piece), Some(rest))),
                Ok(None) => {
                    rest.ticket.settle();
                    rest.source.drain();
                    None
                }
                Err(error) => {
                    rest.ticket.settle();
                    Some((Err(error.into()), None))
                }
            }
        });
        ArrivingResult::new(scanner, so_far, pieces)
    }
}

impl Rest {
    async fn next(&mut self) -> Result<Option<Bytes>, LinkError> {
        let piece = self.source.next_piece().await?;
        self.length += piece.as_ref().map_or(0, Bytes::len);
        if self.length > self.limit { Err(LinkError::TooLarge { limit: self.limit }) } else { Ok(piece) }
    }
}
