//! Confirmation: asks the user by elicitation before a call that `aggregation.confirm` holds back.

use std::time::Duration;

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::timeout;
use vmcp_backend::{CallError, RpcOutcome, Transmission};
use vmcp_json::object::Object;
use vmcp_model::catalog::CatalogTool;
use vmcp_wire::methods;
use vmcp_wire::owned::OwnedParams;

use super::ask_client;
use crate::caller::CallContext;

/// Most characters of the arguments that the question shows.
const MAX_SHOWN_ARGUMENTS: usize = 1000;

/// True if the configuration asks for the user's consent to a call of this tool, and nobody gave it yet.
pub(super) fn is_needed(context: CallContext<'_>, tool: &CatalogTool) -> bool {
    let caller = context.caller;
    let confirm = &context.snapshot.config.aggregation.confirm;
    // A sealed state is proof of a first request with the same arguments, which was confirmed.
    confirm.holds_back(&tool.name, tool.annotations.destructive_hint)
        && !caller.confirmed
        && caller.continues.is_none()
}

/// Waits for the user's consent to a call of this tool.
pub(super) async fn obtain(
    context: CallContext<'_>,
    tool: &CatalogTool,
    params: &OwnedParams,
) -> Result<(), CallError> {
    let caller = context.caller;
    let config = &context.snapshot.config;
    let refused = |reason: String| CallError::NotConfirmed { reason };
    let question = ask_client::ask(caller, methods::ELICIT, question(tool, params)).await;
    let question = question.map_err(|why| refused(format!("the client {why} (elicitation of a form)")))?;
    let within: Duration = config.proxy.max_tool_timeout;
    let answer = tokio::select! {
        answer = timeout(within, question) => answer,
        () = caller.cancel.cancelled() => {
            return Err(CallError::Cancelled { transmission: Transmission::NotSent });
        }
    };
    match answer {
        Ok(Ok(RpcOutcome::Result(result))) if accepts(&result) => Ok(()),
        Ok(Ok(RpcOutcome::Result(_))) => Err(refused("the user declined".to_owned())),
        Ok(_) => Err(refused("the client could not ask its user".to_owned())),
        Err(_) => Err(refused(format!("no answer came within {} seconds", within.as_secs()))),
    }
}

fn accepts(result: &RawValue) -> bool {
    Object::parse(result).is_ok_and(|result| result.get_str("action").is_some_and(|it| it == "accept"))
}

/// Makes the parameters of `elicitation/create`: a form without fields, to accept or decline.
fn question(tool: &CatalogTool, params: &OwnedParams) -> Option<Box<RawValue>> {
    let arguments = params.get("arguments").unwrap_or("{}");
    let mut shown: String = arguments.chars().take(MAX_SHOWN_ARGUMENTS).collect();
    if shown.len() < arguments.len() {
        shown.push('…');
    }
    let message =
        format!("Allow the call of {} (server {}) with these arguments? {shown}", tool.name, tool.backend);
    let form = json!({ "message": message, "requestedSchema": { "type": "object", "properties": {} } });
    to_raw_value(&form).ok()
}
