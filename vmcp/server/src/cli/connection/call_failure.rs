//! Reasons why a tool call returned no result.

use serde_json::Value;

use crate::cli::console::failure::CommandFailure;

/// Reason why a tool call returned no result.
#[derive(Debug)]
pub(in crate::cli) enum CallFailure {
    /// The server knows no tool of this name.
    UnknownTool,
    /// Any other reason, ready to be reported.
    Other(CommandFailure),
}

impl CallFailure {
    /// Reads a JSON-RPC error. MCP has no code of its own for an unknown tool, so the message decides.
    pub(super) fn of_protocol(error: &Value) -> CallFailure {
        let message = error.get("message").and_then(Value::as_str).unwrap_or("an error without a message");
        if message.starts_with("Unknown tool") {
            return CallFailure::UnknownTool;
        }
        CallFailure::Other(CommandFailure::new(message))
    }
}

impl<E: Into<CommandFailure>> From<E> for CallFailure {
    fn from(error: E) -> CallFailure {
        CallFailure::Other(error.into())
    }
}
