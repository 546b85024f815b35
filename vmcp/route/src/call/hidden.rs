//! Records of calls of items that are not in the caller's view: the answer is that for an unknown item, and
//! operators read who asked, and whether there is one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use vmcp_model::catalog::{CatalogTool, ResourceTarget};
use vmcp_wire::methods;
use vmcp_wire::sealed::task_id::TaskId;

use super::authorize;
use crate::caller::CallContext;
use crate::router::BackendTarget;
use vmcp_engine::access::policy::Item;
use vmcp_engine::random::now;
use vmcp_engine::telemetry::calls::{CallRecorder, Origin, Outcome};

/// Time from the begin of a request to the answer that its item is unknown, where policies may hide items:
/// longer than any look-up, so that a hidden item cannot be told from an unknown one by the time of the
/// answer.
const REFUSAL_TIME: Duration = Duration::from_millis(5);

/// Waits until a refusal may be told: [`REFUSAL_TIME`] after the request began.
pub async fn hold(context: CallContext<'_>, begun: Instant) {
    if context.snapshot.policy.restricts_some() {
        tokio::time::sleep_until((begun + REFUSAL_TIME).into()).await;
    }
}

/// Records a call of a tool.
pub(crate) fn record_tool(context: CallContext<'_>, name: &str) {
    match context.snapshot.unfiltered().tool(name).filter(|tool| tool.listed) {
        Some(tool) => record_call(context, context.start_record(Origin::Client), tool),
        None => context.refuse_unknown(methods::TOOLS_CALL, name),
    }
}

/// Ends the record of a call of a tool.
pub(crate) fn record_call(context: CallContext<'_>, recorder: CallRecorder, tool: &Arc<CatalogTool>) {
    record(context, recorder, BackendTarget::tool(context.snapshot, tool));
}

/// Records a request for a prompt.
pub(crate) fn record_prompt(context: CallContext<'_>, name: &str, method: &'static str) {
    let Some(prompt) = context.snapshot.unfiltered().prompt(name) else {
        return context.refuse_unknown(method, name);
    };
    let target = BackendTarget::read(context.snapshot, &prompt.backend, method, Item::Prompt(prompt));
    record(context, context.start_record(Origin::Client), target);
}

/// Records a request for a resource or a template.
pub(crate) fn record_resource(context: CallContext<'_>, uri: &str, method: &'static str) {
    let catalog = context.snapshot.unfiltered();
    let listed = catalog.resources_for(uri).next().map(ResourceTarget::backend);
    let template = || catalog.templates.iter().find(|template| template.definition.uri_template == uri);
    let Some(backend) = listed.or_else(|| template().map(|template| &template.backend)) else {
        return context.refuse_unknown(method, uri);
    };
    let target = BackendTarget::read(context.snapshot, backend, method, Item::Resource(uri));
    record(context, context.start_record(Origin::Client), target);
}

/// Records a request for a task that the caller may not reach: the policy says why, if its tool is known.
pub(crate) fn record_task(context: CallContext<'_>, shown: &str, method: &'static str) {
    let binding = context.caller.principal.binding();
    let Ok(task) = TaskId::open(&context.snapshot.ring(), shown, &binding, now()) else {
        return context.refuse_unknown(method, shown);
    };
    let mut tools = context.snapshot.unfiltered().tools_of(&task.backend);
    let Some(tool) = tools.find(|tool| tool.definition.name == task.tool) else {
        return context.refuse_unknown(method, shown);
    };
    let item = Item::Task { tool, id: &task.id };
    let target = BackendTarget::read(context.snapshot, &tool.backend, method, item);
    record(context, context.start_record(Origin::Client), target);
}

/// Ends a record as denied; the policy is asked for its reason.
fn record(context: CallContext<'_>, recorder: CallRecorder, target: BackendTarget<'_>) {
    // A policy that allows what its view hides: nothing is sent all the same.
    if let Ok(allowed) = authorize(context, recorder, target, None) {
        allowed.settle(Outcome::Denied);
    }
}
