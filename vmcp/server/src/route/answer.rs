//! An answer on its way to the client.

use serde_json::json;
use serde_json::value::RawValue;
use vmcp_backend::{CallError, Outcome, Response};
use vmcp_wire::codes;
use vmcp_wire::era::Era;
use vmcp_wire::payload::Payload;
use vmcp_wire::rpc::RpcError;
use vmcp_wire::translate::{ResultType, payload_type};

use super::subject::shown;

/// What a request came to.
#[derive(Debug)]
pub struct Answer {
    /// The `result` or the `error` object; a backend's are as the backend wrote them.
    pub outcome: Result<Payload, Payload>,
    /// The era in whose terms it is written; the edge translates.
    pub era: Era,
    /// The backend that said so, when it is no complete result but a question or a task.
    pub pending: Option<Box<str>>,
}

impl Answer {
    /// A result of our own. It has no key that differs between the eras, and says that it is of the older one, so that
    /// translation adds what the newer one wants.
    pub fn own(result: Box<RawValue>) -> Answer {
        Answer { outcome: Ok(result.into()), era: Era::Legacy, pending: None }
    }

    /// An error of our own.
    pub fn error(error: &RpcError) -> Answer {
        let error = RawValue::from_string(error.to_json()).unwrap_or_default();
        Answer { outcome: Err(error.into()), era: Era::Modern, pending: None }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Answer {
        Answer::error(&RpcError::new(codes::INVALID_PARAMS, message))
    }

    /// Written as the newer revision wants it; translation gives an older client the older code.
    pub(super) fn no_resource(uri: &str) -> Answer {
        let uri = shown(uri);
        let error = RpcError::new(codes::INVALID_PARAMS, format!("Resource not found: {uri}"));
        Answer::error(&error.with_data(json!({ "uri": uri }).to_string()))
    }

    /// What a backend answered.
    pub(super) fn relayed(backend: &str, response: Response) -> Answer {
        let era = response.era;
        let (outcome, complete) = match response.outcome {
            Outcome::Result(result) => {
                let complete = era == Era::Legacy || payload_type(&result) == ResultType::Complete;
                (Ok(result), complete)
            }
            Outcome::Error(error) => (Err(error), true),
        };
        Answer { outcome, era, pending: (!complete).then(|| backend.into()) }
    }

    /// A backend that did not answer.
    pub(crate) fn unanswered(backend: &str, error: &CallError) -> Answer {
        let data = json!({ "category": error.category() }).to_string();
        Answer::error(
            &RpcError::new(codes::INTERNAL_ERROR, format!("backend {backend}: {error}")).with_data(data),
        )
    }
}
