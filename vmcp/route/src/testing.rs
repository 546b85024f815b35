//! Helpers of tests: those of the engine, and `tools/call` as a client sends it.

use serde_json::value::RawValue;
use serde_json::{Value, json};
pub(crate) use vmcp_engine::testing::*;
use vmcp_wire::owned::OwnedParams;

use crate::{CallContext, Caller};
use vmcp_engine::engine::Engine;

/// `tools/call` as a client sends it; the result, or the error.
pub(crate) async fn call(engine: &Engine, tool: &str, arguments: Value) -> Result<Value, Value> {
    call_with(engine, &Caller::default(), json!({"name": tool, "arguments": arguments})).await
}

/// `tools/call` with all parameters.
pub(crate) async fn call_with(engine: &Engine, caller: &Caller, params: Value) -> Result<Value, Value> {
    let value = |raw: &RawValue| serde_json::from_str(raw.get()).unwrap();
    let snapshot = engine.snapshot();
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine, snapshot: &snapshot, view: &view, caller };
    let answer = crate::call_tool(context, &OwnedParams::from_text(params.to_string()).unwrap()).await;
    answer.content.settled().map(|raw| value(&raw)).map_err(|raw| value(&raw))
}
