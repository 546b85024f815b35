//! [`RunningCall`]: the part of a request that outlives one round, and is parked while its client is asked.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use vmcp_backend::{EventReceiver, event_queue};

use super::encoded_response::EncodedResponse;
use super::input_requests::InputRequests;
use vmcp_engine::access::policy::Policy;

/// The work of a request: a future that ends with the response.
pub(super) type Work = Pin<Box<dyn Future<Output = EncodedResponse> + Send>>;

/// The remaining work of a request, the events of its backend, and in the end its response.
pub(super) struct RunningCall {
    /// The work; `None` once `answer` is set.
    pub(super) work: Option<Work>,
    /// The response; set when the work is done, taken when it is sent.
    pub(super) answer: Option<EncodedResponse>,
    /// Messages of the backend before its answer.
    pub(super) events: EventReceiver,
    /// Questions that the next answer to the modern client will carry.
    pub(super) input_requests: InputRequests,
    /// Cancels the call at the backend.
    pub(super) cancel: CancellationToken,
    /// The policy that allowed the call, if any was asked.
    pub(super) policy: Option<Arc<dyn Policy>>,
}

impl RunningCall {
    /// Wraps the work of a request.
    pub(super) fn new(work: Work, events: EventReceiver, cancel: CancellationToken) -> Self {
        let input_requests = InputRequests::default();
        Self { work: Some(work), answer: None, events, input_requests, cancel, policy: None }
    }

    /// Wraps a response that needs no work.
    pub(super) fn answered(answer: Option<EncodedResponse>) -> Self {
        let (events, cancel) = (event_queue(1).1, CancellationToken::new());
        Self { work: None, answer, events, input_requests: InputRequests::default(), cancel, policy: None }
    }

    /// True if other policies are in force than the policies that allowed the call.
    pub(super) fn is_outdated(&self, policy: &Arc<dyn Policy>) -> bool {
        self.policy.as_ref().is_some_and(|before| !Arc::ptr_eq(before, policy))
    }

    /// Polls the work and stores its response. Never completes: a response waits for its client just as a
    /// question does.
    pub(super) async fn run(&mut self) {
        if let Some(work) = &mut self.work {
            // Collected: while its client is away, no reader takes the bytes of a response on the way.
            let response = work.await.collect().await;
            (self.work, self.answer) = (None, Some(response));
        }
        std::future::pending::<()>().await;
    }
}
