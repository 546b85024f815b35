//! Circuit breaker layer: admits calls while the circuit lets them through, and records how they end.

use std::sync::Arc;
use std::time::Instant;

use crate::call::failure::Failure;
use crate::call::{Call, CallService};
use crate::policy::breaker::Verdict;
use crate::request::{CallError, Response};
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
            Ok(response) => {
                permit.settle(Verdict::Healthy);
                Ok(response)
            }
            Err(Failure { error, verdict }) => {
                permit.settle(verdict);
                Err(error)
            }
        }
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
