//! Our own tools: find_tool searches all others, call_tool calls any of them.

mod audit;
pub mod call_arguments;
mod call_tool;
pub mod definitions;
pub mod find_arguments;
mod find_tool;
pub mod input;
pub mod names;
mod outcome;
mod response_limit;
mod schema_cost;
pub mod search;
pub mod validation;

use serde_json::value::RawValue;
use vmcp_backend::CallError;
use vmcp_json::object::Object;
use vmcp_model::catalog::CatalogTool;

use crate::engine::{Engine, Snapshot, View};
use crate::route::{Answer, Caller};
use audit::Record;
use call_arguments::empty_object;
use names::{OptimTool, Own, own};
use outcome::Failure;

/// Which of our tools a called name means, if any. Reserved names are ours whatever a backend offers (CARD-04); bare ones
/// only while no backend's tool has them (R022-45).
pub(crate) fn called(snapshot: &Snapshot, view: &View, name: &str) -> Option<OptimTool> {
    let optimizer = &snapshot.config.optimizer;
    match own(name).filter(|_| optimizer.enabled)? {
        Own::Reserved(tool) => Some(tool),
        Own::Bare(tool) => (optimizer.legacy_aliases && view.tool(name).is_none()).then_some(tool),
        Own::Unknown => None,
    }
}

/// Runs one of our tools. `params` are those of `tools/call`.
pub(crate) async fn run(
    engine: &Engine,
    snapshot: &Snapshot,
    caller: &Caller,
    tool: OptimTool,
    params: &Object<'_>,
) -> Answer {
    let empty = empty_object();
    let arguments: &RawValue = params.get("arguments").filter(|raw| raw.get() != "null").unwrap_or(&empty);
    let mut record = Record::start(tool);
    let answer = match tool {
        OptimTool::Find => Answer::own(find_tool::run(engine, snapshot, caller, arguments).await),
        OptimTool::Call => call_tool::run(engine, snapshot, caller, params, arguments, &mut record).await,
    };
    record.finish(&answer);
    answer
}

/// The answer to a call that its backend did not answer, for the model that made it.
pub(crate) fn failed_call(tool: &CatalogTool, error: &CallError) -> Answer {
    Answer::own(Failure::of_call(&tool.backend, &tool.definition.name, error).to_result())
}

#[cfg(test)]
mod tests;
