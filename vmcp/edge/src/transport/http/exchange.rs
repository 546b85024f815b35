//! A request on its way through the layers of the client port: [`Arrival`], [`Authenticated`], [`Admitted`],
//! [`Received`]. Each layer adds one fact, and the next one cannot be called without it.

use std::borrow::Cow;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use hyper::body::Incoming;
use vmcp_config::Config;

use super::activity::ActiveRequest;
use super::client_body::ClientBody;
use super::request_permit::RequestPermit;
use crate::session::connection_id::ConnectionId;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::Snapshot;

/// The answer of every layer.
pub(crate) type Response = http::Response<ClientBody>;

/// One step of serving a request: answers it, or hands it to the service inside.
pub(crate) trait Service<Request>: Send + Sync + 'static {
    /// Serves one request.
    fn call(&self, request: Request) -> impl Future<Output = Response> + Send;
}

impl<Request: Send + 'static, S: Service<Request>> Service<Request> for Arc<S> {
    async fn call(&self, request: Request) -> Response {
        S::call(self, request).await
    }
}

/// An HTTP API beside MCP on the client port.
pub(crate) trait PlainApi: Send + Sync + 'static {
    /// Name of the API in rate limits.
    const NAME: &'static str;

    /// True if the API is switched on and has this path.
    fn serves(config: &Config, path: &str) -> bool;

    /// Returns the request's name in rate limits and audit events.
    fn request_name(head: &Parts) -> Cow<'static, str>;

    /// True if the API reads the body of a POST; other bodies are dropped.
    const TAKES_BODY: bool = false;

    /// Answers a request whose path it serves. `body` is empty unless the API takes it.
    fn answer(
        &self,
        head: &Parts,
        body: &Bytes,
        principal: &Principal,
        snapshot: &Arc<Snapshot>,
    ) -> impl Future<Output = Response> + Send;
}

/// A request whose head has arrived. The body is unread.
pub(crate) struct Arrival {
    /// Boxed: each layer keeps a request while the next one serves it.
    pub(crate) head: Box<Parts>,
    pub(crate) body: Incoming,
    /// Keeps the connection awake until the body has been read.
    pub(crate) reading: ActiveRequest,
    /// Address of the client.
    pub(crate) from: IpAddr,
    /// Port of the client, where its address is the other end of the connection.
    pub(crate) port: Option<u16>,
    pub(crate) connection: ConnectionId,
    /// The snapshot by which this request is served from begin to end.
    pub(crate) snapshot: Arc<Snapshot>,
}

/// A request whose sender is known.
pub(crate) struct Authenticated {
    pub(crate) arrival: Arrival,
    pub(crate) principal: Principal,
}

/// A request within the limits of its principal.
pub(crate) struct Admitted {
    pub(crate) arrival: Arrival,
    pub(crate) principal: Principal,
    /// Counts what the request holds; `None` for requests that open or end streams.
    pub(crate) permit: Option<RequestPermit>,
}

/// A request with its whole body.
pub(crate) struct Received {
    pub(crate) head: Box<Parts>,
    pub(crate) principal: Principal,
    /// The body; empty unless the request is a POST. The bytes count in the budget of the process, and their
    /// request at its principal, until the last reference to them is gone.
    pub(crate) body: Bytes,
    /// Port of the client, where its address is the other end of the connection.
    pub(crate) port: Option<u16>,
    pub(crate) connection: ConnectionId,
    pub(crate) snapshot: Arc<Snapshot>,
}
