//! Calls of tools by the operator of this process: a person on the command line.

use axum::extract::State;
use axum::response::Json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use vmcp_wire::owned::OwnedParams;

use super::Admin;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::Engine;
use vmcp_route::{CallContext, Caller};

/// A call of a tool.
#[derive(Debug, Serialize, Deserialize)]
pub struct OperatorCall {
    /// Listed name of the tool.
    pub name: String,
    /// Arguments, by name.
    pub arguments: Map<String, Value>,
}

/// Ending of a call: its `CallToolResult`, or a JSON-RPC error.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OperatorAnswer {
    /// The `CallToolResult`, whose `isError` may be set.
    Result(Value),
    /// The JSON-RPC error.
    Error(Value),
}

/// Calls a tool for `principal`, whose person has asked for this very call: no further consent is wanted.
pub async fn call(
    engine: &Engine,
    principal: Principal,
    call: &OperatorCall,
) -> serde_json::Result<OperatorAnswer> {
    let OperatorCall { name, arguments } = call;
    let params = json!({ "name": name, "arguments": arguments }).to_string();
    let params = OwnedParams::from_text(params).map_err(serde::de::Error::custom)?;
    let snapshot = engine.snapshot();
    engine.prepare(&snapshot, &principal).await;
    let caller = Caller { principal, confirmed: true, ..Caller::default() };
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine, snapshot: &snapshot, view: &view, caller: &caller };
    Ok(match vmcp_route::call_tool(context, &params).await.content.settled() {
        Ok(result) => OperatorAnswer::Result(serde_json::from_str(result.get())?),
        Err(error) => OperatorAnswer::Error(serde_json::from_str(error.get())?),
    })
}

/// Answers `POST /admin/call` of a private socket.
pub(super) async fn serve(
    State(Admin(inner)): State<Admin>,
    Json(request): Json<OperatorCall>,
) -> Json<OperatorAnswer> {
    let answer = call(&inner.engine, Principal::default(), &request).await;
    Json(answer.unwrap_or_else(|error| OperatorAnswer::Error(json!({ "message": error.to_string() }))))
}
