//! Errors of a call, as its caller sees them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::request::transmission::Transmission;

/// More about a failed call: hosts, and words of the server. Part of the error's text only once it is
/// [shown](CallError::show_detail): not each client may read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// Written behind the error's text, its separator included.
    addition: Box<str>,
    is_shown: bool,
}

impl Detail {
    /// Details that are not shown yet.
    pub(crate) fn new(addition: String) -> Self {
        Self { addition: addition.into(), is_shown: false }
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_shown { &self.addition } else { "" })
    }
}

/// The source of a denial that the caller may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denier {
    /// The decision point.
    DecisionPoint,
    /// The webhook of this name.
    Webhook(Arc<str>),
    /// The policy, about the arguments that the webhook of this name changed.
    PolicyAfter(Arc<str>),
    /// The tool's input schema, about the arguments that the webhook of this name changed.
    MisfitAfter(Arc<str>),
}

impl fmt::Display for Denier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denier::DecisionPoint => f.write_str("the decision point"),
            Denier::Webhook(name) => write!(f, "the webhook `{name}`"),
            Denier::PolicyAfter(name) => {
                write!(f, "the policies, about the arguments as the webhook `{name}` changed them,")
            }
            Denier::MisfitAfter(name) => {
                write!(f, "the input schema, about the arguments as the webhook `{name}` changed them,")
            }
        }
    }
}

/// The reason why a call has no answer. No variant shows a URL, a port, a command or the output of a server,
/// unless its [`Detail`] is shown.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CallError {
    /// Neither answer nor progress came within the deadline; the backend was told to stop.
    #[error("no answer within {} seconds{detail}", after.as_secs_f64())]
    Timeout {
        /// The limit that was reached: the request's deadline, or
        /// [`BackendSettings::max_call`](crate::BackendSettings::max_call) if progress kept coming.
        after: Duration,
        /// [`Transmission::NotSent`] if the call waited for a connection all the time.
        transmission: Transmission,
        /// Output of the server meanwhile that is not a message.
        detail: Detail,
    },
    /// The circuit breaker is open: nothing was sent.
    #[error("circuit open after repeated failures, next try in {} seconds", retry_in.as_secs().max(1))]
    CircuitOpen {
        /// Time until a call will be let through again.
        retry_in: Duration,
    },
    /// A rate limit is reached: nothing was sent.
    #[error("the rate limit of {scope} is reached, try again in {} seconds", seconds_up(*retry_after))]
    RateLimited {
        /// The calls that are limited, in words.
        scope: &'static str,
        /// Time until such a call will be let through again.
        retry_after: Duration,
    },
    /// The call needs the user's confirmation and did not get it: nothing was sent.
    #[error("not called, for it needs the user's confirmation: {reason}")]
    NotConfirmed {
        /// Short reason.
        reason: String,
    },
    /// A decision beside the policy denied the call: nothing was sent.
    #[error("not permitted by {by} of this server{}", because(reason.as_deref()))]
    Denied {
        /// The service that denied it.
        by: Denier,
        /// Its reason, if clients may read it.
        reason: Option<String>,
    },
    /// A webhook withholds the answer. The backend has answered.
    #[error("called, but the webhook `{webhook}` of this server withholds the result{}", because(reason.as_deref()))]
    Withheld {
        /// The webhook's configured name.
        webhook: Arc<str>,
        /// Its reason, if clients may read it.
        reason: Option<String>,
    },
    /// The client's token lacks scopes that the tool needs: nothing was sent.
    #[error(
        "the token lacks the scope {}; sign in again and ask for the scopes {}",
        missing.join(" "),
        ask_for.join(" ")
    )]
    InsufficientScope {
        /// Scopes that the tool needs and the token does not have.
        missing: Vec<String>,
        /// Scopes that a new token needs to do what the present one can, and this call.
        ask_for: Vec<String>,
    },
    /// The backend cannot be reached, refused the connection, or went away under the call.
    #[error("backend unavailable: {reason}{detail}")]
    Unavailable {
        /// Short reason.
        reason: String,
        /// Part of its way that the call made.
        transmission: Transmission,
        /// The cause, as the server or the system tells it.
        detail: Detail,
    },
    /// The backend answered something that is not MCP.
    #[error("backend broke the protocol: {reason}{detail}")]
    Protocol {
        /// Short reason.
        reason: String,
        /// The beginning of what it answered.
        detail: Detail,
    },
    /// The request cannot be sent as it is; nothing was.
    #[error("the request cannot be sent: {reason}")]
    InvalidRequest {
        /// Short reason.
        reason: String,
    },
    /// The caller's token was cancelled; the backend was told to stop.
    #[error("cancelled by the caller")]
    Cancelled {
        /// Part of its way that the call had made.
        transmission: Transmission,
    },
    /// The answer is larger than
    /// [`BackendSettings::max_message_bytes`](crate::BackendSettings::max_message_bytes).
    #[error("the backend's answer exceeds the limit of {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// vmcp holds as many bytes of requests and answers as it may; the answer was dropped.
    #[error(
        "vmcp has no room for the answer: requests and answers in memory are at the limit of {limit} bytes"
    )]
    Overloaded {
        /// The limit in bytes, `server.maxBufferedBytes`.
        limit: usize,
    },
}

/// The end of a sentence that gives a reason.
fn because(reason: Option<&str>) -> String {
    reason.map(|reason| format!(": {reason}")).unwrap_or_default()
}

/// Whole seconds, at least as long as `wait`.
fn seconds_up(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0 || wait.is_zero())
}

impl CallError {
    /// An error of a call that never left.
    pub fn unsent(reason: impl Into<String>) -> Self {
        let (transmission, detail) = (Transmission::NotSent, Detail::default());
        Self::Unavailable { reason: reason.into(), transmission, detail }
    }

    /// An answer that is not MCP, for this reason.
    pub fn protocol(reason: impl Into<String>) -> Self {
        Self::Protocol { reason: reason.into(), detail: Detail::default() }
    }

    /// The end of a call after this time.
    pub fn timeout(after: Duration, transmission: Transmission) -> Self {
        Self::Timeout { after, transmission, detail: Detail::default() }
    }

    /// Makes the details part of the error's text, at most `characters` of them; returns false if there are
    /// none. For clients that may know hosts and words of servers.
    pub fn show_detail(&mut self, characters: usize) -> bool {
        let (Self::Timeout { detail, .. } | Self::Unavailable { detail, .. } | Self::Protocol { detail, .. }) =
            self
        else {
            return false;
        };
        detail.addition = detail.addition.chars().take(characters).collect();
        detail.is_shown = true;
        !detail.addition.is_empty()
    }

    /// The error with its details, for operators.
    #[must_use]
    pub fn detailed(&self) -> String {
        let mut error = self.clone();
        error.show_detail(usize::MAX);
        error.to_string()
    }

    /// The variant's name for metrics and error envelopes; one of thirteen values.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Timeout { .. } => "timeout",
            Self::CircuitOpen { .. } => "circuit_open",
            Self::RateLimited { .. } => "rate_limited",
            Self::NotConfirmed { .. } => "not_confirmed",
            Self::Denied { .. } => "denied",
            Self::Withheld { .. } => "withheld",
            Self::InsufficientScope { .. } => "insufficient_scope",
            Self::Unavailable { .. } => "unavailable",
            Self::Protocol { .. } => "protocol",
            Self::InvalidRequest { .. } => "invalid_request",
            Self::Cancelled { .. } => "cancelled",
            Self::TooLarge { .. } => "too_large",
            Self::Overloaded { .. } => "overloaded",
        }
    }

    /// Time after which the call may succeed, in whole seconds, if that is known.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        match self {
            Self::CircuitOpen { retry_in: wait } | Self::RateLimited { retry_after: wait, .. } => {
                Some(seconds_up(*wait))
            }
            _ => None,
        }
    }

    /// Part of its way that the call made: tells a caller whether it may try again, or elsewhere.
    pub fn transmission(&self) -> Transmission {
        match self {
            Self::Timeout { transmission, .. }
            | Self::Unavailable { transmission, .. }
            | Self::Cancelled { transmission } => *transmission,
            Self::CircuitOpen { .. }
            | Self::RateLimited { .. }
            | Self::NotConfirmed { .. }
            | Self::Denied { .. }
            | Self::InsufficientScope { .. }
            | Self::InvalidRequest { .. } => Transmission::NotSent,
            Self::Protocol { .. }
            | Self::TooLarge { .. }
            | Self::Overloaded { .. }
            | Self::Withheld { .. } => Transmission::Sent,
        }
    }
}
