//! The handler of call_hook, and the same for hooks that come over plain HTTP.

use serde_json::value::RawValue;
use vmcp_config::OptimTool;
use vmcp_hooks::hook_call::HookCall;
use vmcp_hooks::report::{HookFailure, HookReport};

use crate::answer::Answer;
use crate::call;
use crate::caller::CallContext;
use crate::own_tools::own_answer::{self, Refusal};
use vmcp_engine::access::agent_sessions::AgentSessionError;
use vmcp_engine::telemetry::calls::Origin;

/// Takes the hook that the arguments are.
pub(in crate::own_tools) async fn run(context: CallContext<'_>, arguments: &RawValue) -> Answer {
    let origin = Origin::Own(OptimTool::CallHook);
    own_answer::answer_later(context, origin, arguments, async |_| take(context, arguments).await).await
}

async fn take(context: CallContext<'_>, arguments: &RawValue) -> Result<HookReport, Refusal> {
    let failure = |failure: HookFailure| Refusal::json(&failure);
    let call = HookCall::read(arguments.get()).map_err(|error| failure(error.into()))?;
    execute_hook(context, call).await.map_err(|error| failure(HookFailure::of_server(error.to_string())))
}

/// True if the caller may report hooks: a policy that permits `optim.call_hook` permits the paths beside it.
/// `arguments` are the arguments that the tool would have.
pub fn may_use_hooks(context: CallContext<'_>, arguments: Option<&str>) -> bool {
    call::authorize_own(context, OptimTool::CallHook, arguments).is_ok()
}

/// Takes a hook of the caller, who may report hooks, and tells viewers and webhooks.
pub async fn execute_hook(context: CallContext<'_>, call: HookCall) -> Result<HookReport, AgentSessionError> {
    let settings = &context.snapshot.config.optimizer.session_hooks;
    let sessions = context.engine.agent_sessions();
    let report = sessions.take_hook(&context.caller.principal, settings, call).await?;
    context.engine.tell_of_hook(&report.news);
    Ok(report)
}
