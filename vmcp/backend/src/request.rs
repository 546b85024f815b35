//! What a caller asks of a backend, and what comes back.

pub(crate) mod call_error;
pub(crate) mod event;
pub(crate) mod outcome;

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use vmcp_wire::era::Era;
use vmcp_wire::meta::Trace;

pub use crate::request::call_error::CallError;
pub use crate::request::event::{Downstream, Event, Question, SessionId};
pub use crate::request::outcome::RpcOutcome;

/// Tool calls may take this long by default (GMT-23).
pub const DEFAULT_DEADLINE: Duration = Duration::from_mins(1);

/// One request to a backend. Names in `params` are already the backend's own.
#[derive(Debug)]
pub struct Request<'a> {
    /// JSON-RPC method, e.g. `tools/call`.
    pub method: &'a str,
    /// The params object. Reserved `_meta` keys of the client are replaced, everything else travels byte for byte.
    pub params: &'a RawValue,
    /// Value of the `Mcp-Name` header of a modern backend: the tool's or prompt's name, the resource's URI.
    pub subject: Option<&'a str>,
    /// `Mcp-Param-*` headers of a modern backend as (full header name, encoded value).
    pub param_headers: Vec<(String, String)>,
    /// How long the backend may take. Progress notifications start it anew, up to `BackendSettings::max_call`.
    pub deadline: Duration,
    /// W3C trace context, sent as HTTP headers and in `_meta`.
    pub trace: Trace<'a>,
    /// Who asks, as far as a modern backend is told.
    pub client: ClientFacts,
    /// The client's session. A backend that keeps state has one session of its own for each.
    pub session: Option<SessionId>,
    /// Receives, in order, what the backend sends before its answer: notifications carrying the caller's own progress
    /// token, and questions. `None`: the caller can take neither.
    pub events: Option<mpsc::Sender<Event>>,
    /// Cancels the request here and at the backend.
    pub cancel: CancellationToken,
    /// The request may be sent again after a connection died under it (reads, tools annotated idempotent). Others
    /// are sent again only when the backend provably did not execute them (GOB-24).
    pub idempotent: bool,
}

impl<'a> Request<'a> {
    /// A request with the default deadline and nothing else set.
    pub fn new(method: &'a str, params: &'a RawValue) -> Self {
        Self {
            method,
            params,
            subject: None,
            param_headers: Vec::new(),
            deadline: DEFAULT_DEADLINE,
            trace: Trace::default(),
            client: ClientFacts::default(),
            session: None,
            events: None,
            cancel: CancellationToken::new(),
            idempotent: false,
        }
    }
}

/// What a backend is told about the client: a modern one with each request, a legacy one that keeps state when the client's
/// session is opened there. Questions of a legacy backend are asked only if `capabilities` declare them.
#[derive(Clone, Debug, Default)]
pub struct ClientFacts {
    /// `clientInfo`; ours when absent.
    pub info: Option<Arc<RawValue>>,
    /// `clientCapabilities`: only what the caller can relay; `{}` when absent.
    pub capabilities: Option<Arc<RawValue>>,
    /// The log level that the client set, for this request or for its session. Without it a client that has no session gets
    /// no log messages.
    pub log_level: Option<Arc<str>>,
}

/// What a backend answered, and in which era's terms; the caller translates it for its client.
#[derive(Debug)]
pub struct Response {
    /// The result or error object, byte for byte.
    pub outcome: RpcOutcome,
    /// Era that the backend speaks.
    pub era: Era,
}

/// `{}`.
pub(crate) fn empty_object() -> &'static RawValue {
    // `null` cannot happen, and would be refused by whoever reads it.
    serde_json::from_str("{}").unwrap_or(RawValue::NULL)
}
