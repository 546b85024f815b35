//! Answers of routes, in the era that wrote them; the edge translates them for the client.

mod arriving;
pub(crate) mod tool_result;

use serde_json::json;
use serde_json::value::RawValue;
use vmcp_backend::{CallError, Response, RpcOutcome, uncollected};
use vmcp_wire::codes;
use vmcp_wire::era::Era;
use vmcp_wire::payload::Payload;
use vmcp_wire::rpc::RpcError;
use vmcp_wire::translate::{ResultType, payload_type};

use super::subject::shown;
pub use arriving::ArrivingAnswer;

/// The answer to a request: a result or an error, from vmcp or from a backend.
#[derive(Debug)]
pub struct Answer {
    /// The `result` or the `error` object; a backend's are as the backend wrote them.
    pub content: Content,
    /// Era of the answer's format; the edge translates.
    pub era: Era,
    /// The backend, if its answer is a question or a task and no complete result.
    pub pending: Option<Box<str>>,
}

/// The content of an answer.
#[derive(Debug)]
pub enum Content {
    /// A whole `result`.
    Result(Payload),
    /// An `error`.
    Error(Payload),
    /// A complete `result` of which only the beginning has arrived.
    Arriving(Box<ArrivingAnswer>),
    /// An error that a client can mend by a token with more scopes.
    StepUp(Box<StepUp>),
}

/// A call whose client lacks scopes.
#[derive(Debug)]
pub struct StepUp {
    /// The JSON-RPC error.
    pub error: RpcError,
    /// The challenge, where the answer has an HTTP head.
    pub challenge: ScopeChallenge,
}

/// The challenge to ask for a token with more scopes (RFC 6750, 3.1; MCP, authorization, step-up).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeChallenge {
    /// Scopes to ask for, separated by spaces.
    pub scopes: String,
    /// Description of the error.
    pub description: String,
}

impl Content {
    /// Returns the result or the error of a caller that takes whole results.
    #[expect(clippy::result_large_err, reason = "a box would cost each call an allocation")]
    pub fn settled(self) -> Result<Payload, Payload> {
        match self {
            Self::Result(result) => Ok(result),
            Self::Error(error) => Err(error),
            Self::Arriving(_) => Err(uncollected()),
            Self::StepUp(step_up) => {
                Err(RawValue::from_string(step_up.error.to_json()).unwrap_or_default().into())
            }
        }
    }
}

impl From<RpcOutcome> for Content {
    /// An outcome that was asked for as a whole.
    fn from(outcome: RpcOutcome) -> Self {
        outcome.settled().map_or_else(Content::Error, Content::Result)
    }
}

impl Answer {
    /// Makes a result of vmcp's own. It has no key that differs between the eras, and counts as legacy, so
    /// that translation adds the keys that a modern client wants.
    pub fn own(result: Box<RawValue>) -> Answer {
        Answer { content: Content::Result(result.into()), era: Era::Legacy, pending: None }
    }

    /// Makes an error of vmcp's own.
    pub fn error(error: &RpcError) -> Answer {
        let error = RawValue::from_string(error.to_json()).unwrap_or_default();
        Answer { content: Content::Error(error.into()), era: Era::Modern, pending: None }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Answer {
        Answer::error(&RpcError::new(codes::INVALID_PARAMS, message))
    }

    /// Written for the modern era; translation gives a legacy client the legacy code.
    pub(super) fn no_resource(uri: &str) -> Answer {
        let uri = shown(uri);
        let error = RpcError::new(codes::INVALID_PARAMS, format!("Resource not found: {uri}"));
        Answer::error(&error.with_data(json!({ "uri": uri }).to_string()))
    }

    /// Relays a backend's response.
    pub(super) fn relayed(backend: &str, response: Response) -> Answer {
        let pending = is_pending(&response).then(|| backend.into());
        Answer { content: response.outcome.into(), era: response.era, pending }
    }

    /// Makes the error for a request that its backend did not answer.
    pub fn unanswered(backend: &str, error: &CallError) -> Answer {
        if let CallError::InsufficientScope { missing, ask_for } = error {
            return Answer::step_up(error, missing, ask_for);
        }
        let data = match error.retry_after_seconds() {
            Some(seconds) => json!({ "category": error.category(), "retryAfterSeconds": seconds }),
            None => json!({ "category": error.category() }),
        };
        Answer::error(
            &RpcError::new(codes::INTERNAL_ERROR, format!("backend {backend}: {error}"))
                .with_data(data.to_string()),
        )
    }

    /// Makes the answer to a client whose token lacks scopes.
    fn step_up(error: &CallError, missing: &[String], ask_for: &[String]) -> Answer {
        let data = json!({ "category": error.category(), "missingScopes": missing, "scopes": ask_for });
        let description = format!("the token lacks the scope {}", missing.join(" "));
        let step_up = StepUp {
            error: RpcError::new(codes::INVALID_REQUEST, error.to_string()).with_data(data.to_string()),
            challenge: ScopeChallenge { scopes: ask_for.join(" "), description },
        };
        Answer { content: Content::StepUp(Box::new(step_up)), era: Era::Modern, pending: None }
    }
}

/// True if the answer is a question or a task, and no complete result.
pub(super) fn is_pending(response: &Response) -> bool {
    let pending = |result: &Payload| payload_type(result) != ResultType::Complete;
    match &response.outcome {
        RpcOutcome::Result(result) => response.era == Era::Modern && pending(result),
        // Only complete results are handed on while they arrive.
        RpcOutcome::Error(_) | RpcOutcome::Arriving(_) => false,
    }
}
