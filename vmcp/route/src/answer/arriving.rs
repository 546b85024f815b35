//! [`ArrivingAnswer`]: a backend's result of which only the beginning has arrived.

use bytes::Bytes;
use futures::StreamExt as _;
use vmcp_backend::{ArrivingRest, ArrivingResult, CallError};
use vmcp_json::byte_rope::ByteRope;
use vmcp_wire::payload::{Key, ScannedKeys, Scanner};

use vmcp_engine::telemetry::calls::{CallRecorder, Outcome};

/// A result on its way. Its call is recorded when it ends; dropped before, the call counts as cancelled.
#[derive(Debug)]
pub struct ArrivingAnswer {
    begun: Option<(Scanner, ByteRope)>,
    rest: ArrivingRest,
    recorder: CallRecorder,
}

impl ArrivingAnswer {
    /// Goes on with the record of the call until the result has ended.
    pub(crate) fn new(result: ArrivingResult, mut recorder: CallRecorder) -> Self {
        let (scanner, so_far, rest) = result.into_parts();
        recorder.receives(so_far.len());
        Self { begun: Some((scanner, so_far)), rest, recorder }
    }

    /// Takes the bytes that have arrived, and the scanner that has read them.
    pub fn take_begun(&mut self) -> (Scanner, ByteRope) {
        self.begun.take().unwrap_or_default()
    }

    /// Waits for the next bytes; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, CallError>> {
        let piece = self.rest.next().await;
        if let Some(Ok(piece)) = &piece {
            self.recorder.receives(piece.len());
        }
        piece
    }

    /// Returns the name of the backend.
    pub fn backend(&self) -> Option<&str> {
        self.recorder.seen().backend.as_deref()
    }

    /// Ends the call with a whole result, in which `keys` were found.
    pub fn complete(self, keys: &ScannedKeys) {
        let outcome = if keys.is_true(Key::IsError) { Outcome::ToolError } else { Outcome::Ok };
        self.recorder.settle(outcome);
    }

    /// Ends the call with a result that broke off.
    pub fn fail(self, error: &CallError) {
        self.recorder.settle(Outcome::from(error));
    }
}
