//! A script's call of a tool, through the call seam, and its end as a value or an exception.

use std::sync::Arc;

use serde_json::{Map, Value};
use vmcp_backend::{CallError, Response};
use vmcp_engine::schema::CheckedArguments;
use vmcp_engine::telemetry::calls::{Origin, Outcome};
use vmcp_json::text;
use vmcp_model::catalog::CatalogTool;
use vmcp_script::protocol::{CallEnd, Raised};
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::payload::Payload;
use vmcp_wire::translate::{ResultType, payload_type};

use crate::call::{self, first_text};
use crate::caller::CallContext;
use crate::router::BackendTarget;
use crate::tools;

/// Largest result of a tool that a script gets, in bytes; a larger one is an exception.
const MAX_RESULT: usize = 32 << 20;

/// Calls a tool; `None` if a policy denies the call.
pub(super) async fn call(
    context: CallContext<'_>,
    tool: &Arc<CatalogTool>,
    arguments: &Map<String, Value>,
) -> Option<CallEnd> {
    let written = serde_json::value::to_raw_value(arguments).unwrap_or_default();
    // Mended before the policy is asked: it must judge the arguments that the backend will get.
    let checked = context.snapshot.check(tool).mend(tool, &written).await;
    let arguments = match &checked {
        CheckedArguments::Mended(mended) => mended,
        _ => &written,
    };
    let target = BackendTarget::tool(context.snapshot, tool);
    let record = context.start_record(Origin::Script);
    let authorized = call::authorize(context, record, target, Some(arguments.get())).ok()?;
    let strict = match &checked {
        CheckedArguments::Refused(violations) => Err(tools::misfit(context, tool, violations)),
        // Scalars of another type are left to the server, unless a policy has judged them.
        _ if authorized.judges_arguments() => tools::check_arguments(context, tool, arguments).await,
        _ => Ok(()),
    };
    if let Err(message) = strict {
        authorized.settle(Outcome::ToolError);
        return Some(raised(Raised::Arguments, message));
    }
    let params = format!(r#"{{"name":{},"arguments":{}}}"#, text::quoted(&tool.name), arguments.get());
    let params = match OwnedParams::from_text(params) {
        Ok(params) => params,
        Err(error) => {
            authorized.settle(Outcome::ToolError);
            return Some(raised(Raised::Arguments, error.to_string()));
        }
    };
    Some(match authorized.call(&params).await {
        Ok(response) => end(response),
        Err(
            error @ (CallError::NotConfirmed { .. }
            | CallError::Denied { .. }
            | CallError::InsufficientScope { .. }),
        ) => raised(Raised::Asks, error.to_string()),
        Err(error) => raised(Raised::Unanswered, error.to_string()),
    })
}

fn end(response: Response) -> CallEnd {
    let pending = call::is_pending(&response);
    match response.outcome.settled() {
        Ok(result) if pending => {
            let message = match payload_type(&result) {
                ResultType::InputRequired => {
                    "the tool asks the user, for which a script cannot wait; call this tool outside of a script"
                }
                _ => {
                    "the tool became a task, for which a script cannot wait; call this tool outside of a script"
                }
            };
            raised(Raised::Asks, message.to_owned())
        }
        Ok(result) if result.is_tool_error() => {
            let message =
                first_text(&result).unwrap_or_else(|| "the tool failed without a message".to_owned());
            raised(Raised::Failed, message)
        }
        Ok(result) => value(&result),
        Err(error) => {
            let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
            let message = error.get("message").and_then(Value::as_str);
            raised(Raised::Failed, message.unwrap_or("an error without a message").to_owned())
        }
    }
}

/// Returns the value of a result: its structured content, else its only text as JSON or as it is, else its
/// blocks.
fn value(result: &Payload) -> CallEnd {
    if result.get().len() > MAX_RESULT {
        let message = format!("the result has {} bytes, the limit is {MAX_RESULT}", result.get().len());
        return raised(Raised::Failed, message);
    }
    let Ok(mut result) = serde_json::from_str::<Value>(result.get()) else {
        return raised(Raised::Failed, "the result is nested too deep for a script".to_owned());
    };
    let mut take = |key: &str| result.get_mut(key).map(Value::take).filter(|value| !value.is_null());
    if let Some(structured) = take("structuredContent") {
        return CallEnd::Value(structured);
    }
    let content = take("content").unwrap_or_default();
    let texts: Option<Vec<&str>> =
        content.as_array().and_then(|blocks| blocks.iter().map(|block| text_of(block)).collect());
    CallEnd::Value(match texts.as_deref() {
        Some([text]) => parsed(text),
        Some([]) => Value::Null,
        _ => content,
    })
}

/// Returns a text as JSON, if it is an object or a list; a number in a text stays a text.
fn parsed(text: &str) -> Value {
    let is_container = text.trim_start().starts_with(['{', '[']);
    let parsed = is_container.then(|| serde_json::from_str::<Value>(text).ok()).flatten();
    parsed.unwrap_or_else(|| Value::String(text.to_owned()))
}

fn raised(kind: Raised, message: String) -> CallEnd {
    CallEnd::Raised { kind, message }
}

/// Returns the text of a block of text.
fn text_of(block: &Value) -> Option<&str> {
    block.get("type").filter(|kind| *kind == "text")?;
    block.get("text")?.as_str()
}
