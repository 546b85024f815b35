//! The handler of search_tools: names and scores of the tools that fit, up to a hundred.

use serde::Serialize;
use serde_json::value::RawValue;
use vmcp_config::OptimTool;

use super::ranked::{self, MODES, ModeUsed, RankingRequest};
use crate::answer::Answer;
use crate::caller::CallContext;
use crate::own_tools::arguments::own_arguments::{OwnArguments, SERVER};
use crate::own_tools::own_answer::{self, Refusal};
use vmcp_engine::telemetry::calls::Origin;

/// Tools of an answer if the caller names no number.
const DEFAULT_LIMIT: usize = 20;
/// Most tools of an answer.
const MAX_LIMIT: usize = 100;

/// Answers with the tools, best first.
pub(in crate::own_tools) async fn run(context: CallContext<'_>, arguments: &RawValue) -> Answer {
    let origin = Origin::Own(OptimTool::SearchTools);
    own_answer::answer_later(context, origin, arguments, async |arguments| found(context, arguments).await)
        .await
}

#[derive(Serialize)]
struct FoundTools<'a> {
    success: bool,
    query: String,
    mode_used: ModeUsed,
    tools: Vec<FoundTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

#[derive(Serialize)]
struct FoundTool<'a> {
    server: &'a str,
    tool: &'a str,
    score: f32,
}

async fn found<'a>(
    context: CallContext<'a>,
    arguments: &OwnArguments<'_>,
) -> Result<FoundTools<'a>, Refusal> {
    let limits = &context.snapshot.config.optimizer.limits;
    let query = arguments.required(&["query"], limits.description_chars)?;
    let server = arguments.text(&SERVER, limits.tool_name_chars)?;
    let limit = arguments.count("limit", MAX_LIMIT)?.unwrap_or(DEFAULT_LIMIT);
    let request = RankingRequest {
        task: &query,
        mode: arguments.read("mode", MODES)?,
        limit,
        server: server.as_deref(),
        may_sample: false,
        with_metrics: context.snapshot.config.optimizer.recommend_tools.include_metrics,
    };
    let handle = arguments.context_handle()?;
    let ranked = ranked::rank(context, &request).await;
    ranked::remember(context, handle.as_deref(), &query, &ranked);
    let tools = ranked.tools.iter().map(|ranked| FoundTool {
        server: &ranked.tool.backend,
        tool: &ranked.tool.name,
        score: ranked.score,
    });
    let tools = tools.collect();
    Ok(FoundTools { success: true, query, mode_used: ranked.mode, tools, warning: ranked.warning })
}
