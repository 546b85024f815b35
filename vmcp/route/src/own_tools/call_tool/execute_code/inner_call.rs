//! A script's call of a tool, through the call seam, and its end as a value, an exception or a question.

use std::sync::Arc;

use serde_json::value::to_raw_value;
use serde_json::{Map, Value};
use vmcp_backend::{CallError, Response};
use vmcp_engine::schema::CheckedArguments;
use vmcp_engine::telemetry::calls::{Origin, Outcome};
use vmcp_model::catalog::CatalogTool;
use vmcp_script::pool::Called;
use vmcp_script::protocol::{CallEnd, Raised};
use vmcp_script::shapes::{parsed, text_of};
use vmcp_wire::handshake::client_capabilities::AnswerableQuestions;
use vmcp_wire::payload::Payload;
use vmcp_wire::translate::{ResultType, payload_type};

use super::asking_call::AskingCall;
use super::toolhive_value;
use crate::answer;
use crate::argument_check;
use crate::call::input_rounds::{MAX_ROUNDS, pause_before_repeat};
use crate::call::{self, first_text};
use crate::caller::Consent;
use crate::caller::{CallContext, Caller};
use crate::own_tools::arguments::dialect::Dialect;
use crate::own_tools::large_results::references;
use crate::router::BackendTarget;

/// Largest result of a tool that a script gets, in bytes; a larger one is an exception.
const MAX_RESULT: usize = 32 << 20;

/// The script that makes a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct InnerCaller<'a> {
    /// True if the client takes questions.
    pub(super) can_ask: bool,
    pub(super) dialect: Dialect,
    /// The client's own `_meta` as JSON.
    pub(super) meta: Option<&'a str>,
}

/// Calls a tool, or goes on with a call of it; `None` if a policy denies the call.
pub(super) async fn call(
    context: CallContext<'_>,
    tool: &Arc<CatalogTool>,
    mut asking: AskingCall,
    script: InnerCaller<'_>,
) -> Option<Called<AskingCall>> {
    for round in 0..MAX_ROUNDS {
        match call_once(context, tool, &asking, script).await? {
            Called::Asks(next) if next.questions.is_empty() && next.state.is_some() => {
                pause_before_repeat(round).await;
                asking = next;
            }
            Called::Asks(next) => {
                let refusal = refusal(context.caller, &next, script.can_ask);
                return Some(refusal.map_or(Called::Asks(next), |text| raised(Raised::Asks, text)));
            }
            ended @ Called::Ended(_) => return Some(ended),
        }
    }
    let message = format!("the tool wanted its state back {MAX_ROUNDS} times and came to no end");
    Some(raised(Raised::Unanswered, message))
}

/// Returns the mistake in arguments that a script writes as constants: that of the call itself, told before
/// the script begins.
pub(super) async fn misfit(
    context: CallContext<'_>,
    tool: &Arc<CatalogTool>,
    arguments: &Map<String, Value>,
) -> Option<String> {
    let written = to_raw_value(arguments).unwrap_or_default();
    let written = match references::replaced(context, &written).await {
        Ok(with_values) => with_values.unwrap_or(written),
        Err(unresolved) => return Some(unresolved),
    };
    match context.snapshot.check(tool).mend(tool, &written).await {
        CheckedArguments::Refused(violations) => Some(argument_check::misfit(context, tool, &violations)),
        CheckedArguments::Mended(mended) => {
            argument_check::check_arguments(context, tool, &mended).await.err()
        }
        CheckedArguments::AsWritten => argument_check::check_arguments(context, tool, &written).await.err(),
    }
}

/// Returns why the client cannot be asked.
fn refusal(caller: &Caller, asking: &AskingCall, can_ask: bool) -> Option<String> {
    if asking.questions.is_empty() {
        return Some("the tool asks the user in a way that cannot be read".to_owned());
    }
    if !can_ask {
        return Some("the tool asks the user, and the client takes no stream of events".to_owned());
    }
    let answerable = AnswerableQuestions::read(caller.client.capabilities.as_deref());
    asking.asked().find_map(|(method, params)| {
        let params = params.and_then(|params| to_raw_value(params).ok());
        let why = answerable.refusal(method, params.as_deref())?;
        let method: String = method.chars().take(64).collect();
        Some(format!("the tool asks the user ({method}), and {why}"))
    })
}

async fn call_once(
    context: CallContext<'_>,
    tool: &Arc<CatalogTool>,
    asking: &AskingCall,
    script: InnerCaller<'_>,
) -> Option<Called<AskingCall>> {
    let written = to_raw_value(&asking.arguments).unwrap_or_default();
    // Replaced before anything is judged, as by call_tool.
    let (written, unresolved) = match references::replaced(context, &written).await {
        Ok(with_values) => (with_values.unwrap_or(written), None),
        Err(error) => (written, Some(error)),
    };
    // Mended before the policy is asked: it must judge the arguments that the backend will get.
    let checked = context.snapshot.check(tool).mend(tool, &written).await;
    let arguments = match &checked {
        CheckedArguments::Mended(mended) => mended,
        _ => &written,
    };
    // A yes of the user is for one call: the next call of the same tool may have other arguments.
    let caller = Caller {
        continues: asking.goes_on().then(|| Arc::clone(&tool.backend)),
        consent: Consent::to(asking.is_confirmed.then(|| tool.name.as_str().into())),
        ..context.caller.clone()
    };
    let context = CallContext { caller: &caller, ..context };
    let mut target = BackendTarget::tool(context.snapshot, tool);
    if let Some(limit) = context.snapshot.config.code.call_timeout {
        target.deadline = target.deadline.min(limit);
    }
    let record = context.start_record(Origin::Script);
    let authorized = call::authorize(context, record, target, Some(arguments.get())).ok()?;
    let strict = match (&checked, unresolved) {
        (_, Some(unresolved)) => Err(unresolved),
        (CheckedArguments::Refused(violations), None) => {
            Err(argument_check::misfit(context, tool, violations))
        }
        // Stricter than call_tool: a script's values have types, and an exception names its line.
        _ => argument_check::check_arguments(context, tool, arguments).await,
    };
    let params = match strict.and_then(|()| asking.params(arguments, script.meta)) {
        Ok(params) => params,
        Err(message) => {
            authorized.settle(Outcome::ToolError);
            return Some(raised(Raised::Arguments, message));
        }
    };
    Some(match authorized.call(&params).await {
        Ok(response) => {
            let is_confirmed = caller.consent.covers(&tool.name);
            end(response, asking, is_confirmed, script.dialect)
        }
        Err(
            error @ (CallError::NotConfirmed { .. }
            | CallError::Denied { .. }
            | CallError::Withheld { .. }
            | CallError::InsufficientScope { .. }),
        ) => raised(Raised::Asks, error.to_string()),
        Err(error) => raised(Raised::Unanswered, error.to_string()),
    })
}

fn end(response: Response, asking: &AskingCall, is_confirmed: bool, dialect: Dialect) -> Called<AskingCall> {
    let pending = answer::is_pending(&response);
    match response.outcome.settled() {
        Ok(result) if pending && payload_type(&result) == ResultType::InputRequired => {
            Called::Asks(asking.asking(&result, is_confirmed))
        }
        Ok(_) if pending => {
            let message =
                "the tool became a task, for which a script cannot wait; call this tool outside of a script";
            raised(Raised::Asks, message.to_owned())
        }
        Ok(result) if result.is_tool_error() => {
            let message =
                first_text(&result).unwrap_or_else(|| "the tool failed without a message".to_owned());
            raised(Raised::Failed, message)
        }
        Ok(result) => Called::Ended(value(&result, dialect)),
        Err(error) => {
            let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
            let message = error.get("message").and_then(Value::as_str);
            raised(Raised::Failed, message.unwrap_or("an error without a message").to_owned())
        }
    }
}

/// Returns the value of a result: its structured content, else its only text as JSON or as it is, else its
/// blocks. Scripts of ToolHive get what ToolHive gives them.
fn value(result: &Payload, dialect: Dialect) -> CallEnd {
    if result.get().len() > MAX_RESULT {
        let message = format!("the result has {} bytes, the limit is {MAX_RESULT}", result.get().len());
        return CallEnd::Raised { kind: Raised::Failed, message };
    }
    let Ok(mut result) = serde_json::from_str::<Value>(result.get()) else {
        let message = "the result is nested too deep for a script".to_owned();
        return CallEnd::Raised { kind: Raised::Failed, message };
    };
    if dialect == Dialect::ToolHive {
        return CallEnd::Value(toolhive_value::of_result(&mut result));
    }
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

fn raised(kind: Raised, message: String) -> Called<AskingCall> {
    Called::Ended(CallEnd::Raised { kind, message })
}
