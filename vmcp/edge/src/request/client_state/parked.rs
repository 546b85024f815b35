//! [`ParkedCalls`]: calls of modern clients that wait for input.
//!
//! A legacy backend asks a question in the midst of a call. A modern client is asked by the answer to its
//! request and repeats the request with its input. Meanwhile the call is parked here: a task polls its work,
//! and the client carries a sealed state that names process and call.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use vmcp_wire::sealed::request_state::Continuation;

use crate::request::running_call::RunningCall;
use vmcp_engine::access::identity::PrincipalKey;
use vmcp_engine::access::principal_shares::PrincipalShares;
use vmcp_engine::random::random;
use vmcp_engine::telemetry::metrics::Metrics;

/// Time a parked call waits for its client; then it is dropped, which cancels it at the backend.
pub(in crate::request) const PARKED_CALL_TIMEOUT: Duration = Duration::from_mins(5);
/// Parked calls of one principal; one more is refused.
const MAX_PARKED_CALLS_PER_PRINCIPAL: usize = 1000;
/// Parked calls of this process, as a backstop; one more is refused.
const MAX_PARKED_CALLS: usize = 4000;

type CallId = [u8; 16];

/// The parked calls of this process.
pub(in crate::request) struct ParkedCalls {
    /// Random id of this process, in each continuation.
    process: [u8; 8],
    timeout: Duration,
    shares: Arc<PrincipalShares>,
    /// For each call the channel on which its task is asked to hand the call over.
    calls: Mutex<HashMap<CallId, oneshot::Sender<oneshot::Sender<RunningCall>>>>,
}

/// A parked call that cannot be resumed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in crate::request) enum ResumeError {
    #[error(
        "the call that `requestState` names waits in another process of this server; repeat the request without requestState and inputResponses"
    )]
    OtherProcess,
    #[error(
        "the call that `requestState` names waits no longer; repeat the request without requestState and inputResponses"
    )]
    Gone,
}

impl ParkedCalls {
    /// Creates an empty table whose calls wait for `timeout`.
    pub(in crate::request) fn new(timeout: Duration, metrics: &Metrics) -> Self {
        let shares =
            PrincipalShares::new("parked_calls", MAX_PARKED_CALLS_PER_PRINCIPAL, MAX_PARKED_CALLS, metrics);
        Self { process: random(), timeout, shares, calls: Mutex::default() }
    }

    /// Parks a call of a principal and returns the continuation for the client to carry. At a limit the call
    /// is handed back.
    pub(in crate::request) fn park(
        self: &Arc<Self>,
        principal: PrincipalKey,
        mut call: RunningCall,
        home: String,
    ) -> Result<Continuation, Box<RunningCall>> {
        let id = random();
        let (take, mut taken) = oneshot::channel::<oneshot::Sender<RunningCall>>();
        let held = match self.shares.take(principal) {
            Ok(held) => held,
            Err(reached) => {
                tracing::warn!(?reached, "too many parked calls; one that needs input was refused");
                return Err(Box::new(call));
            }
        };
        self.lock().insert(id, take);
        let parked = Arc::clone(self);
        tokio::spawn(async move {
            let _held = held;
            let back = tokio::select! {
                // Asked for in the same moment, the call is handed over rather than dropped.
                biased;
                back = &mut taken => back.ok(),
                () = call.run() => None,
                () = tokio::time::sleep(parked.timeout) => None,
            };
            parked.lock().remove(&id);
            if let Some(back) = back {
                // If the client disconnected in this moment, the dropped call cancels its work.
                let _ = back.send(call);
            }
        });
        Ok(Continuation::Parked { process: self.process, call: id, home })
    }

    /// Returns true if a process of this id is another one.
    pub(in crate::request) fn is_elsewhere(&self, process: [u8; 8]) -> bool {
        process != self.process
    }

    /// Hands a parked call over to the request that resumes it. Only the first request gets it.
    pub(in crate::request) async fn take(
        &self,
        process: [u8; 8],
        call: CallId,
    ) -> Result<RunningCall, ResumeError> {
        if process != self.process {
            return Err(ResumeError::OtherProcess);
        }
        let take = self.lock().remove(&call).ok_or(ResumeError::Gone)?;
        let (sender, receiver) = oneshot::channel();
        take.send(sender).map_err(|_| ResumeError::Gone)?;
        receiver.await.map_err(|_| ResumeError::Gone)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallId, oneshot::Sender<oneshot::Sender<RunningCall>>>> {
        self.calls.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::encoded_response::EncodedResponse;
    use tokio_util::sync::CancellationToken;
    use vmcp_engine::access::identity::Principal;

    fn call(work: impl Future<Output = EncodedResponse> + Send + 'static) -> RunningCall {
        RunningCall::new(Box::pin(work), vmcp_backend::event_queue(1).1, CancellationToken::new())
    }

    fn named(continuation: &Continuation) -> ([u8; 8], CallId) {
        let Continuation::Parked { process, call, .. } = continuation else { panic!("{continuation:?}") };
        (*process, *call)
    }

    #[tokio::test]
    async fn a_parked_call_works_on_and_is_taken_up_once() {
        let parked = Arc::new(ParkedCalls::new(PARKED_CALL_TIMEOUT, &Metrics::new()));
        let (done, is_done) = oneshot::channel();
        let work = async move {
            let _ = done.send(());
            EncodedResponse::ok(b"{}".to_vec())
        };
        let Ok(continuation) = parked.park(Principal::default().key(), call(work), String::new()) else {
            panic!("the table is not full")
        };
        let (process, id) = named(&continuation);
        is_done.await.unwrap();
        assert_eq!(parked.take([0; 8], id).await.err(), Some(ResumeError::OtherProcess));
        let taken = parked.take(process, id).await;
        assert!(taken.is_ok());
        assert_eq!(parked.take(process, id).await.err(), Some(ResumeError::Gone));
    }

    #[tokio::test]
    async fn a_call_whose_client_does_not_come_back_is_dropped() {
        let parked = Arc::new(ParkedCalls::new(Duration::from_millis(1), &Metrics::new()));
        let (held, dropped) = oneshot::channel::<()>();
        let work = async move {
            let _held = held;
            std::future::pending().await
        };
        let Ok(continuation) = parked.park(Principal::default().key(), call(work), String::new()) else {
            panic!("the table is not full")
        };
        let (process, id) = named(&continuation);
        assert!(dropped.await.is_err(), "the work is dropped at the timeout");
        assert_eq!(parked.take(process, id).await.err(), Some(ResumeError::Gone));
    }
}
