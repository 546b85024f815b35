//! Errors of one exchange with a backend, as the connection sees them; [`CallError`] is what a caller gets.

use std::time::Duration;

use http::StatusCode;
use thiserror::Error;

use crate::policy::breaker::Verdict;
use crate::request::CallError;

/// Failure of one exchange. `Display` is safe to show to clients; [`LinkError::detail`] is for operators and
/// may name hosts and show what a server printed.
#[derive(Clone, Debug, Error)]
pub(crate) enum LinkError {
    /// The transport could not connect; nothing was sent.
    #[error("cannot connect")]
    Connect { detail: String },
    #[error("connection timeout")]
    ConnectTimeout { after: Duration },
    /// The connection ended under a request, which may or may not have been executed.
    #[error("the connection ended before the answer")]
    Closed { detail: String },
    /// The link was already closed when the request came; nothing was sent.
    #[error("the connection has ended")]
    Gone { detail: String },
    /// The server does not know the session, or the era, any more; nothing was executed.
    #[error("the session has ended")]
    SessionLost,
    /// 401 or 403.
    #[error("credentials were refused (HTTP {})", .0.as_u16())]
    Refused(StatusCode),
    #[error("HTTP status {}", .0.as_u16())]
    Status(StatusCode),
    /// The answer is not MCP.
    #[error("{0}")]
    Protocol(String),
    /// The request cannot be written.
    #[error("{0}")]
    Unsendable(String),
    #[error("the answer exceeds the limit of {limit} bytes")]
    TooLarge { limit: usize },
    /// There is no connection at present, and `fail_fast` lets no caller wait for one.
    #[error("the server has ended and is being started again")]
    Down,
    #[error("the backend was stopped")]
    Stopped,
}

impl LinkError {
    /// True if the backend cannot have executed the request, so that sending it again is safe.
    pub(crate) fn nothing_executed(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Gone { .. } | Self::SessionLost)
    }

    /// True if the request may have been executed and its answer is lost.
    pub(crate) fn answer_lost(&self) -> bool {
        matches!(self, Self::Closed { .. })
    }

    /// The error as the circuit breaker counts it.
    pub(crate) fn verdict(&self) -> Verdict {
        match self {
            Self::TooLarge { .. } => Verdict::Healthy,
            Self::Unsendable(_) => Verdict::Unknown,
            _ => Verdict::Failed,
        }
    }

    /// The error with its details, for `BackendStatus::last_error` and logs.
    pub(crate) fn detail(&self) -> String {
        match self {
            Self::Connect { detail } | Self::Closed { detail } | Self::Gone { detail } => {
                format!("{self}: {detail}")
            }
            Self::ConnectTimeout { after } => format!("{self} after {after:?}"),
            _ => self.to_string(),
        }
    }
}

impl From<LinkError> for CallError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Protocol(reason) => Self::Protocol { reason },
            LinkError::Unsendable(reason) => Self::InvalidRequest { reason },
            LinkError::TooLarge { limit } => Self::TooLarge { limit },
            other => Self::Unavailable { reason: other.to_string() },
        }
    }
}
