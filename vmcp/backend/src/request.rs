//! Requests of callers and their answers: the vocabulary that every other room of this crate shares.

pub(crate) mod arriving;
pub(crate) mod call_error;
pub(crate) mod client_instance;
pub(crate) mod connection_observer;
pub(crate) mod credentials;
pub(crate) mod event;
pub(crate) mod event_queue;
pub(crate) mod outcome;
pub(crate) mod principal;
pub(crate) mod server_network;
pub(crate) mod transmission;

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use vmcp_wire::era::Era;
use vmcp_wire::meta::Trace;
use vmcp_wire::owned::OwnedParams;

pub use crate::request::arriving::{ArrivingRest, ArrivingResult};
pub use crate::request::call_error::{CallError, Denier, Detail};
pub use crate::request::client_instance::ClientInstance;
pub use crate::request::connection_observer::{ConnectionObserver, EndedSession};
pub use crate::request::credentials::{
    CredentialError, CredentialSource, SharedCredentials, UnprovedRequest,
};
pub(crate) use crate::request::event::OWN_SESSION;
pub use crate::request::event::{Downstream, Event, Question, SessionId};
pub use crate::request::event_queue::{EventMap, EventReceiver, EventSender, NotQueued, event_queue};
pub use crate::request::outcome::{RpcOutcome, uncollected};
pub use crate::request::principal::Principal;
pub use crate::request::server_network::ServerNetwork;
pub use crate::request::transmission::Transmission;

/// Default of [`Request::deadline`]: one minute without answer or progress.
pub const DEFAULT_DEADLINE: Duration = Duration::from_mins(1);

/// One request to a backend.
#[derive(Debug)]
pub struct Request<'a> {
    /// JSON-RPC method, e.g. `tools/call`.
    pub method: &'a str,
    /// The params object, under the client's or the backend's names. Reserved `_meta` keys are replaced, the
    /// rest travels byte for byte.
    pub params: &'a OwnedParams,
    /// The backend's own name for the tool, prompt, resource or task in question: replaces the client's in
    /// the params, and is the value of the `Mcp-Name` header of a modern backend.
    pub subject: Option<&'a str>,
    /// `Mcp-Param-*` headers of a modern backend as (full header name, encoded value).
    pub param_headers: Vec<(String, String)>,
    /// Time for the backend to answer. Progress notifications start it again, up to
    /// [`BackendSettings::max_call`](crate::BackendSettings::max_call).
    pub deadline: Duration,
    /// True if the caller has set a deadline shorter than the backend's own: its expiry is no failure of the
    /// backend, and does not open the circuit breaker for others.
    pub hasty: bool,
    /// W3C trace context, sent as HTTP headers and in `_meta`.
    pub trace: Trace<'a>,
    /// The principal whose credentials the request carries.
    pub principal: Principal,
    /// Source of the headers that prove the client's right. `None`: those of the backend's own, in
    /// [`BackendSettings::credentials`](crate::BackendSettings::credentials); refused for a client if the
    /// backend's configuration gives each client credentials of its own.
    pub credentials: Option<SharedCredentials>,
    /// The client that asks, as far as backends are told.
    pub client: ClientFacts,
    /// The client's session. A backend that keeps state has one session of its own for each.
    pub session: Option<SessionId>,
    /// Receives, in order, what the backend sends before its answer: notifications carrying the caller's own
    /// progress token, and questions. `None`: the caller can take neither.
    pub events: Option<EventSender>,
    /// Cancels the request here and at the backend.
    pub cancel: CancellationToken,
    /// True if the request may be sent again after a connection died under it (reads, tools annotated
    /// idempotent). Other requests are sent again only if the backend provably did not execute them.
    pub idempotent: bool,
    /// True if the caller can take a large result while it arrives, as [`RpcOutcome::Arriving`].
    pub stream: bool,
}

impl<'a> Request<'a> {
    /// A request with the default deadline and nothing else set.
    pub fn new(method: &'a str, params: &'a OwnedParams) -> Self {
        Self {
            method,
            params,
            subject: None,
            param_headers: Vec::new(),
            deadline: DEFAULT_DEADLINE,
            hasty: false,
            trace: Trace::default(),
            principal: Principal::default(),
            credentials: None,
            client: ClientFacts::default(),
            session: None,
            events: None,
            cancel: CancellationToken::new(),
            idempotent: false,
            stream: false,
        }
    }
}

/// Facts about the client for the backend: told to a modern backend with each request, to a legacy one that
/// keeps state when the client's session is opened there. A legacy backend's questions are asked only if
/// `capabilities` declare them.
#[derive(Clone, Debug, Default)]
pub struct ClientFacts {
    /// `clientInfo`; vmcp's own if absent.
    pub info: Option<Arc<RawValue>>,
    /// `clientCapabilities`: only those whose questions the caller can relay; `{}` if absent.
    pub capabilities: Option<Arc<RawValue>>,
    /// The log level that the client set, for this request or for its session. Without it a client that has
    /// no session gets no log messages.
    pub log_level: Option<Arc<str>>,
    /// The running copy of the client's program, where the client has no session. No backend is told.
    pub instance: ClientInstance,
}

impl ClientFacts {
    /// True for two requests of one running copy of a client that has no session.
    pub(crate) fn is_same_client(&self, other: &Self) -> bool {
        fn name(facts: &ClientFacts) -> Option<&str> {
            facts.info.as_deref().map(RawValue::get)
        }
        self.instance == other.instance
            && self.instance != ClientInstance::Unknown
            && name(self) == name(other)
    }
}

/// A client that subscribes to a resource.
#[derive(Clone, Debug, Default)]
pub struct Subscriber {
    /// The client's session.
    pub session: Option<SessionId>,
    /// The principal that it belongs to.
    pub principal: Principal,
    /// [`Request::credentials`].
    pub credentials: Option<SharedCredentials>,
    /// Facts that the backend may be told about it.
    pub client: ClientFacts,
}

/// The answer of a backend in the terms of its own era; the caller translates it for its client.
#[derive(Debug)]
pub struct Response {
    /// The result or error object, byte for byte.
    pub outcome: RpcOutcome,
    /// The era that the backend speaks.
    pub era: Era,
}

/// The JSON object `{}`.
pub(crate) fn empty_object() -> &'static RawValue {
    // Parsing `{}` cannot fail; `null` would be refused by every reader.
    serde_json::from_str("{}").unwrap_or(RawValue::NULL)
}
