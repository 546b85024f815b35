//! Confirmation: asks the user by elicitation before a call that `aggregation.confirm` holds back.

use std::fmt::Write as _;
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
use super::shown_arguments;
use crate::caller::CallContext;

/// Begin of the question to the user.
pub const CONFIRMATION_PREFIX: &str = "Allow the call of ";

/// True if the configuration asks for the user's consent to a call of this tool, and this call lacks it.
pub(super) fn is_needed(context: CallContext<'_>, tool: &CatalogTool) -> bool {
    let caller = context.caller;
    let confirm = &context.snapshot.config.aggregation.confirm;
    confirm.holds_back(&tool.name, tool.annotations.destructive_hint)
        && !caller.confirmed
        && !caller.consent.covers(&tool.name)
}

/// Waits for the user's consent to a call of this tool.
pub(super) async fn obtain(
    context: CallContext<'_>,
    tool: &CatalogTool,
    params: &OwnedParams,
) -> Result<(), CallError> {
    let question = question(tool, params).map_err(|reason| CallError::NotConfirmed { reason })?;
    ask_user(context, &tool.name, &question).await
}

/// Waits for the user's consent to a call of the tool `name`, an own one or a backend's.
pub(crate) async fn ask_user(context: CallContext<'_>, name: &str, message: &str) -> Result<(), CallError> {
    let caller = context.caller;
    let config = &context.snapshot.config;
    let refused = |reason: String| CallError::NotConfirmed { reason };
    let question = ask_client::ask(caller, methods::ELICIT, form(message)).await;
    let question = question.map_err(|why| refused(format!("the client {why} (elicitation of a form)")))?;
    let within: Duration = config.proxy.max_tool_timeout;
    let answer = tokio::select! {
        answer = timeout(within, question) => answer,
        () = caller.cancel.cancelled() => {
            return Err(CallError::Cancelled { transmission: Transmission::NotSent });
        }
    };
    match answer {
        Ok(Ok(RpcOutcome::Result(result))) if accepts(&result) => {
            caller.consent.give(name);
            Ok(())
        }
        Ok(Ok(RpcOutcome::Result(_))) => Err(refused("the user declined".to_owned())),
        Ok(_) => Err(refused("the client could not ask its user".to_owned())),
        Err(_) => Err(refused(format!("no answer came within {} seconds", within.as_secs()))),
    }
}

fn accepts(result: &RawValue) -> bool {
    Object::parse(result).is_ok_and(|result| result.get_str("action").is_some_and(|it| it == "accept"))
}

/// Makes the parameters of `elicitation/create`: a form without fields, to accept or decline.
fn form(message: &str) -> Option<Box<RawValue>> {
    let form = json!({ "message": message, "requestedSchema": { "type": "object", "properties": {} } });
    to_raw_value(&form).ok()
}

/// Makes the question about a call. Fails for arguments that cannot be shown whole.
fn question(tool: &CatalogTool, params: &OwnedParams) -> Result<String, String> {
    let shown = shown_arguments::lines(params.get("arguments").unwrap_or("{}"))?;
    let mut message = format!("{CONFIRMATION_PREFIX}{} (server {})", tool.name, tool.backend);
    if shown.is_empty() {
        message.push_str(" without arguments?");
    } else {
        message.push_str(" with these arguments?");
        for line in shown {
            // Writing to a string cannot fail.
            let _ = write!(message, "\n{line}");
        }
    }
    Ok(message)
}
