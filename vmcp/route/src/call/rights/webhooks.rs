//! Webhooks at the seam: services that may change the arguments of a call, deny it, and replace its result.
//!
//! The order: the policy allows the client's arguments; mutating webhooks change them; the tool's schema and
//! the policy judge changed ones; validating webhooks allow what will be sent; the tool answers; post
//! webhooks read the answer. A call that a policy denies reaches no webhook.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use serde_json::value::RawValue;
use vmcp_access::policy::decision_point::webhooks::{
    AskedCall, ToolAnswer, Webhook, WebhookDecision, WebhookFailure, WebhookKind,
};
use vmcp_backend::{CallError, Denier, Response, RpcOutcome};
use vmcp_config::WebhookFailurePolicy;
use vmcp_engine::access::policy::{AccessRequest, Decision, Item, PolicyId};
use vmcp_engine::telemetry::calls::{CallRecord, CallRecorder, WebhookEffect};
use vmcp_engine::telemetry::metrics::{WebhookLabels, WebhookOutcomeLabels};
use vmcp_engine::telemetry::traces::{self, TraceSpan};
use vmcp_json::object::Object;
use vmcp_model::catalog::CatalogTool;
use vmcp_wire::era::Era;
use vmcp_wire::methods;
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::payload::Payload;
use vmcp_wire::translate::{ResultType, payload_type};

use crate::argument_check::check_arguments;
use crate::caller::CallContext;
use crate::router::BackendTarget;

const ARGUMENTS: &str = "arguments";

/// Returns the webhooks that are asked about a tool.
fn meant<'a>(all: &'a [Arc<Webhook>], tool: &CatalogTool) -> impl Iterator<Item = &'a Webhook> {
    let means = move |webhook: &&Arc<Webhook>| {
        webhook.settings().means(&tool.backend, &tool.name, &tool.definition.name)
    };
    all.iter().filter(means).map(|webhook| &**webhook)
}

/// Returns the first webhook that reads the results of the target's tool.
fn reader<'a>(context: CallContext<'a>, target: &BackendTarget<'_>) -> Option<&'a Webhook> {
    meant(&context.snapshot.webhooks.post, target.item.tool()?).next()
}

/// True if a webhook reads the result of the call: it must have arrived, and the call becomes no task.
pub(in crate::call) fn read_result(context: CallContext<'_>, target: &BackendTarget<'_>) -> bool {
    reader(context, target).is_some()
}

/// Asks about a call before it is sent. Returns the parameters that take the place of the client's, if a
/// webhook changed the arguments.
pub(in crate::call) async fn before_call(
    context: CallContext<'_>,
    target: &BackendTarget<'_>,
    params: &OwnedParams,
    recorder: &mut CallRecorder,
) -> Result<Option<OwnedParams>, CallError> {
    let Item::Tool(tool) = target.item else { return Ok(None) };
    let webhooks = &context.snapshot.webhooks;
    let mut changed: Option<(Box<RawValue>, &Webhook)> = None;
    for webhook in meant(&webhooks.mutating, tool) {
        let arguments = changed.as_ref().map(|(arguments, _)| arguments.get()).or(params.get(ARGUMENTS));
        let call = asked(context, tool, arguments);
        let answer = ask(context, webhook, WebhookKind::Mutating, &call, recorder.record()).await?;
        if let Some(arguments) = answer {
            changed = Some((arguments, webhook));
        }
    }
    if let Some((arguments, webhook)) = &changed {
        recorder.keep_arguments(Some(arguments.get()));
        judge(context, target, tool, arguments, webhook, recorder.record()).await?;
    }
    let arguments = changed.as_ref().map(|(arguments, _)| arguments.get()).or(params.get(ARGUMENTS));
    for webhook in meant(&webhooks.validating, tool) {
        let call = asked(context, tool, arguments);
        ask(context, webhook, WebhookKind::Validating, &call, recorder.record()).await?;
    }
    let Some((arguments, webhook)) = &changed else { return Ok(None) };
    let params = params.with(&[(ARGUMENTS, Some(arguments.get()))]);
    params.map(Some).map_err(|error| misfit(webhook, error.to_string(), recorder.record()))
}

/// Denies a call whose changed arguments cannot be sent. As final as a denial: a similar tool would get the
/// client's own arguments.
fn misfit(webhook: &Webhook, reason: String, record: &mut CallRecord) -> CallError {
    let name = &webhook.settings().name;
    record.policy = Some(PolicyId::new(format!("webhook {name}: the changed arguments do not fit")));
    CallError::Denied { by: Denier::MisfitAfter(Arc::clone(name)), reason: Some(reason) }
}

/// Judges arguments that a webhook changed, as a client's own.
async fn judge(
    context: CallContext<'_>,
    target: &BackendTarget<'_>,
    tool: &Arc<CatalogTool>,
    arguments: &RawValue,
    webhook: &Webhook,
    record: &mut CallRecord,
) -> Result<(), CallError> {
    let name = &webhook.settings().name;
    if let Err(reason) = check_arguments(context, tool, arguments).await {
        return Err(misfit(webhook, reason, record));
    }
    let request = AccessRequest {
        principal: &context.caller.principal,
        action: &target.method,
        backend: target.backend,
        item: target.item,
        arguments: Some(arguments.get()),
    };
    match context.snapshot.policy.decide(&request) {
        Decision::Allow { policy } => {
            record.policy = Some(policy);
            Ok(())
        }
        Decision::Deny { policy } => {
            record.policy = Some(policy);
            Err(CallError::Denied { by: Denier::PolicyAfter(Arc::clone(name)), reason: None })
        }
    }
}

/// Asks about the answer of a call. Returns the answer that the client gets.
pub(in crate::call) async fn after_call(
    context: CallContext<'_>,
    target: &BackendTarget<'_>,
    params: &OwnedParams,
    mut response: Response,
    record: &mut CallRecord,
) -> Result<Response, CallError> {
    let (Some(tool), Some(first)) = (target.item.tool(), reader(context, target)) else {
        return Ok(response);
    };
    match is_unread(target, &response) {
        Ok(true) => return Ok(response),
        Ok(false) => {}
        Err(reason) => return Err(withhold_unread(context, first, reason, record)),
    }
    for webhook in meant(&context.snapshot.webhooks.post, tool) {
        let answer = match &response.outcome {
            RpcOutcome::Result(result) => ToolAnswer::Result(result.get()),
            RpcOutcome::Error(error) => ToolAnswer::Error(error.get()),
            RpcOutcome::Arriving(_) => {
                return Err(withhold_unread(context, webhook, "it was not collected", record));
            }
        };
        let call = AskedCall { answer: Some(answer), ..asked(context, tool, params.get(ARGUMENTS)) };
        let Some(new) = ask(context, webhook, WebhookKind::Post, &call, record).await? else { continue };
        response.outcome = match response.outcome {
            RpcOutcome::Error(_) => RpcOutcome::Error(new.into()),
            RpcOutcome::Result(_) | RpcOutcome::Arriving(_) => RpcOutcome::Result(new.into()),
        };
    }
    Ok(response)
}

/// True for an answer without a result, which passes: a question to the client, the state of a task. An error
/// names the reason why the result would pass unread.
fn is_unread(target: &BackendTarget<'_>, response: &Response) -> Result<bool, &'static str> {
    let RpcOutcome::Result(result) = &response.outcome else { return Ok(false) };
    if let Item::Task { .. } = target.item {
        if target.method == methods::TASKS_RESULT {
            return Ok(false);
        }
        return if holds_result(result) { Err("it came with the state of a task") } else { Ok(true) };
    }
    let kind = if response.era == Era::Modern { payload_type(result) } else { ResultType::Complete };
    match kind {
        // A type that no revision defines must not lead around the webhook.
        ResultType::Complete | ResultType::Other(_) => Ok(false),
        ResultType::Task => Err("the call became a task"),
        ResultType::InputRequired => Ok(true),
    }
}

/// True if the state of a task has a result or an error in it.
fn holds_result(state: &Payload) -> bool {
    let Ok(state) = Object::parse(state) else { return true };
    ["result", "error"].iter().any(|key| state.text(key).is_some_and(|value| value != "null"))
}

/// Withholds a result that the webhook cannot be asked about, as a question that cannot be asked does.
fn withhold_unread(
    context: CallContext<'_>,
    webhook: &Webhook,
    reason: &'static str,
    record: &mut CallRecord,
) -> CallError {
    let unaskable = WebhookFailure::Unaskable(reason.to_owned());
    count(context, webhook, WebhookKind::Post, unaskable.word());
    refuse(webhook, WebhookKind::Post, Some(reason), Some(reason.to_owned()), record)
}

fn asked<'a>(context: CallContext<'a>, tool: &'a CatalogTool, arguments: Option<&'a str>) -> AskedCall<'a> {
    let principal = &context.caller.principal;
    AskedCall {
        identity: &principal.identity,
        address: principal.address,
        backend: &tool.backend,
        name: &tool.name,
        original_name: &tool.definition.name,
        arguments,
        answer: None,
    }
}

/// Asks one webhook, and notes its effect on the record. Returns the value that takes the place of the one
/// asked about, if there is one.
async fn ask(
    context: CallContext<'_>,
    webhook: &Webhook,
    kind: WebhookKind,
    call: &AskedCall<'_>,
    record: &mut CallRecord,
) -> Result<Option<Box<RawValue>>, CallError> {
    let settings = webhook.settings();
    let name = &settings.name;
    let span = TraceSpan::begin("webhook", |open| {
        open.client();
        open.text("webhook", name);
        open.text("kind", kind.word());
    });
    let begun = Instant::now();
    let asked = pin!(webhook.ask(kind, call));
    let answer = tokio::select! {
        answer = traces::in_span(asked, &span) => answer,
        () = context.caller.cancel.cancelled() => {
            return Err(CallError::Cancelled { transmission: record.transmission });
        }
    };
    let outcome = match &answer {
        Ok(WebhookDecision::Allowed) => "allowed",
        Ok(WebhookDecision::Changed(_)) => "changed",
        Ok(WebhookDecision::Denied { .. }) => "denied",
        Err(failure) => failure.word(),
    };
    span.text("outcome", outcome);
    let labels = WebhookLabels { webhook: name.to_string(), kind: kind.word() };
    let metrics = context.engine.metrics();
    metrics.webhook_duration.get_or_create(&labels).observe(begun.elapsed().as_secs_f64());
    count(context, webhook, kind, outcome);
    let (reason, told) = match answer {
        Ok(WebhookDecision::Allowed) => return Ok(None),
        Ok(WebhookDecision::Changed(value)) => {
            let effect = if kind == WebhookKind::Post { "replaced_result" } else { "changed_arguments" };
            record.webhooks.push(WebhookEffect { webhook: Arc::clone(name), effect });
            return Ok(Some(value));
        }
        Ok(WebhookDecision::Denied { reason }) => {
            let reason = reason.map(|reason| reason.to_string());
            (reason.clone(), reason.filter(|_| settings.tell_reason))
        }
        Err(failure) => {
            let is_askable = !matches!(failure, WebhookFailure::Unaskable(_));
            let goes_on = is_askable && settings.failure_policy == WebhookFailurePolicy::Ignore;
            if let Some(left_out) = webhook.log_line(&failure) {
                let (subject, tool) = (call.identity.subject(), call.name);
                tracing::warn!(target: "vmcp::policy", webhook = &**name, kind = kind.word(), subject, tool, goes_on, left_out, reason = %failure, "a webhook did not decide about a call");
            }
            if goes_on {
                record.webhooks.push(WebhookEffect { webhook: Arc::clone(name), effect: "ignored_failure" });
                return Ok(None);
            }
            (Some(failure.word().to_owned()), Some(failure.told()))
        }
    };
    Err(refuse(webhook, kind, reason.as_deref(), told, record))
}

/// Counts a question by its outcome.
fn count(context: CallContext<'_>, webhook: &Webhook, kind: WebhookKind, outcome: &'static str) {
    let webhook = webhook.settings().name.to_string();
    let labels = WebhookOutcomeLabels { webhook, kind: kind.word(), outcome };
    context.engine.metrics().webhook_questions.get_or_create(&labels).inc();
}

/// Notes a denial on the record, and returns it as an error. `reason` is for operators, `told` for the
/// client.
fn refuse(
    webhook: &Webhook,
    kind: WebhookKind,
    reason: Option<&str>,
    told: Option<String>,
    record: &mut CallRecord,
) -> CallError {
    let name = Arc::clone(&webhook.settings().name);
    // Read in the log line and the audit event of the denial.
    record.policy = Some(match reason {
        Some(reason) => PolicyId::new(format!("webhook {name}: {reason}")),
        None => PolicyId::new(format!("webhook {name}")),
    });
    let effect = if kind == WebhookKind::Post { "withheld_result" } else { "denied" };
    record.webhooks.push(WebhookEffect { webhook: Arc::clone(&name), effect });
    match kind {
        WebhookKind::Post => CallError::Withheld { webhook: name, reason: told },
        WebhookKind::Mutating | WebhookKind::Validating => {
            CallError::Denied { by: Denier::Webhook(name), reason: told }
        }
    }
}
