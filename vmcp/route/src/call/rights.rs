//! Rights that are asked for behind the policy, before anything is sent: the scopes of the client's token,
//! then the decision point. Both concern items that the client sees, so that their refusals say what they
//! are.

use vmcp_access::identity::scopes::{self, ScopeShortfall};
use vmcp_access::policy::decision_point::{AskedItem, DecisionPoint, PointFailure, PointQuestion};
use vmcp_backend::CallError;
use vmcp_config::OnDecisionFailure;
use vmcp_engine::access::policy::{Item, PolicyId};
use vmcp_engine::telemetry::calls::CallRecord;
use vmcp_engine::telemetry::metrics::DecisionPointLabels;

use crate::caller::CallContext;
use crate::router::BackendTarget;

/// Id of the decision point in records; its reason follows.
const DECISION_POINT: &str = "decision-point";

/// Checks that the client's token has the scopes of the tool. A task has those of its tool.
pub(super) fn check_scopes(context: CallContext<'_>, target: &BackendTarget<'_>) -> Result<(), CallError> {
    let rules = &context.snapshot.config.incoming_auth.tool_scopes;
    let Some(tool) = target.item.tool().filter(|_| !rules.is_empty()) else { return Ok(()) };
    let needed = rules.needed(&tool.backend, &tool.name, &tool.definition.name);
    match scopes::shortfall(&context.caller.principal.identity, &needed) {
        None => Ok(()),
        Some(ScopeShortfall { missing, ask_for }) => Err(CallError::InsufficientScope { missing, ask_for }),
    }
}

/// Asks the decision point about a call, and notes its refusal on the record.
pub(super) async fn ask(
    point: &DecisionPoint,
    context: CallContext<'_>,
    target: &BackendTarget<'_>,
    arguments: Option<&str>,
    record: &mut CallRecord,
) -> Result<(), CallError> {
    let principal = &context.caller.principal;
    let question = PointQuestion {
        identity: &principal.identity,
        profile: principal.profile.as_deref(),
        action: action(target.item),
        method: &target.method,
        item: asked_item(target),
        arguments,
    };
    let (allowed, source, reason) = match point.ask(&question).await {
        Ok(decision) => {
            let source = if decision.cached { "cached" } else { "asked" };
            (decision.allowed, source, decision.reason.map(|reason| reason.to_string()))
        }
        Err(failure) => {
            let is_askable = !matches!(failure, PointFailure::Unaskable(_));
            let allowed = is_askable && point.settings().on_failure == OnDecisionFailure::Allow;
            let (subject, name) = (principal.identity.subject(), question.item.name);
            tracing::warn!(target: "vmcp::policy", subject, name, allowed, reason = %failure, "the decision point did not decide about a call");
            (allowed, failure.word(), None)
        }
    };
    let decision = if allowed { "allow" } else { "deny" };
    let labels = DecisionPointLabels { decision, source };
    context.engine.metrics().decision_point_questions.get_or_create(&labels).inc();
    if allowed {
        return Ok(());
    }
    // Read in the log line and the audit event of the denial.
    record.policy = Some(match &reason {
        Some(reason) => PolicyId::new(format!("{DECISION_POINT}: {reason}")),
        None => PolicyId::new(DECISION_POINT),
    });
    Err(CallError::Denied { reason: reason.filter(|_| point.settings().tell_reason) })
}

/// Returns the action as policies name it.
fn action(item: Item<'_>) -> &'static str {
    match item {
        Item::Tool(_) | Item::Task { .. } | Item::OwnTool(_) => "call_tool",
        Item::Prompt(_) => "get_prompt",
        Item::Resource(_) => "read_resource",
        Item::Backend => "use_backend",
    }
}

/// Returns the item as the decision point knows it.
fn asked_item<'a>(target: &BackendTarget<'a>) -> AskedItem<'a> {
    let backend: &str = target.backend;
    let (kind, name, original_name) = match target.item {
        Item::Tool(tool) | Item::Task { tool, .. } => {
            ("tool", tool.name.as_str(), Some(tool.definition.name.as_str()))
        }
        Item::OwnTool(name) => ("tool", name, None),
        Item::Prompt(prompt) => ("prompt", prompt.name.as_str(), Some(prompt.definition.name.as_str())),
        Item::Resource(uri) => ("resource", uri, None),
        Item::Backend => ("backend", backend, None),
    };
    AskedItem { kind, name, backend, original_name }
}
