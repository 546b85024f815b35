//! Calls of modern clients that wait for input. A legacy backend asks in the midst of a call; a modern client is asked with
//! the answer to its request, and repeats the request when it knows. Meanwhile the call waits here, its work polled by a
//! task, and the client carries a state that names it.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use vmcp_wire::sealed::request_state::Continuation;

use super::running_call::RunningCall;
use crate::edge::session::random::random;

/// How long a call waits for its client.
pub(super) const PARKED_CALL_TIMEOUT: Duration = Duration::from_mins(5);
/// Calls that may wait at once.
const MAX_PARKED_CALLS: usize = 1000;

type CallId = [u8; 16];

/// The calls that wait in this process.
pub(super) struct ParkedCalls {
    process: [u8; 8],
    timeout: Duration,
    calls: Mutex<HashMap<CallId, oneshot::Sender<oneshot::Sender<RunningCall>>>>,
}

/// Why a call cannot be taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum ResumeError {
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
    /// No calls yet; each will wait for its client this long.
    pub(super) fn new(timeout: Duration) -> Self {
        Self { process: random(), timeout, calls: Mutex::default() }
    }

    /// Lets a call wait; what the client is to carry. Gives the call back when too many wait already.
    pub(super) fn park(self: &Arc<Self>, mut call: RunningCall) -> Result<Continuation, Box<RunningCall>> {
        let id = random();
        let (take, mut taken) = oneshot::channel::<oneshot::Sender<RunningCall>>();
        {
            let mut calls = self.lock();
            if calls.len() >= MAX_PARKED_CALLS {
                tracing::warn!(
                    limit = MAX_PARKED_CALLS,
                    "too many calls wait for input from their clients; one was refused"
                );
                return Err(Box::new(call));
            }
            calls.insert(id, take);
        }
        let parked = Arc::clone(self);
        tokio::spawn(async move {
            let back = tokio::select! {
                biased;
                back = &mut taken => back.ok(),
                () = call.run() => None,
                () = tokio::time::sleep(parked.timeout) => None,
            };
            parked.lock().remove(&id);
            if let Some(back) = back {
                // A client that left in this moment drops the call, which cancels it.
                let _ = back.send(call);
            }
        });
        Ok(Continuation::Parked { process: self.process, call: id })
    }

    /// Takes a call up.
    pub(super) async fn take(&self, process: [u8; 8], call: CallId) -> Result<RunningCall, ResumeError> {
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
    use crate::edge::request::encoded_response::EncodedResponse;
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;

    fn call(work: impl Future<Output = EncodedResponse> + Send + 'static) -> RunningCall {
        RunningCall::new(Box::pin(work), mpsc::channel(1).1, CancellationToken::new())
    }

    fn named(continuation: &Continuation) -> ([u8; 8], CallId) {
        let Continuation::Parked { process, call } = continuation else { panic!("{continuation:?}") };
        (*process, *call)
    }

    #[tokio::test]
    async fn a_parked_call_works_on_and_is_taken_up_once() {
        let parked = Arc::new(ParkedCalls::new(PARKED_CALL_TIMEOUT));
        let (done, is_done) = oneshot::channel();
        let work = async move {
            let _ = done.send(());
            EncodedResponse::ok(b"{}".to_vec())
        };
        let Ok(continuation) = parked.park(call(work)) else { panic!("there is room") };
        let (process, id) = named(&continuation);
        is_done.await.unwrap();
        assert_eq!(parked.take([0; 8], id).await.err(), Some(ResumeError::OtherProcess));
        let taken = parked.take(process, id).await;
        assert!(taken.is_ok());
        assert_eq!(parked.take(process, id).await.err(), Some(ResumeError::Gone));
    }

    #[tokio::test]
    async fn a_call_whose_client_does_not_come_back_is_dropped() {
        let parked = Arc::new(ParkedCalls::new(Duration::from_millis(1)));
        let (held, dropped) = oneshot::channel::<()>();
        let work = async move {
            let _held = held;
            std::future::pending().await
        };
        let Ok(continuation) = parked.park(call(work)) else { panic!("there is room") };
        let (process, id) = named(&continuation);
        assert!(dropped.await.is_err(), "dropped without a word");
        assert_eq!(parked.take(process, id).await.err(), Some(ResumeError::Gone));
    }
}
