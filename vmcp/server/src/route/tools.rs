//! `tools/call`: dispatches to an own tool or to a backend's tool.

use serde_json::value::RawValue;

use super::answer::Answer;
use super::backend::tool_call;
use super::caller::Caller;
use super::own_tools;
use super::subject::{Subject, shown};
use crate::engine::Engine;

/// Handles `tools/call`, of an own tool or a backend's. `params` as the client sent them.
pub async fn call_tool(engine: &Engine, caller: &Caller, params: &RawValue) -> Answer {
    let params = match Subject::parse(params, "name") {
        Ok(params) => params,
        Err(error) => return Answer::error(&error),
    };
    let snapshot = engine.snapshot();
    let view = snapshot.view(caller.identity);
    if let Some(tool) = own_tools::called(&snapshot, view, &params.subject) {
        return own_tools::run(engine, &snapshot, caller, tool, &params.object).await;
    }
    let Some(tool) = view.tool(&params.subject) else {
        return Answer::invalid(format!("Unknown tool: {}", shown(&params.subject)));
    };
    let deadline = snapshot.tool_timeout(&tool.backend);
    match tool_call::call_tool(&snapshot, caller, engine.metrics(), tool, &params.object, deadline).await {
        Ok(response) => Answer::relayed(&tool.backend, response),
        Err(error) => Answer::own(own_tools::failed_call(tool, &error)),
    }
}
