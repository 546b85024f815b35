//! Streamable HTTP transport, both eras: one POST a request, answered as JSON or as a stream of server-sent
//! events.

mod begun_answer;
mod headers;
mod receive;
mod resumption;
mod stream;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use vmcp_wire::era::{Era, Revision};
use vmcp_wire::methods;

use crate::http_client::Purpose;
use crate::inbound::{self, Inbound};
use crate::request::{RpcOutcome, SharedCredentials};
use crate::transport::body::{self, AnswerLimits};
use crate::transport::endpoint::{Endpoint, SentProof};
use crate::transport::http::begun_answer::ReceivedAnswer;
use crate::transport::http::headers::{REVISION, RequestHeaders, SESSION};
use crate::transport::link_error::{HttpRefusal, LinkError};
use crate::transport::prepared_request::PreparedRequest;

/// Time for the DELETE that ends a session; a server that misses it forgets the session by itself.
const DELETE_TIMEOUT: Duration = Duration::from_secs(1);

/// One session's link to a server. Cheap to clone: tasks of their own send replies and cancellations.
#[derive(Clone, Debug)]
pub(crate) struct Http(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    endpoint: Endpoint,
    inbound: Arc<Inbound>,
    limits: AnswerLimits,
    closed: CancellationToken,
    /// Permits for answers on their way to the server.
    answers: Arc<Semaphore>,
    /// Header values that a legacy server wants on each request after `initialize`; only servers that keep
    /// state give a session.
    session: OnceLock<HeaderValue>,
    revision: OnceLock<HeaderValue>,
    /// The headers of messages, written again when one of the two above becomes known.
    prepared: ArcSwap<HeaderMap>,
    /// An event that is not a message has come.
    skipped: AtomicBool,
    /// Credentials with which the connection was opened last.
    proof: ArcSwapOption<SentProof>,
}

impl Http {
    pub(crate) fn new(
        endpoint: Endpoint,
        inbound: Arc<Inbound>,
        limits: AnswerLimits,
        closed: CancellationToken,
    ) -> Self {
        let (session, revision) = (OnceLock::new(), OnceLock::new());
        let answers = Arc::new(Semaphore::new(stream::MAX_ANSWERS));
        let prepared = ArcSwap::from_pointee(endpoint.post_headers());
        let skipped = AtomicBool::new(false);
        Self(Arc::new(Inner {
            endpoint,
            inbound,
            limits,
            closed,
            answers,
            session,
            revision,
            prepared,
            skipped,
            proof: ArcSwapOption::empty(),
        }))
    }

    /// A link of its own to the same server, without a session yet.
    pub(crate) fn sibling(
        &self,
        inbound: Arc<Inbound>,
        closed: CancellationToken,
        credentials: Option<SharedCredentials>,
    ) -> Self {
        let endpoint = self.0.endpoint.with_credentials(credentials);
        Self::new(endpoint, inbound, self.0.limits.clone(), closed)
    }

    pub(crate) async fn exchange(&self, outgoing: PreparedRequest<'_>) -> Result<RpcOutcome, LinkError> {
        let PreparedRequest { id, message, request, revision } = outgoing;
        let headers = RequestHeaders::build(self.prepared(), request, revision)?;
        let purpose = if request.method == methods::LISTEN { Purpose::Stream } else { Purpose::Call };
        // A modern server takes the closed stream as the cancellation.
        let cancellable = revision.era() == Era::Legacy && request.method != methods::INITIALIZE;
        let mut ticket = CancelOnDrop { http: cancellable.then(|| self.clone()), id };
        let of_client = request.credentials.as_ref();
        let response = self.0.endpoint.post_for(of_client, headers, message, purpose).await;
        let opening = request.method == methods::INITIALIZE;
        let mut session = None;
        let answer = match response {
            Ok(response) => {
                if opening {
                    session = response.headers().get(SESSION).cloned();
                    self.0.proof.store(response.extensions().get().cloned().map(Arc::new));
                }
                self.answer(id, request, revision.era(), response).await
            }
            Err(error) => Err(error),
        };
        // A server that refuses this revision may open another session for the next one.
        if let (Some(session), Ok(ReceivedAnswer::Whole(RpcOutcome::Result(_)))) = (&session, &answer) {
            self.opened(session);
        }
        let answer = answer.map(|answer| match answer {
            ReceivedAnswer::Whole(outcome) => outcome,
            ReceivedAnswer::Begun(begun) => {
                let ticket = CancelOnDrop { http: ticket.http.take(), id };
                RpcOutcome::Arriving(begun.arriving(self.0.limits.bytes, ticket))
            }
        });
        ticket.settle();
        answer
    }

    pub(crate) async fn notify(&self, message: Bytes) -> Result<(), LinkError> {
        let headers = self.prepared();
        let response = self.0.endpoint.post(headers, message, Purpose::Call).await?;
        if response.status().is_success() {
            body::drain(response.into_body());
            return Ok(());
        }
        let (mut head, body) = response.into_parts();
        let proof = head.extensions.remove();
        let said = self.words(&body::beginning(body).await, proof.as_ref());
        Err(LinkError::Status(HttpRefusal::new(head.status, &head.headers, said)))
    }

    /// Remembers the revision that a legacy server negotiated; every later request carries it.
    pub(crate) fn negotiated(&self, revision: Revision) {
        let _ = self.0.revision.set(HeaderValue::from_static(revision.as_str()));
        self.prepare_headers();
    }

    /// Remembers the session that a legacy server opened; every later request names it.
    fn opened(&self, session: &HeaderValue) {
        let _ = self.0.session.set(session.clone());
        self.prepare_headers();
    }

    fn prepare_headers(&self) {
        let mut headers = self.0.endpoint.post_headers();
        self.add_session(&mut headers);
        self.0.prepared.store(Arc::new(headers));
    }

    /// The headers that every message has.
    fn prepared(&self) -> HeaderMap {
        HeaderMap::clone(&self.0.prepared.load())
    }

    /// Ends the legacy session, if there is one.
    pub(crate) async fn close(&self) {
        if self.0.session.get().is_some() {
            let delete = self.0.endpoint.delete(self.session_headers());
            let _ = tokio::time::timeout(DELETE_TIMEOUT, delete).await;
        }
    }

    /// The headers of requests without a message.
    fn session_headers(&self) -> HeaderMap {
        let mut headers = self.0.endpoint.headers();
        self.add_session(&mut headers);
        headers
    }

    fn add_session(&self, headers: &mut HeaderMap) {
        for (name, value) in [(SESSION, &self.0.session), (REVISION, &self.0.revision)] {
            value.get().map(|value| headers.insert(name, value.clone()));
        }
    }

    /// Keeps no cookies of the server.
    pub(crate) fn refuse_cookies(&self) {
        self.0.endpoint.refuse_cookies();
    }

    /// True if the server gave a session id.
    pub(crate) fn has_session(&self) -> bool {
        self.0.session.get().is_some()
    }
}

/// A request under way at a legacy server. Dropped before its answer, it sends `notifications/cancelled`: a
/// closed stream means nothing to such a server.
struct CancelOnDrop {
    http: Option<Http>,
    id: u64,
}

impl CancelOnDrop {
    /// Ends the request: there is nothing to cancel any more.
    fn settle(&mut self) {
        self.http = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let (Some(http), Ok(runtime)) = (self.http.take(), tokio::runtime::Handle::try_current()) {
            let message = inbound::cancelled(self.id);
            runtime.spawn(async move { http.notify(message).await });
        }
    }
}
