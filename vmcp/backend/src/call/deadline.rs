//! Deadline layer: ends a call at its deadline, or when its caller cancels.

use std::time::Duration;

use crate::call::failure::Failure;
use crate::call::{Call, CallService};
use crate::policy::breaker::Verdict;
use crate::request::{CallError, Response};

/// Shortest deadline whose expiry counts as a breaker failure: a hastier client says nothing about the
/// backend, and must not open the breaker for all others.
const MIN_BREAKER_DEADLINE: Duration = Duration::from_secs(1);

/// Limits the time of a call. The next layer's future is dropped at the end, which tells the backend to stop.
pub(super) struct Deadline<Next>(pub(super) Next);

impl<'a, Next> CallService<Call<'a>> for Deadline<Next>
where
    Next: CallService<Call<'a>, Error = Failure> + Sync,
{
    type Error = Failure;

    async fn call(&self, call: Call<'a>) -> Result<Response, Failure> {
        let Call { core, request, listener } = call;
        tokio::select! {
            result = self.0.call(call) => result,
            () = request.cancel.cancelled() => {
                Err(Failure { error: CallError::Cancelled, verdict: Verdict::Unknown })
            }
            (after, asked) = listener.clock.expiry(request.deadline, core.facts.settings.max_call) => {
                let error = CallError::Timeout { after };
                core.remember_error(format!("{}: {error}", request.method));
                // While a question is open, the backend waits for the client.
                let counts = request.deadline >= MIN_BREAKER_DEADLINE && !asked;
                Err(Failure { error, verdict: if counts { Verdict::Failed } else { Verdict::Unknown } })
            }
        }
    }
}
