//! Errors of one exchange with a backend, as the connection sees them; [`CallError`] is what a caller gets.

mod http_refusal;
mod server_words;
mod session_doubt;

use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, StatusCode};
use serde_json::value::RawValue;
use thiserror::Error;
use vmcp_wire::payload::Payload;

use crate::policy::breaker::Verdict;
use crate::policy::byte_budget::ByteBudgetExhausted;
use crate::request::{CallError, CredentialError, Detail, RpcOutcome, Transmission};

pub(crate) use self::http_refusal::{HttpRefusal, telling};
pub(super) use self::server_words::MAX_READ_BYTES;
pub(crate) use self::server_words::{Secrets, ServerWords, without_escapes};
pub(crate) use self::session_doubt::SessionDoubt;

/// Failure of one exchange. `Display` is safe to show to clients; [`LinkError::detail`] is for operators and
/// may name hosts and show what a server printed.
#[derive(Clone, Debug, Error)]
pub(crate) enum LinkError {
    /// The transport could not connect; nothing was sent.
    #[error("cannot connect")]
    Connect { detail: String },
    #[error("connection timeout")]
    ConnectTimeout { detail: String },
    /// The connection ended under a request, which may or may not have been executed.
    #[error("the connection ended before the answer")]
    Closed { detail: String },
    /// The link was already closed when the request came; nothing was sent.
    #[error("the connection has ended")]
    Gone { detail: String },
    /// The server does not know the session, or the era, any more, as a probe has confirmed; nothing was
    /// executed. The answer is for a caller whose next session ends alike: then the server refuses every
    /// request in these words.
    #[error("the session has ended")]
    SessionLost(Option<Box<RefusedAnswer>>),
    /// The server answered with this status, as it would for a session that it does not know; so may a proxy
    /// that dislikes the request, or a tool.
    #[error("HTTP status {}", status.as_u16())]
    SessionInDoubt {
        status: StatusCode,
        /// The error with which the server answered.
        error: Option<Box<RawValue>>,
        doubt: SessionDoubt,
        said: ServerWords,
    },
    /// The server refused the credentials, or the session: it speaks of sessions.
    #[error("{refused}")]
    RefusedInDoubt { refused: Box<Self>, doubt: SessionDoubt },
    /// 401 or 403.
    #[error("credentials were refused (HTTP {}){}{}", status.as_u16(), lacking(scopes), sign_in_hint(*.sign_in))]
    Refused {
        status: StatusCode,
        /// Scopes that the token lacks, as the server says (RFC 6750); empty if it says nothing.
        scopes: String,
        /// True if the server names an authorization server and no scopes: a person signs in there.
        sign_in: bool,
        said: ServerWords,
    },
    /// There are no credentials to send; nothing was sent.
    #[error(transparent)]
    Credentials(#[from] CredentialError),
    #[error("{0}")]
    Status(HttpRefusal),
    /// The answer is not MCP.
    #[error("{0}")]
    Protocol(String),
    /// The answer is not MCP, and this is how it begins.
    #[error("{reason}")]
    Unreadable { reason: &'static str, said: ServerWords },
    /// The server answered `initialize` with an error of JSON-RPC.
    #[error("initialize was refused")]
    InitializeRefused { error: Box<RawValue>, said: ServerWords },
    /// The request cannot be written.
    #[error("{0}")]
    Unsendable(String),
    #[error("the answer exceeds the limit of {limit} bytes")]
    TooLarge { limit: usize },
    /// The stream brings blank lines, comments, fields without data or pings, and no message.
    #[error(
        "the server floods its stream with bytes that are no message: blank lines, comments, events without \
         data or pings (at most {} KiB, and {} KiB a second)", burst / 1024, per_second / 1024
    )]
    Flood { burst: u64, per_second: u64 },
    /// vmcp itself has no room for the answer.
    #[error(transparent)]
    Overloaded(#[from] ByteBudgetExhausted),
    /// There is no connection at present, and `fail_fast` lets no caller wait for one.
    #[error("the server has ended and is being started again")]
    Down,
    #[error("the backend was stopped")]
    Stopped,
}

/// The answer to a request of a session that the server does not know.
#[derive(Clone, Debug)]
pub(crate) enum RefusedAnswer {
    /// An error of JSON-RPC.
    Error(Payload),
    Failure(LinkError),
}

/// Most bytes of scopes that are shown; longer ones are left out.
const MAX_SCOPE_BYTES: usize = 512;

/// Returns the scopes of a challenge `insufficient_scope`. Their characters are the ones of RFC 6749,
/// so that nothing else of a server gets into logs.
fn missing_scopes(challenge: &str) -> Option<&str> {
    let rest = challenge.contains("insufficient_scope").then_some(challenge)?;
    let scopes = rest.split_once("scope=\"")?.1.split_once('"')?.0;
    let is_plain = |byte: u8| byte == b' ' || (byte.is_ascii_graphic() && byte != b'\\' && byte != b'`');
    (scopes.len() <= MAX_SCOPE_BYTES && scopes.bytes().all(is_plain)).then_some(scopes)
}

fn lacking(scopes: &str) -> String {
    if scopes.is_empty() { String::new() } else { format!(": the token lacks the scope `{scopes}`") }
}

impl LinkError {
    /// Makes the error of a status 401 or 403, with the headers of that answer.
    pub(crate) fn refused(status: StatusCode, headers: &HeaderMap, said: ServerWords) -> Self {
        let challenges = || headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let scopes = challenges().find_map(missing_scopes).unwrap_or_default().to_owned();
        let names_server = challenges().any(|challenge| challenge.contains("resource_metadata"));
        let sign_in = status == StatusCode::UNAUTHORIZED && scopes.is_empty() && names_server;
        Self::Refused { status, scopes, sign_in, said }
    }

    /// Makes the error of a lost session from the server's answer.
    pub(crate) fn session_lost(answer: Result<RpcOutcome, Self>) -> Self {
        Self::SessionLost(match answer {
            Ok(RpcOutcome::Error(error)) => Some(Box::new(RefusedAnswer::Error(error))),
            Ok(RpcOutcome::Result(_) | RpcOutcome::Arriving(_)) => None,
            Err(error) => Some(Box::new(RefusedAnswer::Failure(error))),
        })
    }

    /// Returns the label of a failed attempt to connect, one of a fixed set.
    pub(crate) fn connect_reason(&self) -> &'static str {
        match self {
            Self::Connect { .. } => "connect",
            Self::ConnectTimeout { .. } => "timeout",
            Self::Closed { .. } | Self::Gone { .. } | Self::Down => "closed",
            Self::Credentials(_) => "credentials",
            Self::Refused { .. } | Self::RefusedInDoubt { .. } => "refused",
            Self::Status(_) | Self::SessionInDoubt { .. } | Self::SessionLost(_) => "status",
            Self::Protocol(_)
            | Self::Unreadable { .. }
            | Self::InitializeRefused { .. }
            | Self::Flood { .. } => "protocol",
            Self::Stopped => "stopped",
            Self::Unsendable(_) | Self::TooLarge { .. } | Self::Overloaded(_) => "other",
        }
    }

    /// Part of its way that the request made.
    pub(crate) fn transmission(&self) -> Transmission {
        match self {
            Self::Connect { .. }
            | Self::ConnectTimeout { .. }
            | Self::Gone { .. }
            | Self::SessionLost(_)
            | Self::RefusedInDoubt { .. }
            | Self::Refused { .. }
            | Self::Credentials(_)
            | Self::Unsendable(_)
            | Self::Down
            | Self::Stopped => Transmission::NotSent,
            Self::Closed { .. } => Transmission::Unknown,
            Self::SessionInDoubt { .. }
            | Self::Status(_)
            | Self::Protocol(_)
            | Self::Unreadable { .. }
            | Self::InitializeRefused { .. }
            | Self::TooLarge { .. }
            | Self::Flood { .. }
            | Self::Overloaded(_) => Transmission::Sent,
        }
    }

    /// True if the connection or the session has ended, so that the next request gets another.
    pub(crate) fn ends_connection(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Gone { .. } | Self::SessionLost(_) | Self::Closed { .. })
    }

    /// The error as the circuit breaker counts it. A backend that cannot be reached, dies, or says with a 5xx
    /// that it is broken, has failed. Errors that one bad request provokes (4xx), or one broken tool answers,
    /// say nothing about the backend.
    pub(crate) fn verdict(&self) -> Verdict {
        match self {
            Self::Connect { .. }
            | Self::ConnectTimeout { .. }
            | Self::Closed { .. }
            | Self::Gone { .. }
            | Self::Down => Verdict::Failed,
            Self::Status(refusal) if refusal.is_server_error() => Verdict::Failed,
            Self::TooLarge { .. } => Verdict::Healthy,
            Self::Status(_)
            | Self::SessionInDoubt { .. }
            | Self::RefusedInDoubt { .. }
            | Self::SessionLost(_)
            | Self::Refused { .. }
            | Self::Credentials(_)
            | Self::Protocol(_)
            | Self::Unreadable { .. }
            | Self::InitializeRefused { .. }
            | Self::Flood { .. }
            | Self::Unsendable(_)
            | Self::Overloaded(_)
            | Self::Stopped => Verdict::Unknown,
        }
    }

    /// A result that arrives although its reader takes it whole only.
    pub(crate) fn not_collected() -> Self {
        Self::Protocol("the result was not collected".to_owned())
    }

    /// The error with its details, for `BackendStatus::last_error` and logs.
    pub(crate) fn detail(&self) -> String {
        format!("{self}{}", self.addition())
    }

    /// The part of [`LinkError::detail`] behind the error's text.
    fn addition(&self) -> String {
        match self {
            Self::Connect { detail } | Self::Closed { detail } | Self::Gone { detail } => {
                format!(": {detail}")
            }
            Self::Credentials(error) if !error.detail.is_empty() => format!(" ({})", error.detail),
            Self::ConnectTimeout { detail } => format!(" {detail}"),
            Self::Status(HttpRefusal { said, .. })
            | Self::SessionInDoubt { said, .. }
            | Self::Refused { said, .. }
            | Self::Unreadable { said, .. }
            | Self::InitializeRefused { said, .. } => said.to_string(),
            _ => String::new(),
        }
    }
}

fn sign_in_hint(sign_in: bool) -> &'static str {
    if sign_in { ": the server wants a person to sign in" } else { "" }
}

impl From<LinkError> for CallError {
    fn from(error: LinkError) -> Self {
        let detail = Detail::new(error.addition());
        match error {
            LinkError::Protocol(_) | LinkError::Unreadable { .. } | LinkError::Flood { .. } => {
                Self::Protocol { reason: error.to_string(), detail }
            }
            LinkError::Unsendable(reason) => Self::InvalidRequest { reason },
            LinkError::TooLarge { limit } => Self::TooLarge { limit },
            LinkError::Overloaded(exhausted) => Self::Overloaded { limit: exhausted.limit },
            other => {
                Self::Unavailable { reason: other.to_string(), transmission: other.transmission(), detail }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_scopes_that_the_token_lacks() {
        let shown = |challenge: &'static str| {
            let headers = HeaderMap::from_iter([(WWW_AUTHENTICATE, challenge.parse().unwrap())]);
            LinkError::refused(StatusCode::FORBIDDEN, &headers, ServerWords::default()).to_string()
        };
        let plain = "credentials were refused (HTTP 403)";
        let lacking = shown(r#"Bearer error="insufficient_scope", scope="notes:write files""#);
        assert_eq!(lacking, format!("{plain}: the token lacks the scope `notes:write files`"));
        for other in [r#"Bearer scope="notes""#, r#"Bearer error="insufficient_scope""#, "Basic"] {
            assert_eq!(shown(other), plain, "{other}");
        }
        assert_eq!(shown(r#"Bearer error="insufficient_scope", scope="a`b""#), plain);
    }
}
