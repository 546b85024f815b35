//! [`CallFailure`]: a failed call as the model reads it, with the tools that may take its place.

use std::num::NonZeroU64;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use vmcp_backend::CallError;
use vmcp_model::catalog::CatalogTool;

use super::alternatives::{Alternative, Suggestion};
use crate::answer::tool_result::{ErrorType, TextBlock, result};
use crate::caller::CallContext;

/// A failed call: it did not reach its tool, or its answer did not come back.
#[derive(Debug, Serialize)]
pub(in crate::own_tools) struct CallFailure<'a> {
    success: bool,
    /// The server: as resolved, or as the caller gave it.
    pub(in crate::own_tools) server: Option<&'a str>,
    /// The tool: as resolved, or as the caller gave it.
    pub(in crate::own_tools) tool: &'a str,
    /// Description for the model.
    pub(in crate::own_tools) error: String,
    /// Kind of the failure.
    pub(in crate::own_tools) error_type: ErrorType,
    /// Time after which the call may succeed; never zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<NonZeroU64>,
    /// Known servers, if the named one is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::own_tools) available_servers: Option<Vec<&'a str>>,
    /// Tools that may take the place of the failed tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::own_tools) fallback_suggestions: Vec<Suggestion<'a>>,
}

impl<'a> CallFailure<'a> {
    /// Makes the failure of a call of this tool.
    pub(in crate::own_tools) fn new(
        server: Option<&'a str>,
        tool: &'a str,
        error_type: ErrorType,
        error: impl Into<String>,
    ) -> Self {
        CallFailure {
            success: false,
            server,
            tool,
            error: error.into(),
            error_type,
            retry_after_seconds: None,
            available_servers: None,
            fallback_suggestions: Vec::new(),
        }
    }

    /// Makes the failure of a call that its backend did not answer.
    pub(in crate::own_tools) fn of_call(server: &'a str, tool: &'a str, error: &CallError) -> Self {
        let (kind, text) = match error {
            CallError::Timeout { after, detail, .. } => {
                // Rounded to a tenth: the measured time is a little more than the deadline.
                let seconds = (after.as_secs_f64() * 10.0).round() / 10.0;
                (ErrorType::TimeoutError, format!("Tool call timed out after {seconds} seconds{detail}"))
            }
            CallError::CircuitOpen { .. } => (ErrorType::CircuitOpen, error.to_string()),
            CallError::RateLimited { .. } => (ErrorType::RateLimited, error.to_string()),
            CallError::NotConfirmed { .. } => (ErrorType::NotConfirmed, error.to_string()),
            CallError::Denied { .. } => (ErrorType::Denied, error.to_string()),
            CallError::Withheld { .. } => (ErrorType::Withheld, error.to_string()),
            CallError::InsufficientScope { .. } => (ErrorType::InsufficientScope, error.to_string()),
            _ => (ErrorType::BackendError, error.to_string()),
        };
        let failure = CallFailure::new(Some(server), tool, kind, text);
        let retry_after_seconds = error.retry_after_seconds().and_then(NonZeroU64::new);
        CallFailure { retry_after_seconds, ..failure }
    }

    /// Makes the result: a sentence for the model, then the failure as JSON.
    pub(in crate::own_tools) fn to_result(&self) -> Box<RawValue> {
        let json = to_raw_value(self).unwrap_or_default();
        result(&[TextBlock::new(&self.error), TextBlock::new(json.get())], Some(&json), true)
    }
}

/// Makes the result of a call that its backend did not answer, for the model that made the call.
pub(crate) fn failed_call(
    context: CallContext<'_>,
    tool: &Arc<CatalogTool>,
    error: &CallError,
) -> Box<RawValue> {
    // A user who declined wants no similar tool either; who is denied a tool gets no way round.
    let declined = matches!(
        error,
        CallError::NotConfirmed { .. } | CallError::Denied { .. } | CallError::Withheld { .. }
    );
    let alternatives = if declined { Vec::new() } else { super::alternatives(context, tool) };
    if !alternatives.is_empty() {
        context.engine.metrics().fallback_suggestions.inc();
    }
    unanswered(tool, error, &alternatives)
}

/// As [`failed_call`], with alternatives that are known.
pub(in crate::own_tools) fn unanswered(
    tool: &CatalogTool,
    error: &CallError,
    alternatives: &[Alternative<'_>],
) -> Box<RawValue> {
    let mut failure = CallFailure::of_call(&tool.backend, &tool.definition.name, error);
    failure.fallback_suggestions = alternatives.iter().map(Alternative::suggestion).collect();
    failure.to_result()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::time::Duration;
    use vmcp_backend::Transmission;

    #[test]
    fn a_timeout_reads_as_required() {
        let error = CallError::timeout(Duration::from_millis(1012), Transmission::Unknown);
        let result = CallFailure::of_call("s", "t", &error).to_result();
        let result: Value = serde_json::from_str(result.get()).unwrap();
        assert_eq!(result["isError"], true);
        assert_eq!(result["content"][0]["text"], "Tool call timed out after 1 seconds");
        let expected = json!({"success": false, "server": "s", "tool": "t",
            "error": "Tool call timed out after 1 seconds", "error_type": "TimeoutError"});
        assert_eq!(result["structuredContent"], expected);
        assert_eq!(
            serde_json::from_str::<Value>(result["content"][1]["text"].as_str().unwrap()).unwrap(),
            expected
        );
    }
}
