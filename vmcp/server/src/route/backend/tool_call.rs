//! The one seam of tool calls: direct calls and calls through call_tool both end in [`call_tool`].

use std::time::Duration;

use serde_json::value::RawValue;
use vmcp_backend::{CallError, Response};
use vmcp_json::object::Object;
use vmcp_model::catalog::CatalogTool;
use vmcp_wire::headers::build_param_headers;
use vmcp_wire::lists::tasks::TASK;
use vmcp_wire::methods;

use super::request::{Target, renamed, send};
use super::task_calls;
use crate::engine::Snapshot;
use crate::route::caller::Caller;
use crate::telemetry::metrics::Metrics;

/// Calls a tool of a backend. `params` are those of `tools/call` for this tool under any name; only the name
/// is replaced, and the request for a task where the backend takes none.
pub(in crate::route) async fn call_tool(
    snapshot: &Snapshot,
    caller: &Caller,
    metrics: &Metrics,
    tool: &CatalogTool,
    params: &Object<'_>,
    deadline: Duration,
) -> Result<Response, CallError> {
    let original = tool.definition.name.as_str();
    let as_task = params.text(TASK).is_some() && task_calls::may_ask(snapshot, caller, &tool.backend);
    let params = renamed(params, "name", original)?;
    let params = if as_task { params } else { without_task(params)? };
    let hints = &tool.definition.annotations;
    let target = Target {
        backend: &tool.backend,
        method: methods::TOOLS_CALL,
        subject: Some(original),
        param_headers: param_headers(tool, &params),
        deadline,
        idempotent: hints.read_only_hint == Some(true) || hints.idempotent_hint == Some(true),
    };
    let response = send(snapshot, caller, metrics, target, &params).await?;
    task_calls::learn(snapshot, caller, &tool.backend, as_task, &response)?;
    Ok(response)
}

/// Removes the request for a task by the rules of 2025-11-25, which other servers do not know.
fn without_task(params: Box<RawValue>) -> Result<Box<RawValue>, CallError> {
    let object = Object::parse(&params).unwrap_or_default();
    if object.text(TASK).is_none() {
        return Ok(params);
    }
    let mut edit = object.edit();
    edit.remove(TASK);
    edit.finish().into_raw().map_err(|error| CallError::Protocol { reason: error.to_string() })
}

fn param_headers(tool: &CatalogTool, params: &RawValue) -> Vec<(String, String)> {
    if tool.definition.param_headers.is_empty() {
        return Vec::new();
    }
    let arguments = Object::parse(params).ok().and_then(|params| params.get("arguments"));
    build_param_headers(&tool.definition.param_headers, arguments)
}
