//! Deadline layer: ends a call at its deadline, or when its caller cancels.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::call::failure::Failure;
use crate::call::{Call, CallService};
use crate::inbound::call_listener::CallListener;
use crate::policy::breaker::Verdict;
use crate::request::arriving::Pieces;
use crate::request::{CallError, Detail, Response, RpcOutcome, Transmission};

/// Limits the time of a call. The next layer's future is dropped at the end, which tells the backend to stop.
pub(super) struct Deadline<Next>(pub(super) Next);

impl<'a, Next> CallService<Call<'a>> for Deadline<Next>
where
    Next: CallService<Call<'a>, Error = Failure> + Sync,
{
    type Error = Failure;

    async fn call(&self, call: Call<'a>) -> Result<Response, Failure> {
        let Call { core, request, listener, in_doubt } = call;
        let started = Instant::now();
        // Pinned where it is made: the branches of `select` would be moved.
        let answer = pin!(self.0.call(call));
        let expiry = listener.clock.expiry(started, request.deadline, core.facts.settings().max_call);
        let result = tokio::select! {
            // The answer first: most calls end with it, and need no turn of chance. A backend that floods its
            // stream uses up the task's budget in it, so that the other two must not ask for any.
            biased;
            result = answer => result,
            () = unconstrained(request.cancel.cancelled()) => {
                let error = CallError::Cancelled { transmission: in_doubt.transmission() };
                Err(Failure { error, verdict: Verdict::Unknown })
            }
            (after, asked) = unconstrained(expiry) => {
                let stray = in_doubt.stray_since(started.into_std());
                let transmission = in_doubt.transmission();
                let error = CallError::Timeout { after, transmission, detail: Detail::new(stray) };
                core.remember_error(format!("{}: {}", request.method, error.detailed()));
                // A hasty caller says nothing about the backend, nor does one who has a question to answer.
                let counts = !request.hasty && !asked;
                Err(Failure { error, verdict: if counts { Verdict::Failed } else { Verdict::Unknown } })
            }
        };
        result.map(|mut response| {
            if let RpcOutcome::Arriving(arriving) = &mut response.outcome {
                let max_call = core.facts.settings().max_call.max(request.deadline);
                let limits = PieceLimits {
                    listener: Arc::clone(listener),
                    cancel: request.cancel.clone(),
                    deadline: request.deadline,
                    max_call,
                    last: started + max_call,
                };
                arriving.wrap(|pieces| limits.apply(pieces));
            }
            response
        })
    }
}

/// Limits of an answer while it arrives.
struct PieceLimits {
    listener: Arc<CallListener>,
    cancel: CancellationToken,
    /// Time for each piece to arrive, from when the client is ready to take it.
    deadline: Duration,
    max_call: Duration,
    /// The end of the whole call.
    last: Instant,
}

impl PieceLimits {
    fn apply(self, pieces: Pieces) -> Pieces {
        Box::pin(stream::unfold(Some((self, pieces)), async |state| {
            let (limits, mut pieces) = state?;
            let item = limits.next(&mut pieces).await?;
            let goes_on = item.is_ok();
            Some((item, goes_on.then_some((limits, pieces))))
        }))
    }

    async fn next(&self, pieces: &mut Pieces) -> Option<Result<Bytes, CallError>> {
        let transmission = Transmission::Sent;
        let cancelled = CallError::Cancelled { transmission };
        let too_late = CallError::timeout(self.max_call, transmission);
        // A backend that floods has always a piece ready, so that nothing below would be looked at.
        if self.cancel.is_cancelled() {
            return Some(Err(cancelled));
        }
        if Instant::now() >= self.last {
            return Some(Err(too_late));
        }
        // A client that is slow to read is no silence of the backend.
        self.listener.clock.touch();
        tokio::select! {
            biased;
            item = pieces.next() => item,
            () = self.cancel.cancelled() => Some(Err(cancelled)),
            () = sleep_until(self.last) => Some(Err(too_late)),
            (after, _) = self.listener.clock.expiry(Instant::now(), self.deadline, self.max_call) => {
                Some(Err(CallError::timeout(after, transmission)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(last: Instant) -> PieceLimits {
        let hour = Duration::from_hours(1);
        PieceLimits {
            listener: Arc::default(),
            cancel: CancellationToken::new(),
            deadline: hour,
            max_call: hour,
            last,
        }
    }

    fn flood() -> Pieces {
        stream::repeat_with(|| Ok(Bytes::from_static(b"a"))).boxed()
    }

    #[tokio::test]
    async fn a_backend_that_floods_is_ended_like_one_that_is_silent() {
        let hour = Duration::from_hours(1);
        let late = limits(Instant::now()).apply(flood()).next().await;
        assert!(matches!(late, Some(Err(CallError::Timeout { after, .. })) if after == hour), "{late:?}");

        let limits = limits(Instant::now() + hour);
        let cancel = limits.cancel.clone();
        let mut pieces = limits.apply(flood());
        assert!(matches!(pieces.next().await, Some(Ok(_))));
        cancel.cancel();
        let cancelled = pieces.next().await;
        assert!(matches!(cancelled, Some(Err(CallError::Cancelled { .. }))), "{cancelled:?}");
        assert!(pieces.next().await.is_none());
    }
}
