//! Calls of tools by the operator of this process: a person on the command line.

use axum::extract::State;
use axum::response::Json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use vmcp_json::text::without_half_surrogates;
use vmcp_wire::owned::OwnedParams;

use super::Admin;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::Engine;
pub use vmcp_route::CONFIRMATION_PREFIX;
use vmcp_route::{CallContext, Caller};

/// A call of a tool.
#[derive(Debug, Serialize, Deserialize)]
pub struct OperatorCall {
    /// Listed name of the tool.
    pub name: String,
    /// Arguments, by name.
    pub arguments: Map<String, Value>,
    /// True if the person at the command line consents to a call that `aggregation.confirm` holds back.
    #[serde(default)]
    pub confirmed: bool,
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

/// Calls a tool for `principal`.
pub async fn call(
    engine: &Engine,
    principal: Principal,
    call: &OperatorCall,
) -> serde_json::Result<OperatorAnswer> {
    let caller = Caller { principal, confirmed: call.confirmed, ..Caller::default() };
    call_for(engine, &caller, call).await
}

/// Calls a tool for `caller`, whom its server may ask.
pub(in crate::port) async fn call_for(
    engine: &Engine,
    caller: &Caller,
    OperatorCall { name, arguments, confirmed: _ }: &OperatorCall,
) -> serde_json::Result<OperatorAnswer> {
    let params = json!({ "name": name, "arguments": arguments }).to_string();
    let params = OwnedParams::from_text(params).map_err(serde::de::Error::custom)?;
    let snapshot = engine.snapshot();
    engine.prepare(&snapshot, &caller.principal).await;
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine, snapshot: &snapshot, view: &view, caller };
    Ok(match vmcp_route::call_tool(context, &params).await.content.settled() {
        Ok(result) => OperatorAnswer::Result(value(result.get())?),
        Err(error) => OperatorAnswer::Error(value(error.get())?),
    })
}

/// Parses an answer; half a surrogate pair, which no Rust string can hold, is replaced.
fn value(json: &str) -> serde_json::Result<Value> {
    serde_json::from_str(without_half_surrogates(json).as_deref().unwrap_or(json))
}

/// Answers `POST /admin/call` of a private socket.
pub(super) async fn serve(
    State(Admin(inner)): State<Admin>,
    Json(request): Json<OperatorCall>,
) -> Json<OperatorAnswer> {
    let answer = call(&inner.engine, Principal::default(), &request).await;
    Json(answer.unwrap_or_else(|error| OperatorAnswer::Error(json!({ "message": error.to_string() }))))
}
