//! Deadline layer: ends a call at its deadline, or when its caller cancels.

use crate::call::failure::Failure;
use crate::call::{Call, CallService};
use crate::policy::breaker::Verdict;
use crate::request::{CallError, Response};

/// Limits the time of a call. The next layer's future is dropped at the end, which tells the backend to stop.
pub(super) struct Deadline<Next>(pub(super) Next);

impl<'a, Next> CallService<Call<'a>> for Deadline<Next>
where
    Next: CallService<Call<'a>, Error = Failure> + Sync,
{
    type Error = Failure;

    async fn call(&self, call: Call<'a>) -> Result<Response, Failure> {
        let Call { core, request, listener, in_doubt } = call;
        tokio::select! {
            result = self.0.call(call) => result,
            () = request.cancel.cancelled() => {
                let error = CallError::Cancelled { transmission: in_doubt.transmission() };
                Err(Failure { error, verdict: Verdict::Unknown })
            }
            (after, asked) = listener.clock.expiry(request.deadline, core.facts.settings.max_call) => {
                let error = CallError::Timeout { after, transmission: in_doubt.transmission() };
                core.remember_error(format!("{}: {error}", request.method));
                // A hasty caller says nothing about the backend, nor does one who has a question to answer.
                let counts = !request.hasty && !asked;
                Err(Failure { error, verdict: if counts { Verdict::Failed } else { Verdict::Unknown } })
            }
        }
    }
}
