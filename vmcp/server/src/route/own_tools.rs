//! Handlers of vmcp's own tools: find_tool searches all other tools, call_tool calls any of them. Each call
//! leaves one audit line.

mod audit;
mod call_tool;
mod find_tool;
mod response_limit;
mod tool_result;

use vmcp_json::object::Object;
use vmcp_json::text::empty_object;

use super::answer::Answer;
use super::caller::Caller;
use crate::engine::{Engine, Snapshot, View};
use crate::optim::names::{OptimTool, OwnName, own_name};
use audit::AuditRecord;

pub(super) use tool_result::failed_call;

/// Returns the own tool that a called name means, if any. A reserved name is never a backend's; a bare one is
/// an own tool's only while no backend's tool has it.
pub(super) fn called(snapshot: &Snapshot, view: &View, name: &str) -> Option<OptimTool> {
    let optimizer = &snapshot.config.optimizer;
    match own_name(name).filter(|_| optimizer.enabled)? {
        OwnName::Reserved(tool) => Some(tool),
        OwnName::Bare(tool) => (optimizer.legacy_aliases && view.tool(name).is_none()).then_some(tool),
        OwnName::Unknown => None,
    }
}

/// Runs an own tool. `params` are those of `tools/call`.
pub(super) async fn run(
    engine: &Engine,
    snapshot: &Snapshot,
    caller: &Caller,
    tool: OptimTool,
    params: &Object<'_>,
) -> Answer {
    let given = params.get("arguments").filter(|raw| raw.get() != "null");
    let arguments = given.unwrap_or(empty_object());
    let mut record = AuditRecord::start(tool);
    let answer = match tool {
        OptimTool::Find => Answer::own(find_tool::run(engine, snapshot, caller, arguments).await),
        OptimTool::Call => call_tool::run(engine, snapshot, caller, params, arguments, &mut record).await,
    };
    record.finish(&answer);
    answer
}

#[cfg(test)]
mod tests;
