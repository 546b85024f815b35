//! [`RunningCall`]: what is left to do of one request.

use std::future::Future;
use std::pin::Pin;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use vmcp_backend::Event;

use super::encoded_response::EncodedResponse;
use super::input_requests::InputRequests;

/// What a request does until it has its answer.
pub(super) type Work = Pin<Box<dyn Future<Output = EncodedResponse> + Send>>;

/// What is left of a request: its work, what the backend sends meanwhile, and in the end its answer.
pub(super) struct RunningCall {
    /// Gone when it is done; then there is an answer.
    pub(super) work: Option<Work>,
    pub(super) answer: Option<EncodedResponse>,
    pub(super) events: mpsc::Receiver<Event>,
    /// Questions that a modern client will be input_requests with the next answer.
    pub(super) input_requests: InputRequests,
    pub(super) cancel: CancellationToken,
}

impl RunningCall {
    /// A request that is being worked on.
    pub(super) fn new(work: Work, events: mpsc::Receiver<Event>, cancel: CancellationToken) -> Self {
        Self { work: Some(work), answer: None, events, input_requests: InputRequests::default(), cancel }
    }

    /// One that has its answer.
    pub(super) fn answered(answer: Option<EncodedResponse>) -> Self {
        let (events, cancel) = (mpsc::channel(1).1, CancellationToken::new());
        Self { work: None, answer, events, input_requests: InputRequests::default(), cancel }
    }

    /// Works on; never ends, since an answer waits as a question does.
    pub(super) async fn run(&mut self) {
        if let Some(work) = &mut self.work {
            let response = work.await;
            (self.work, self.answer) = (None, Some(response));
        }
        std::future::pending::<()>().await;
    }
}
