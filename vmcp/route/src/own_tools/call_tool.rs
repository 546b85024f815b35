//! The handler of call_tool: finds the tool that the arguments name, asks the policy, checks the arguments
//! against the tool's schema, calls the tool, and shapes the answer.
//!
//! The name may be the listed one, or with `server_name` the backend's own, in any letter case that is
//! unambiguous. A tool outside of the caller's view is answered like one that does not exist. Failures are
//! results with `isError`, which a model reads, not JSON-RPC errors.

pub(super) mod execute_code;

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use serde_json::value::RawValue;
use vmcp_backend::{CallError, Transmission};
use vmcp_json::object::Object;
use vmcp_model::catalog::CatalogTool;
use vmcp_model::names::COMPOSITE;
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::payload::Payload;

use super::fallback::alternatives::Alternative;
use super::fallback::call_failure::{self, CallFailure};
use super::fallback::{self, FailedCall};
use super::large_results::{keeping, references, response_limit};
use super::resolve::{tool_lookup, unaliased};
use super::unavailable;
use crate::answer::tool_result::{self, Envelope, ErrorType};
use crate::answer::{Answer, Content};
use crate::argument_check;
use crate::call::{self, hidden};
use crate::caller::CallContext;
use crate::own_tools::arguments::call_arguments::{CallArguments, ResponseFormat};
use crate::own_tools::arguments::framework_keys::without_framework_keys;
use crate::router::BackendTarget;
use vmcp_engine::engine::{Snapshot, View};
use vmcp_engine::optim::names::{NameStyle, OptimTool, OwnName, own_name};
use vmcp_engine::schema::CheckedArguments;
use vmcp_engine::telemetry::calls::{CallRecorder, Origin, Outcome};
use vmcp_engine::telemetry::traces::{self, OpenSpan, TraceSpan};

/// Calls the tool that the arguments name. `params` are those of the call of call_tool itself: its other keys
/// (answers to a question of the backend, metadata) go on to the tool.
pub(super) async fn run(context: CallContext<'_>, params: &OwnedParams, arguments: &RawValue) -> Answer {
    let mut recorder = context.start_own_record(Origin::CallTool, arguments);
    let span = TraceSpan::begin("optimizer.call_tool", OpenSpan::call);
    recorder.record().span = span.clone();
    traces::in_span(pin!(call(context, params, arguments, recorder)), &span).await
}

async fn call(
    context: CallContext<'_>,
    params: &OwnedParams,
    arguments: &RawValue,
    mut recorder: CallRecorder,
) -> Answer {
    let begun = Instant::now();
    let snapshot = context.snapshot;
    let config = &snapshot.config;
    let keeps = config.optimizer.large_results.enabled;
    let (limits, max_timeout) = (&config.optimizer.limits, config.proxy.max_tool_timeout);
    let call = match CallArguments::parse(arguments, limits, max_timeout, keeps) {
        Ok(mut call) => {
            if call.server.is_none() {
                call.tool = unaliased(context, &call.tool).to_owned();
            }
            call
        }
        Err(error) => {
            let own = NameStyle::Dotted.listed(OptimTool::CallTool);
            let failure = CallFailure::new(None, &own, ErrorType::InvalidInput, error.to_string());
            recorder.settle(Outcome::ToolError);
            return Answer::own(failure.to_result());
        }
    };
    recorder.record().context = context.context_key(call.context.as_deref());
    let view = context.view;
    let refuse = |mut failure: CallFailure<'_>, call: &CallArguments| {
        if failure.error_type == ErrorType::NotFound {
            context.engine.metrics().call_tool_not_found.inc();
            explain_absence(context, call, &mut failure);
        }
        Answer::own(failure.to_result())
    };
    let tool = match resolve(snapshot, view, &call) {
        Ok(tool) => tool,
        Err(failure) => {
            let is_unknown = failure.error_type == ErrorType::NotFound;
            if let Some(tool) = hidden_tool(snapshot, &call).filter(|_| is_unknown) {
                hidden::record_call(context, recorder, tool);
            } else {
                recorder.record().subject = Some(call.tool.as_str().into());
                recorder.settle(if is_unknown { Outcome::Failed("unknown") } else { Outcome::ToolError });
            }
            let refused = refuse(failure, &call);
            hidden::hold(context, begun).await;
            return refused;
        }
    };
    TraceSpan::current().text("tool", tool.name.as_str());
    let mut target = BackendTarget::tool(snapshot, tool);
    target.deadline = call.timeout.unwrap_or(target.deadline);
    let schema = tool.definition.input_schema.as_deref();
    let plain = call.are_beside.then(|| without_framework_keys(call.parameters.get(), schema)).flatten();
    let written = plain.as_deref().unwrap_or(&call.parameters);
    // Replaced before anything is judged: policies and schemas see the values that the backend will get.
    let with_values = references::replaced(context, written).await;
    let (with_values, unresolved) = match with_values {
        Ok(with_values) => (with_values, None),
        Err(error) => (None, Some(error)),
    };
    let written = with_values.as_deref().unwrap_or(written);
    // Mended before the policy is asked: it must judge the arguments that the backend will get.
    let checked = check_or_mend(context, tool, written).await;
    let mended = checked.as_ref().ok().and_then(Option::as_deref);
    let parameters = mended.unwrap_or(written);
    // Before violations are told: a denied tool must not be told from an unknown one by them.
    let Ok(authorized) = call::authorize(context, recorder, target, Some(parameters.get())) else {
        let refused = refuse(not_found(&call), &call);
        hidden::hold(context, begun).await;
        return refused;
    };
    let strict = match &checked {
        // Scalars of another type are left to the server, unless a policy has judged them, or no server
        // checks them.
        Ok(_) if authorized.judges_arguments() || &*tool.backend == COMPOSITE => {
            argument_check::check_arguments(context, tool, parameters).await
        }
        _ => Ok(()),
    };
    let goes_on = &*tool.backend == COMPOSITE && call::continues_run(context.caller, params);
    let refused = unresolved.as_ref().or(checked.as_ref().err()).or(strict.as_ref().err());
    if let Some(message) = refused.filter(|_| !goes_on) {
        authorized.settle(Outcome::ToolError);
        return Answer::own(failure(tool, ErrorType::InvalidInput, message.clone()).to_result());
    }

    let Ok(params) = params.with(&[("arguments", Some(parameters.get()))]) else {
        authorized.settle(Outcome::ToolError);
        return Answer::own(tool_result::error("unreadable parameters"));
    };
    // A result that is cut or wrapped must have arrived.
    let limit = snapshot.config.optimizer.max_tool_response_tokens;
    let keeps = keeping::applies(context, tool, call.store_result);
    let answer = match call.format {
        ResponseFormat::Mcp if limit.is_none() && !keeps => authorized.answer(&params).await,
        _ => authorized.call(&params).await.map(|response| Answer::relayed(&tool.backend, response)),
    };
    if let Err(error @ CallError::InsufficientScope { .. }) = &answer {
        return Answer::unanswered(&tool.backend, error);
    }
    with_fallback(context, tool, &call, answer, (parameters, &params)).await
}

/// Answers with the result; after a failure by another tool that does the same, or with such tools as
/// suggestions. `sent`: the arguments, and the parameters with them.
async fn with_fallback(
    context: CallContext<'_>,
    tool: &Arc<CatalogTool>,
    call: &CallArguments,
    answer: Result<Answer, CallError>,
    (parameters, params): (&RawValue, &OwnedParams),
) -> Answer {
    // A result that a webhook has read stands: the webhook may have replaced it by an error or an empty list,
    // and need not read the results of a similar tool.
    let includes = call.include_fallbacks && !(answer.is_ok() && call::is_result_read(context, tool));
    let mut failure = failure_of(&answer).filter(|_| includes);
    if let Some(result) = unfailed(&answer).filter(|_| includes && failure.is_none()) {
        let violation = fallback::violation(context, tool, result).await;
        failure = violation.map(|violation| (violation, Transmission::Sent));
    }
    let Some((error, transmission)) = failure else {
        return finished(context, tool, call, answer, &[]).await;
    };
    let alternatives = fallback::alternatives(context, tool);
    let failed = FailedCall { tool, error, transmission, parameters };
    if let Some((other, answer)) = fallback::retry(context, &failed, &alternatives, params).await {
        return shaped(context, other, call, answer, &[]).await;
    }
    if !alternatives.is_empty() {
        context.engine.metrics().fallback_suggestions.inc();
    }
    let answer = with_suggestions(answer, &failed, &alternatives);
    finished(context, tool, call, answer, &alternatives).await
}

/// Returns the whole result of a call that neither failed nor waits for the client.
fn unfailed(answer: &Result<Answer, CallError>) -> Option<&Payload> {
    match answer {
        Ok(Answer { content: Content::Result(result), pending: None, .. }) => Some(result),
        _ => None,
    }
}

/// Returns the text of a failed or empty answer, and the part of its way that the call made.
fn failure_of(answer: &Result<Answer, CallError>) -> Option<(String, Transmission)> {
    match answer {
        // A user who declined wants no similar tool either; who is denied a tool gets no way round.
        Err(
            CallError::Cancelled { .. }
            | CallError::NotConfirmed { .. }
            | CallError::Denied { .. }
            | CallError::Withheld { .. },
        ) => None,
        Err(error) => Some((error.to_string(), error.transmission())),
        Ok(answer) if answer.pending.is_some() => None,
        Ok(answer) => match &answer.content {
            Content::Result(result) if result.is_tool_error() => {
                Some((error_text(result), Transmission::Sent))
            }
            Content::Result(result) if fallback::is_empty(result) => {
                Some(("the answer is empty".to_owned(), Transmission::Sent))
            }
            Content::Error(error) => Some((message_of(error), Transmission::Sent)),
            Content::Result(_) | Content::Arriving(_) | Content::StepUp(_) => None,
        },
    }
}

/// Names the alternatives in a result that failed, is empty or does not fit its schema.
fn with_suggestions(
    answer: Result<Answer, CallError>,
    failed: &FailedCall<'_>,
    alternatives: &[Alternative<'_>],
) -> Result<Answer, CallError> {
    let answer = answer?;
    let Content::Result(result) = &answer.content else { return Ok(answer) };
    let suggestions: Vec<_> = alternatives.iter().map(Alternative::suggestion).collect();
    if suggestions.is_empty() {
        return Ok(answer);
    }
    match fallback::with_suggestions(result, &failed.error, &suggestions) {
        Some(named) => Ok(Answer { content: Content::Result(named.into()), ..answer }),
        None => Ok(answer),
    }
}

/// Shapes the answer, or the failure of a call that has none.
async fn finished(
    context: CallContext<'_>,
    tool: &Arc<CatalogTool>,
    call: &CallArguments,
    answer: Result<Answer, CallError>,
    alternatives: &[Alternative<'_>],
) -> Answer {
    match answer {
        Ok(answer) => shaped(context, tool, call, answer, alternatives).await,
        Err(error) => Answer::own(call_failure::unanswered(tool, &error, alternatives)),
    }
}

/// Checks arguments against the tool's schema; returns them mended where values of another type, such as a
/// text of digits for a number, can be read as the schema's.
async fn check_or_mend(
    context: CallContext<'_>,
    tool: &Arc<CatalogTool>,
    arguments: &RawValue,
) -> Result<Option<Box<RawValue>>, String> {
    match context.snapshot.check(tool).mend(tool, arguments).await {
        CheckedArguments::AsWritten => Ok(None),
        CheckedArguments::Mended(mended) => Ok(Some(mended)),
        CheckedArguments::Refused(violations) => Err(argument_check::misfit(context, tool, &violations)),
    }
}

/// Returns the answer for a missing tool, or one outside of the caller's view or rights: the text must not
/// tell them apart.
fn not_found(call: &CallArguments) -> CallFailure<'_> {
    let error = format!("tool not found: {}", call.tool);
    CallFailure::new(call.server.as_deref(), &call.tool, ErrorType::NotFound, error)
}

/// Returns the one tool that the arguments name within the caller's view.
fn resolve<'a>(
    snapshot: &'a Snapshot,
    view: &'a View,
    call: &'a CallArguments,
) -> Result<&'a Arc<CatalogTool>, CallFailure<'a>> {
    let server = call.server.as_deref();
    let fail = |kind, error: String| CallFailure::new(server, &call.tool, kind, error);
    let meant = own_name(&call.tool);
    if matches!(meant, Some(OwnName::Reserved(_) | OwnName::Unknown)) {
        let error = "optimizer tools cannot be invoked through optim.call_tool";
        return Err(fail(ErrorType::InvalidInput, error.to_owned()));
    }
    let fits = match server {
        Some(server) => {
            let backends = snapshot.backends.keys().filter(|backend| view.has_backend(backend));
            if !backends.clone().any(|backend| backend.eq_ignore_ascii_case(server)) {
                let mut failure = fail(ErrorType::NotFound, format!("server not found: {server}"));
                failure.available_servers = Some(backends.map(AsRef::as_ref).collect());
                return Err(failure);
            }
            view.tools_of(server, &call.tool)
        }
        None => view.tool(&call.tool).map_or_else(|| view.tools_like(&call.tool), |tool| vec![tool]),
    };
    let fits = match (fits.is_empty(), server) {
        (true, None) if meant.is_none() => tool_lookup::alike(view, &call.tool),
        _ => fits,
    };
    match fits.as_slice() {
        [tool] => Ok(tool),
        [] if meant.is_some() => {
            let error = "optimizer tools cannot be invoked through optim.call_tool";
            Err(fail(ErrorType::InvalidInput, error.to_owned()))
        }
        [] => Err(not_found(call)),
        several => {
            let names: Vec<_> = several.iter().map(|tool| tool.name.as_str()).collect();
            let error = format!("{} could be {}; use the exact name", call.tool, names.join(" or "));
            Err(fail(ErrorType::InvalidInput, error))
        }
    }
}

/// Returns the tool that a name, or an alias, means to clients who may see it.
fn hidden_tool<'a>(snapshot: &'a Snapshot, wanted: &CallArguments) -> Option<&'a Arc<CatalogTool>> {
    let (catalog, aliases) = (snapshot.unfiltered(), &snapshot.config.aggregation.aliases);
    let tool = match &wanted.server {
        Some(server) => catalog.tool_of(server, &wanted.tool).into_iter().next(),
        None => catalog.tool(&wanted.tool).or_else(|| catalog.tool(aliases.get(&wanted.tool)?)),
    };
    tool.filter(|tool| tool.listed)
}

/// Adds to the failure of a tool that is not there: its server is down or switched off, or the nearest names.
fn explain_absence(context: CallContext<'_>, wanted: &CallArguments, failure: &mut CallFailure<'_>) {
    let (snapshot, view) = (context.snapshot, context.view);
    let is_meant = |name: &str| wanted.server.as_deref().is_some_and(|one| one.eq_ignore_ascii_case(name));
    let down = unavailable::servers(context);
    let owner = || unavailable::owner(&down, |server| server.server.as_str(), &wanted.tool);
    if let Some(server) = down.iter().find(|server| is_meant(&server.server)).or_else(owner) {
        failure.error = format!("{}; {}", failure.error, server.sentence());
        failure.error_type = ErrorType::BackendError;
        return;
    }
    let switched_off = unavailable::switched_off(snapshot, view, wanted.server.as_deref(), &wanted.tool);
    if let Some(server) = switched_off {
        failure.error = format!("{}; the server {server} is switched off", failure.error);
        return;
    }
    match tool_lookup::nearest(view, &wanted.tool, |tool| call::may_name(context, tool)).as_slice() {
        [] => failure.error.push_str("; find_tool searches all tools"),
        names => failure.error = format!("{}; did you mean {}?", failure.error, names.join(" or ")),
    }
}

fn failure(tool: &CatalogTool, kind: ErrorType, error: String) -> CallFailure<'_> {
    CallFailure::new(Some(&tool.backend), &tool.definition.name, kind, error)
}

/// Shapes an answer: keeps a large one and answers with its reference, adds a missing text, cuts it to
/// `maxToolResponseTokens`, and wraps it if the caller asked for an envelope.
async fn shaped(
    context: CallContext<'_>,
    tool: &CatalogTool,
    call: &CallArguments,
    answer: Answer,
    alternatives: &[Alternative<'_>],
) -> Answer {
    let era = answer.era;
    let failed = |error| {
        let mut failure = failure(tool, ErrorType::BackendError, error);
        failure.fallback_suggestions = alternatives.iter().map(Alternative::suggestion).collect();
        Answer::own(failure.to_result())
    };
    let result = match answer.content {
        // A question to the client comes before the result; it must reach the client unchanged.
        _ if answer.pending.is_some() => return answer,
        Content::Arriving(_) | Content::StepUp(_) => return answer,
        Content::Result(result) => result,
        // A JSON-RPC error of the inner call becomes a result, where the model reads it.
        Content::Error(error) => {
            return failed(message_of(&error));
        }
    };
    let result = keeping::enveloped(context, tool, result, call.store_result).await;
    let result = tool_result::with_text(&result).map_or(result, Payload::from);
    let limit = context.snapshot.config.optimizer.max_tool_response_tokens;
    let cut = limit.and_then(|limit| response_limit::cut(&result, u64::from(limit)));
    let result = cut.map_or(result, Payload::from);
    match call.format {
        ResponseFormat::Mcp => Answer { content: Content::Result(result), era, pending: None },
        ResponseFormat::Envelope | ResponseFormat::Compact if result.is_tool_error() => {
            failed(error_text(&result))
        }
        ResponseFormat::Envelope => {
            let called = Some((&*tool.backend, tool.definition.name.as_str()));
            Answer::own(Envelope::new(called, &result).to_result())
        }
        ResponseFormat::Compact => Answer::own(Envelope::new(None, &result).to_result()),
    }
}

/// Returns message and code of a JSON-RPC error.
fn message_of(error: &RawValue) -> String {
    let object = Object::parse(error).unwrap_or_default();
    let message = object.get_str("message").unwrap_or_default();
    let code = object.get("code").map_or("no code", RawValue::get);
    format!("{message} ({code})")
}

/// Returns the first text of a failed result.
fn error_text(result: &RawValue) -> String {
    call::first_text(result).unwrap_or_else(|| "the tool failed without a message".to_owned())
}
