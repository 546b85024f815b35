//! What a caller asks of a backend, and what comes back.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use vmcp_wire::era::Era;
use vmcp_wire::meta::Trace;
use vmcp_wire::payload::{Payload, Reply};

use crate::event::{Event, SessionId};

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
    pub routing_name: Option<&'a str>,
    /// `Mcp-Param-*` headers of a modern backend as (full header name, encoded value).
    pub param_headers: Vec<(String, String)>,
    /// How long the backend may take. Progress notifications start it anew, up to `Settings::max_call`.
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
            routing_name: None,
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
    pub outcome: Outcome,
    /// Era that the backend speaks.
    pub era: Era,
}

/// The `result` or the `error` of a JSON-RPC response.
#[derive(Debug)]
pub enum Outcome {
    /// The `result` member.
    Result(Payload),
    /// The `error` member. The backend is alive; this is not a failure of the connection.
    Error(Payload),
}

impl Outcome {
    /// A result.
    pub fn result(result: &RawValue) -> Self {
        Self::Result(result.to_owned().into())
    }

    /// An error.
    pub fn error(error: &RawValue) -> Self {
        Self::Error(error.to_owned().into())
    }
}

impl From<Reply> for Outcome {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Result(result) => Self::Result(result),
            Reply::Error(error) => Self::Error(error),
        }
    }
}

/// Why there is no answer. No variant shows a URL, a port, a command or what a server printed; `Status::last_error`
/// has those for operators.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CallError {
    /// No answer and no progress within the deadline; the backend was told to stop.
    #[error("no answer within {} seconds", after.as_secs_f64())]
    Timeout {
        /// The limit that was reached: the request's deadline, or `Settings::max_call` if it kept reporting progress.
        after: Duration,
    },
    /// The breaker is open: nothing was sent.
    #[error("circuit open after repeated failures, next try in {} seconds", retry_in.as_secs().max(1))]
    CircuitOpen {
        /// When a call will be let through again.
        retry_in: Duration,
    },
    /// The backend cannot be reached, refused us, or went away under the call.
    #[error("backend unavailable: {reason}")]
    Unavailable {
        /// Short reason.
        reason: String,
    },
    /// The backend answered something that is not MCP.
    #[error("backend broke the protocol: {reason}")]
    Protocol {
        /// Short reason.
        reason: String,
    },
    /// The request cannot be sent as it is; nothing was.
    #[error("the request cannot be sent: {reason}")]
    InvalidRequest {
        /// Short reason.
        reason: String,
    },
    /// The caller's token was cancelled; the backend was told to stop.
    #[error("cancelled by the caller")]
    Cancelled,
    /// The answer is larger than `Settings::max_message_bytes`.
    #[error("the backend's answer exceeds the limit of {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
}

impl CallError {
    /// The variant's name for metrics and error envelopes; one of seven values.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Timeout { .. } => "timeout",
            Self::CircuitOpen { .. } => "circuit_open",
            Self::Unavailable { .. } => "unavailable",
            Self::Protocol { .. } => "protocol",
            Self::InvalidRequest { .. } => "invalid_request",
            Self::Cancelled => "cancelled",
            Self::TooLarge { .. } => "too_large",
        }
    }
}
