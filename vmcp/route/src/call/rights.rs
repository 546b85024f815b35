//! Rights that are checked after the policy and before the request is sent: first the scopes of the client's
//! token, then, after the rate limit, webhooks and the decision point. The client sees these items, so a
//! refusal names its reason.

pub(super) mod webhooks;

use vmcp_access::identity::scopes::{self, ScopeShortfall};
use vmcp_access::policy::decision_point::{AskedItem, DecisionPoint, PointFailure, PointQuestion};
use vmcp_backend::{CallError, Denier};
use vmcp_config::OnDecisionFailure;
use vmcp_engine::access::policy::PolicyId;
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
        method: &target.method,
        item: AskedItem {
            kind: target.item.kind(),
            name: target.item.name(target.backend),
            backend: target.backend,
            original_name: target.item.original_name(),
        },
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
            if let Some(left_out) = point.log_line(&failure) {
                let (subject, name) = (principal.identity.subject(), question.item.name);
                tracing::warn!(target: "vmcp::policy", subject, name, allowed, left_out, reason = %failure, "the decision point did not decide about a call");
            }
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
    let reason = reason.filter(|_| point.settings().tell_reason);
    Err(CallError::Denied { by: Denier::DecisionPoint, reason })
}
