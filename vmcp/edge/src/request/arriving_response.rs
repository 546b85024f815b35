//! [`ArrivingResponse`]: the rest of a response that is relayed while it arrives from its backend.
//!
//! The client has the HTTP status and the beginning when a mistake is found in the rest. The mistake can only
//! break the response off: the body ends with an error, which is logged and counted.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;

use futures::stream::{self, Stream, StreamExt as _};
use vmcp_backend::CallError;
use vmcp_json::byte_rope::ByteRope;
use vmcp_wire::translate::{ArrivalError, IncrementalResult, ResultPlan};
use vmcp_wire::{codes, rpc};

use vmcp_engine::telemetry::metrics::Metrics;
use vmcp_engine::telemetry::operations::{Operation, OperationFailure};
use vmcp_engine::telemetry::traces;
use vmcp_route::ArrivingAnswer;

/// A response that broke off after its beginning was sent.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the answer broke off: {0}")]
pub(crate) struct BrokenOff(pub(crate) String);

/// Pieces of a message, in order; an error is the last item.
pub(crate) type Pieces = Pin<Box<dyn Stream<Item = Result<ByteRope, BrokenOff>> + Send>>;

/// Pieces of a response behind its beginning.
pub(crate) struct ArrivingResponse {
    pieces: Pieces,
    /// Length of the beginning, up to the result; the client's id is in it.
    head: usize,
}

/// The translation of a result under way.
struct Relay {
    method: Arc<str>,
    metrics: Arc<Metrics>,
    answer: ArrivingAnswer,
    translation: IncrementalResult,
}

impl ArrivingResponse {
    /// Begins the response with what has arrived: returns its first bytes and the rest. `id` is the client's,
    /// as JSON.
    pub(super) fn begin(
        method: &str,
        id: &str,
        plan: &ResultPlan<'_>,
        mut answer: ArrivingAnswer,
        metrics: &Arc<Metrics>,
    ) -> Result<(ByteRope, Self), ArrivalError> {
        let (scanner, so_far) = answer.take_begun();
        let mut translation = IncrementalResult::begin(method, plan, id, scanner, so_far)?;
        let first = translation.take();
        let relay = Relay { method: method.into(), metrics: Arc::clone(metrics), answer, translation };
        let pieces = stream::unfold(Some(relay), async |relay| relay?.next().await).boxed();
        Ok((first, Self { pieces, head: rpc::response_head(id).len() }))
    }

    /// Holds `guard` until the response has ended.
    pub(super) fn keep(self, guard: impl Send + 'static) -> Self {
        let pieces = stream::unfold((self.pieces, guard), async |(mut pieces, guard)| {
            let piece = pieces.next().await?;
            Some((piece, (pieces, guard)))
        });
        Self { pieces: pieces.boxed(), head: self.head }
    }

    /// Relays the response in the span of `operation`, which is settled at its end; dropped before, it
    /// counts as cancelled.
    pub(super) fn measured(self, operation: Operation) -> Self {
        let pieces = stream::unfold((self.pieces, Some(operation)), async |(mut pieces, mut operation)| {
            let span = operation.as_ref().map(|operation| operation.span().clone()).unwrap_or_default();
            let piece = traces::in_span(pin!(pieces.next()), &span).await;
            let end = match &piece {
                Some(Ok(_)) => None,
                Some(Err(BrokenOff(message))) => {
                    let message = message.clone();
                    Some(Some(Box::new(OperationFailure::Rpc { code: codes::INTERNAL_ERROR, message })))
                }
                None => Some(None),
            };
            if let Some(failure) = end
                && let Some(mut operation) = operation.take()
            {
                operation.settle(failure);
            }
            Some((piece?, (pieces, operation)))
        });
        Self { pieces: pieces.boxed(), head: self.head }
    }

    /// Replaces the id in the beginning of the response.
    pub(super) fn under_id(self, mut first: ByteRope, id: &str) -> (ByteRope, Self) {
        let _former = first.split_to(self.head);
        let head = rpc::response_head(id);
        let length = head.len();
        let mut under = ByteRope::from(head);
        under.append(first);
        (under, Self { pieces: self.pieces, head: length })
    }

    /// Returns the pieces.
    pub(crate) fn into_pieces(self) -> Pieces {
        self.pieces
    }
}

impl Relay {
    /// Waits for the next bytes for the client.
    async fn next(mut self) -> Option<(Result<ByteRope, BrokenOff>, Option<Self>)> {
        loop {
            let arrived = match self.answer.next().await {
                Some(Ok(piece)) => self.translation.push(piece).map_err(|error| protocol_error(&error)),
                Some(Err(error)) => Err(error),
                None => {
                    let Self { method, metrics, answer, translation } = self;
                    return Some(match translation.finish() {
                        Ok((last, keys)) => {
                            answer.complete(&keys);
                            (Ok(last), None)
                        }
                        Err(error) => {
                            (Err(break_off(&method, &metrics, answer, &protocol_error(&error))), None)
                        }
                    });
                }
            };
            if let Err(error) = arrived {
                return Some((Err(break_off(&self.method, &self.metrics, self.answer, &error)), None));
            }
            let ready = self.translation.take();
            if !ready.is_empty() {
                return Some((Ok(ready), Some(self)));
            }
        }
    }
}

fn protocol_error(error: &ArrivalError) -> CallError {
    CallError::protocol(error.to_string())
}

/// Records, counts and logs an answer that broke off.
fn break_off(method: &str, metrics: &Metrics, answer: ArrivingAnswer, error: &CallError) -> BrokenOff {
    metrics.answers_broken_off.inc();
    let backend = answer.backend().unwrap_or_default();
    tracing::warn!(backend, method, %error, "an answer broke off after its beginning was sent to the client");
    answer.fail(error);
    BrokenOff(error.to_string())
}

impl fmt::Debug for ArrivingResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrivingResponse").finish_non_exhaustive()
    }
}
