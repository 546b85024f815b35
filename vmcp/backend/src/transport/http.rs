//! Streamable HTTP transport, both eras: one POST a request, answered as JSON or as a stream of server-sent
//! events.

mod receive;
mod stream;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use vmcp_wire::era::{Era, Revision};
use vmcp_wire::{headers, methods};

use crate::inbound::{self, Inbound};
use crate::request::{Principal, Request, RpcOutcome};
use crate::transport::body;
use crate::transport::endpoint::Endpoint;
use crate::transport::link_error::LinkError;
use crate::transport::prepared_request::PreparedRequest;

const SESSION: HeaderName = HeaderName::from_static(headers::SESSION_ID);
const REVISION: HeaderName = HeaderName::from_static(headers::PROTOCOL_VERSION);
const LAST_EVENT: HeaderName = HeaderName::from_static(headers::LAST_EVENT_ID);
/// Time for the DELETE that ends a session; a server that misses it forgets the session by itself.
const DELETE_TIMEOUT: Duration = Duration::from_secs(1);

/// One session's link to a server. Cheap to clone: tasks of their own send replies and cancellations.
#[derive(Clone, Debug)]
pub(crate) struct Http(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    endpoint: Endpoint,
    inbound: Arc<Inbound>,
    limit: usize,
    closed: CancellationToken,
    /// Permits for answers on their way to the server.
    answers: Arc<Semaphore>,
    /// Header values that a legacy server wants on each request after `initialize`; only servers that keep
    /// state give a session.
    session: OnceLock<HeaderValue>,
    revision: OnceLock<HeaderValue>,
}

impl Http {
    pub(crate) fn new(
        endpoint: Endpoint,
        inbound: Arc<Inbound>,
        limit: usize,
        closed: CancellationToken,
    ) -> Self {
        let (session, revision) = (OnceLock::new(), OnceLock::new());
        let answers = Arc::new(Semaphore::new(stream::MAX_ANSWERS));
        Self(Arc::new(Inner { endpoint, inbound, limit, closed, answers, session, revision }))
    }

    /// A link of its own to the same server, without a session yet.
    pub(crate) fn sibling(&self, inbound: Arc<Inbound>, closed: CancellationToken) -> Self {
        Self::new(self.0.endpoint.clone(), inbound, self.0.limit, closed)
    }

    pub(crate) async fn exchange(&self, outgoing: PreparedRequest<'_>) -> Result<RpcOutcome, LinkError> {
        let PreparedRequest { id, message, request, revision } = outgoing;
        let headers = self.headers(request, revision)?;
        // A modern server takes the closed stream as the cancellation.
        let cancellable = revision.era() == Era::Legacy && request.method != methods::INITIALIZE;
        let mut ticket = CancelOnDrop { http: cancellable.then_some(self), id };
        let response = self.0.endpoint.post(headers, message).await;
        let answer = match response {
            Ok(response) => self.answer(id, request.method, revision.era(), response).await,
            Err(error) => Err(error),
        };
        ticket.http = None;
        answer
    }

    pub(crate) async fn notify(&self, message: Bytes) -> Result<(), LinkError> {
        let response = self.0.endpoint.post(self.session_headers(Principal::default()), message).await?;
        let status = response.status();
        body::drain(response.into_body());
        if status.is_success() { Ok(()) } else { Err(LinkError::Status(status)) }
    }

    /// Remembers the revision that a legacy server negotiated; every later request carries it.
    pub(crate) fn negotiated(&self, revision: Revision) {
        let _ = self.0.revision.set(HeaderValue::from_static(revision.as_str()));
    }

    /// Ends the legacy session, if there is one.
    pub(crate) async fn close(&self) {
        if self.0.session.get().is_some() {
            let delete = self.0.endpoint.delete(self.session_headers(Principal::default()));
            let _ = tokio::time::timeout(DELETE_TIMEOUT, delete).await;
        }
    }

    fn session_headers(&self, principal: Principal) -> HeaderMap {
        let mut headers = self.0.endpoint.headers(principal);
        for (name, value) in [(SESSION, &self.0.session), (REVISION, &self.0.revision)] {
            value.get().map(|value| headers.insert(name, value.clone()));
        }
        headers
    }

    fn headers(&self, request: &Request<'_>, revision: Revision) -> Result<HeaderMap, LinkError> {
        let mut all = match revision.era() {
            Era::Legacy => self.session_headers(request.principal),
            Era::Modern => self.0.endpoint.headers(request.principal),
        };
        let mut add = |name: &str, value: &str| {
            let name = HeaderName::from_bytes(name.as_bytes()).ok();
            let pair = name.zip(HeaderValue::from_str(value).ok());
            pair.map(|(name, value)| all.insert(name, value)).is_some()
        };
        // A trace that is no valid header value is left out; the call is worth more.
        let trace = &request.trace;
        for (name, value) in [
            ("traceparent", &trace.traceparent),
            ("tracestate", &trace.tracestate),
            ("baggage", &trace.baggage),
        ] {
            value.as_deref().map(|value| add(name, value));
        }
        if revision.era() == Era::Modern {
            let standard = headers::build(revision, request.method, request.subject);
            let params = request.param_headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            for (name, value) in standard.iter().map(|(name, value)| (*name, value.as_str())).chain(params) {
                if !add(name, value) {
                    return Err(LinkError::Unsendable(format!("{name} is no header value")));
                }
            }
        }
        Ok(all)
    }

    /// True if the server gave a session id.
    pub(crate) fn has_session(&self) -> bool {
        self.0.session.get().is_some()
    }
}

/// A request under way at a legacy server. Dropped before its answer, it sends `notifications/cancelled`: a
/// closed stream means nothing to such a server.
struct CancelOnDrop<'a> {
    http: Option<&'a Http>,
    id: u64,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let (Some(http), Ok(runtime)) = (self.http.cloned(), tokio::runtime::Handle::try_current()) {
            let message = inbound::cancelled(self.id);
            runtime.spawn(async move { http.notify(message).await });
        }
    }
}
