//! Circuit breaker layer: admits calls while the circuit lets them through, and records how they end.

use std::sync::Arc;
use std::time::Instant;

use futures::{StreamExt as _, stream};

use crate::call::failure::Failure;
use crate::call::{Call, CallService};
use crate::policy::breaker::Verdict;
use crate::request::arriving::Pieces;
use crate::request::{CallError, Response, RpcOutcome};
use crate::sharing::core::BackendCore;

/// Refuses calls while the circuit of the backend is open.
pub(super) struct CircuitBreaker<Next>(pub(super) Next);

impl<'a, Next> CallService<Call<'a>> for CircuitBreaker<Next>
where
    Next: CallService<Call<'a>, Error = Failure> + Sync,
{
    type Error = CallError;

    async fn call(&self, call: Call<'a>) -> Result<Response, CallError> {
        let permit = Permit::admit(call.core)?;
        match self.0.call(call).await {
            Ok(mut response) => {
                match &mut response.outcome {
                    RpcOutcome::Arriving(arriving) => {
                        let is_hasty = call.request.hasty;
                        arriving.wrap(|pieces| settled_at_end(pieces, permit, is_hasty));
                    }
                    RpcOutcome::Result(_) | RpcOutcome::Error(_) => permit.settle(Verdict::Healthy),
                }
                Ok(response)
            }
            Err(Failure { error, verdict }) => {
                permit.settle(verdict);
                Err(error)
            }
        }
    }
}

/// Settles the permit of an answer that arrives when it has ended.
fn settled_at_end(pieces: Pieces, permit: Permit, is_hasty: bool) -> Pieces {
    Box::pin(stream::unfold(Some((pieces, permit)), move |state| async move {
        let (mut pieces, permit) = state?;
        match pieces.next().await {
            Some(Ok(piece)) => Some((Ok(piece), Some((pieces, permit)))),
            Some(Err(error)) => {
                permit.core.remember_error(format!("an answer broke off: {error}"));
                permit.settle(verdict_amid_answer(&error, is_hasty));
                Some((Err(error), None))
            }
            None => {
                permit.settle(Verdict::Healthy);
                None
            }
        }
    }))
}

/// The verdict on a backend whose answer broke off.
fn verdict_amid_answer(error: &CallError, is_hasty: bool) -> Verdict {
    match error {
        CallError::Timeout { .. } if is_hasty => Verdict::Unknown,
        CallError::Timeout { .. } | CallError::Unavailable { .. } => Verdict::Failed,
        CallError::TooLarge { .. } => Verdict::Healthy,
        _ => Verdict::Unknown,
    }
}

/// Admission of one call. Dropped without a verdict, because the caller went away, it records
/// [`Verdict::Unknown`].
struct Permit {
    core: Arc<BackendCore>,
    verdict: Verdict,
}

impl Permit {
    fn admit(core: &Arc<BackendCore>) -> Result<Self, CallError> {
        let admitted = core.breaker.lock().admit(Instant::now());
        admitted.map_err(|retry_in| CallError::CircuitOpen { retry_in })?;
        Ok(Self { core: Arc::clone(core), verdict: Verdict::Unknown })
    }

    fn settle(mut self, verdict: Verdict) {
        self.verdict = verdict;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.core.breaker.lock().record(self.verdict, Instant::now());
    }
}
