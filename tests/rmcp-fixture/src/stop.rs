//! Early ends of a handler: a question to the client, or an error.

use rmcp::model::{CallToolResponse, GetPromptResponse, InputRequiredResult};
use rmcp::{ErrorData, ServiceError};

/// Reason for which a handler ends before it has a result.
pub(crate) enum Stop {
    /// The client has to answer questions first, and repeats its request.
    Ask(Box<InputRequiredResult>),
    /// An error of the protocol.
    Error(ErrorData),
}

impl Stop {
    /// Converts the outcome of a tool into its answer: a question becomes a result, an error stays one.
    pub(crate) fn tool(result: Result<CallToolResponse, Self>) -> Result<CallToolResponse, ErrorData> {
        match result {
            Err(Self::Ask(question)) => Ok(CallToolResponse::InputRequired(*question)),
            Err(Self::Error(error)) => Err(error),
            Ok(result) => Ok(result),
        }
    }

    /// Converts the outcome of a prompt, as [`Self::tool`] does.
    pub(crate) fn prompt(result: Result<GetPromptResponse, Self>) -> Result<GetPromptResponse, ErrorData> {
        match result {
            Err(Self::Ask(question)) => Ok(GetPromptResponse::InputRequired(*question)),
            Err(Self::Error(error)) => Err(error),
            Ok(result) => Ok(result),
        }
    }
}

impl From<ErrorData> for Stop {
    fn from(error: ErrorData) -> Self {
        Self::Error(error)
    }
}

impl From<ServiceError> for Stop {
    fn from(error: ServiceError) -> Self {
        Self::Error(match error {
            ServiceError::McpError(error) => error,
            other => ErrorData::internal_error(other.to_string(), None),
        })
    }
}

impl From<serde_json::Error> for Stop {
    fn from(error: serde_json::Error) -> Self {
        Self::Error(ErrorData::internal_error(error.to_string(), None))
    }
}
