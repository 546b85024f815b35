//! Tools by name: `tools/call` routes each to its module.

mod change;
mod input_required;
mod notify;
mod questions;
mod tasks;

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, JsonObject,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::catalog::fill;
use crate::dialogue::Dialogue;
use crate::server::Server;
use crate::stop::Stop;

/// One call of a tool, with the dialogue of its request.
pub(crate) struct ToolCall<'a> {
    server: &'a Server,
    context: &'a RequestContext<RoleServer>,
    dialogue: Dialogue<'a>,
    arguments: JsonObject,
}

impl ToolCall<'_> {
    fn text(&self, argument: &str) -> Result<&str, Stop> {
        let text = self.arguments.get(argument).and_then(Value::as_str);
        Ok(text.ok_or_else(|| {
            ErrorData::invalid_params(format!("argument {argument}: a string is required"), None)
        })?)
    }
}

/// Answers `tools/call`.
pub(crate) async fn call(
    server: &Server,
    params: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, Stop> {
    let name = params.name.as_ref();
    let state = params.request_state.as_deref();
    let dialogue = Dialogue::new(context, &server.shared.seal, params.input_responses, state)?;
    let call = ToolCall { server, context, dialogue, arguments: params.arguments.unwrap_or_default() };
    if let Some(question) = name.strip_prefix("test_input_required_result_") {
        return Ok(input_required::call(question, call).await?.into());
    }
    let result = match name {
        "test_error_handling" => failure("This tool intentionally returns an error for testing"),
        "test_tool_with_progress" => notify::progress(&call).await?,
        "test_tool_with_logging" => notify::log(&call, &["started", "at work", "finished"]).await?,
        "test_logging_tool" => notify::log(&call, &["called"]).await?,
        "test_reconnection" => notify::pause().await,
        "test_custom_header" => text(call.text("value")?),
        "test_missing_capability" => sampling_required(&call)?,
        "test_trigger_tool_change" => change::tools(server).await,
        "test_trigger_prompt_change" => change::prompts(server).await,
        "test_trigger_resource_update" => change::resource(server).await,
        "test_sampling" => questions::sampling(&call).await?,
        "test_elicitation" => questions::elicitation(&call).await?,
        "test_elicitation_sep1034_defaults" => questions::defaults(&call).await?,
        "test_elicitation_sep1330_enums" => questions::choices(&call).await?,
        "test_streaming_elicitation" => questions::value(&call).await?,
        "greet" => text(&format!("Hello, {}!", call.text("name")?)),
        "slow_compute" => return tasks::slow_compute(&call).await,
        "failing_job" => return tasks::failing_job(&call),
        "protocol_error_job" => return tasks::protocol_error_job(&call),
        "confirm_delete" => return tasks::confirm_delete(&call).await,
        "multi_input" => return tasks::multi_input(&call).await,
        "test_tool_with_task" => return tasks::after_question(&call).await,
        _ => fixed(server, name)?,
    };
    Ok(result.into())
}

/// Returns the schema of a tool without arguments.
pub(crate) fn no_arguments() -> Arc<JsonObject> {
    Arc::new(JsonObject::from_iter([("type".to_owned(), json!("object"))]))
}

fn text(text: &str) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn failure(text: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

fn fixed(server: &Server, name: &str) -> Result<CallToolResult, Stop> {
    let found = server.shared.catalog.tools.iter().find(|entry| entry.definition.name == name);
    let answer = found.and_then(|entry| entry.answer.as_ref());
    let answer = answer.ok_or_else(|| ErrorData::invalid_params(format!("unknown tool: {name}"), None))?;
    Ok(CallToolResult::success(fill(answer, &HashMap::new())?))
}

fn sampling_required(call: &ToolCall<'_>) -> Result<CallToolResult, Stop> {
    if call.dialogue.capabilities().sampling.is_none() {
        let required = ClientCapabilities::builder().enable_sampling().build();
        return Err(ErrorData::missing_required_client_capability(required).into());
    }
    Ok(text("The client can sample."))
}
