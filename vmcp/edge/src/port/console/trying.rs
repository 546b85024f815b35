//! A call of one tool from its form.
//!
//! The call is that of a client without credentials, through the one seam of all calls. So it is made only
//! where a client port lets such clients in: the console opens no way around `incomingAuth`.

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::Html;
use serde_json::Value;
use vmcp_console::pages::try_tool::{CallEnd, TryTool, try_tool};
use vmcp_console::schema::{ARGUMENT_PREFIX, arguments};
use vmcp_engine::access::identity::Principal;
use vmcp_model::catalog::CatalogTool;

use super::access::form_check::CheckedForm;
use super::access::{ConsoleDoor, Visitor};
use super::answer::{indented, parsed};
use super::catalog::{NamedTool, Unknown};
use super::forms::value;
use crate::port::admin::OperatorAddress;
use crate::port::admin::operator_call::{self, OperatorAnswer, OperatorCall};

/// Reason for which nothing is called where clients sign in.
const WANTS_CREDENTIALS: &str = "This server's clients prove who they are (incomingAuth), and the console is no client: \
    call the tool from one, or with `vmcp call`.";
/// Reason for which nothing is called in a process that serves one client on standard input and output.
const NO_CLIENT_PORT: &str = "This process has no client port: only its own client calls tools.";
/// Reason for which a hidden tool is not called.
const IS_HIDDEN: &str =
    "Clients cannot call this tool: a filter hides it, or its definition waits for approval.";

/// Answers `GET /console/try`.
pub(super) async fn show(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
    Query(query): Query<NamedTool>,
) -> Result<Html<String>, Unknown> {
    let tool = query.find(&door.engine().snapshot())?;
    let data = TryTool { refused: refusal(&door, &tool), ..data(&tool) };
    Ok(Html(try_tool(&door.frame(&visitor), &data)))
}

/// Answers `POST /console/try`.
pub(super) async fn call(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
    Extension(CheckedForm(pairs)): Extension<CheckedForm>,
    address: Option<Extension<OperatorAddress>>,
    Query(query): Query<NamedTool>,
) -> Result<Html<String>, Unknown> {
    let tool = query.find(&door.engine().snapshot())?;
    let mut data = TryTool { refused: refusal(&door, &tool), ..data(&tool) };
    if data.refused.is_none() {
        let address = address.map(|Extension(OperatorAddress(address))| address);
        let principal = Principal { address, ..Principal::default() };
        let confirmed = value(&pairs, "consent") == "yes";
        match arguments(&data.input_schema, &pairs) {
            Ok(arguments) => {
                let request = OperatorCall { name: tool.name.clone(), arguments, confirmed };
                let (end, result) = end(operator_call::call(door.engine(), principal, &request).await);
                data.end = Some(end);
                data.result = result;
            }
            Err(mistake) => data.end = Some(CallEnd::Mistake(mistake)),
        }
        value(&pairs, "arguments").clone_into(&mut data.given_json);
        let given = pairs
            .into_iter()
            .filter_map(|(name, value)| Some((name.strip_prefix(ARGUMENT_PREFIX)?.to_owned(), value)));
        data.given = given.collect();
    }
    Ok(Html(try_tool(&door.frame(&visitor), &data)))
}

/// Returns why the console does not call a tool; `None`: it may.
fn refusal(door: &ConsoleDoor, tool: &CatalogTool) -> Option<&'static str> {
    let snapshot = door.engine().snapshot();
    if door.admin().clients_at().is_none() {
        return Some(NO_CLIENT_PORT);
    }
    if !snapshot.authentication.is_anonymous() {
        return Some(WANTS_CREDENTIALS);
    }
    snapshot.whole_view().tool(&tool.name).is_none().then_some(IS_HIDDEN)
}

fn data(tool: &CatalogTool) -> TryTool {
    let schema = tool.definition.input_schema.as_deref().and_then(|schema| parsed(schema.get()));
    TryTool {
        name: tool.name.clone(),
        server: tool.backend.to_string(),
        original: tool.definition.name.clone(),
        input_schema: schema.unwrap_or_default(),
        ..TryTool::default()
    }
}

/// Returns the end of a call, and its result; null without one.
fn end(answer: serde_json::Result<OperatorAnswer>) -> (CallEnd, Value) {
    match answer {
        Ok(OperatorAnswer::Result(result)) => {
            let is_failure = result.get("isError").is_some_and(|is_error| is_error == true);
            (CallEnd::Answer(indented(&result.to_string()), is_failure), result)
        }
        Ok(OperatorAnswer::Error(error)) => {
            (CallEnd::Answer(indented(&error.to_string()), true), Value::Null)
        }
        Err(error) => (CallEnd::Mistake(error.to_string()), Value::Null),
    }
}
