//! Errors of a call, as its caller sees them.

use std::time::Duration;

use thiserror::Error;

/// The reason why a call has no answer. No variant shows a URL, a port, a command or the output of a server;
/// those are for operators, in `BackendStatus::last_error`.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CallError {
    /// Neither answer nor progress came within the deadline; the backend was told to stop.
    #[error("no answer within {} seconds", after.as_secs_f64())]
    Timeout {
        /// The limit that was reached: the request's deadline, or
        /// [`BackendSettings::max_call`](crate::BackendSettings::max_call) if progress kept coming.
        after: Duration,
    },
    /// The circuit breaker is open: nothing was sent.
    #[error("circuit open after repeated failures, next try in {} seconds", retry_in.as_secs().max(1))]
    CircuitOpen {
        /// Time until a call will be let through again.
        retry_in: Duration,
    },
    /// The backend cannot be reached, refused the connection, or went away under the call.
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
    /// The answer is larger than
    /// [`BackendSettings::max_message_bytes`](crate::BackendSettings::max_message_bytes).
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
