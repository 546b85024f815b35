//! The handler of get_tool_alternatives: the tools that may take the place of another, without a failure.

use serde::Serialize;
use serde_json::value::RawValue;
use vmcp_config::OptimTool;

use crate::answer::Answer;
use crate::caller::CallContext;
use crate::own_tools::arguments::own_arguments::{SERVER, TOOL};
use crate::own_tools::fallback::alternatives::{self, Suggestion};
use crate::own_tools::own_answer;
use crate::own_tools::resolve::resolve;
use vmcp_engine::telemetry::calls::Origin;

/// Alternatives returned when the caller names no limit.
const DEFAULT_LIMIT: usize = 5;
/// Largest `limit`; a larger one counts as this.
const MAX_LIMIT: usize = 10;

/// Answers with the alternatives to one tool.
pub(in crate::own_tools) fn run(context: CallContext<'_>, arguments: &RawValue) -> Answer {
    own_answer::answer(context, Origin::Own(OptimTool::GetToolAlternatives), arguments, |arguments| {
        let limit = context.snapshot.config.optimizer.limits.tool_name_chars;
        let (name, server) = (arguments.required(&TOOL, limit)?, arguments.text(&SERVER, limit)?);
        let most = arguments.count("limit", MAX_LIMIT)?.unwrap_or(DEFAULT_LIMIT);
        let tool = resolve(context, &name, server.as_deref())?;
        let found = alternatives::find(context, tool, most);
        let alternatives = found.iter().map(alternatives::Alternative::suggestion).collect();
        Ok(Answered { success: true, server: &tool.backend, tool: &tool.name, alternatives })
    })
}

#[derive(Serialize)]
struct Answered<'a> {
    success: bool,
    server: &'a str,
    tool: &'a str,
    alternatives: Vec<Suggestion<'a>>,
}
