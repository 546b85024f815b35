//! The handler of recommend_tools: one to three tools for a task, with reasons.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use vmcp_config::{OptimTool, RankingMode};
use vmcp_model::catalog::CatalogTool;

use super::list_tools::brief_metrics;
use super::profile_view::{profiles, under_profile};
use super::ranked::{self, MODES, ModeUsed, RankedTool, RankingRequest};
use crate::answer::Answer;
use crate::caller::CallContext;
use crate::own_tools::arguments::own_arguments::OwnArguments;
use crate::own_tools::own_answer::{self, Refusal};
use crate::own_tools::unavailable;
use vmcp_engine::telemetry::calls::Origin;
use vmcp_engine::telemetry::tool_metrics::MetricsBook;

/// Most recommendations.
const MAX_RECOMMENDATIONS: usize = 3;
/// Most tools that are named as often following a recommended one.
const MAX_FOLLOWING: usize = 3;

/// Answers with the recommended tools.
pub(in crate::own_tools) async fn run(context: CallContext<'_>, arguments: &RawValue) -> Answer {
    let origin = Origin::Own(OptimTool::RecommendTools);
    let work = async |arguments: &OwnArguments<'_>| for_agent(context, arguments).await;
    own_answer::answer_later(context, origin, arguments, work).await
}

/// Recommends tools of the caller's view, or only of the profile that `agent_id` names.
async fn for_agent(context: CallContext<'_>, arguments: &OwnArguments<'_>) -> Result<Box<RawValue>, Refusal> {
    let json = |recommended: Recommended<'_>| to_raw_value(&recommended).unwrap_or_default();
    let limit = context.snapshot.config.optimizer.limits.tool_name_chars;
    let Some(agent) = arguments.text(&["agent_id"], limit)? else {
        return recommended(context, arguments).await.map(json);
    };
    let Some(view) = under_profile(context, &agent) else {
        let available_agents = profiles(context).collect();
        let error = format!("there is no profile `{agent}`");
        return Err(Refusal::json(&UnknownAgent { success: false, error, available_agents }));
    };
    recommended(CallContext { view: &view, ..context }, arguments).await.map(json)
}

#[derive(Serialize)]
struct UnknownAgent<'a> {
    success: bool,
    error: String,
    available_agents: Vec<&'a str>,
}

#[derive(Serialize)]
struct Recommended<'a> {
    success: bool,
    task: String,
    /// The recommendation in words.
    recommendation: String,
    tools: Vec<RecommendedTool<'a>>,
    available_servers: Vec<&'a str>,
    total_tools: usize,
    mode_used: ModeUsed,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

#[derive(Serialize)]
struct RecommendedTool<'a> {
    server: &'a str,
    tool: &'a str,
    score: f32,
    reason: String,
    /// Figures of the caller's calls, if it called the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<Value>,
    /// Tools that were often called next in a session.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    often_followed_by: Vec<&'a str>,
}

impl<'a> RecommendedTool<'a> {
    fn new(
        context: CallContext<'a>,
        ranked: RankedTool<'a>,
        book: Option<&MetricsBook>,
    ) -> RecommendedTool<'a> {
        let RankedTool { tool, score, reason } = ranked;
        let reason = reason.unwrap_or_else(|| ranked::brief(tool));
        let often_followed_by = often_followed_by(context, tool);
        let metrics = book.and_then(|book| brief_metrics(book, tool));
        let (server, name) = (&tool.backend, &tool.name);
        RecommendedTool { server, tool: name, score, reason, metrics, often_followed_by }
    }
}

/// Returns the names of the tools that often followed a tool, as far as the caller may see them.
fn often_followed_by<'a>(context: CallContext<'a>, tool: &CatalogTool) -> Vec<&'a str> {
    let CallContext { engine, view, caller, .. } = context;
    let key = (Arc::clone(&tool.backend), tool.definition.name.as_str().into());
    let next = engine.query_log().often_followed_by(caller.principal.key(), &key);
    let name = |(backend, name): &(Arc<str>, Arc<str>)| {
        let mut found = view.tools_of(backend, name).into_iter();
        found.find(|tool| *tool.definition.name == **name).map(|tool| tool.name.as_str())
    };
    next.iter().filter_map(name).take(MAX_FOLLOWING).collect()
}

async fn recommended<'a>(
    context: CallContext<'a>,
    arguments: &OwnArguments<'_>,
) -> Result<Recommended<'a>, Refusal> {
    let CallContext { snapshot, view, .. } = context;
    let limit = snapshot.config.optimizer.limits.description_chars;
    let task = arguments.required(&["task_description", "task", "query"], limit)?;
    let settings = &snapshot.config.optimizer.recommend_tools;
    // The default way needs no mention: it does without a language model silently.
    let configured = Some(settings.search_mode).filter(|mode| *mode != RankingMode::default());
    let mode = arguments.read("search_mode", MODES)?.or(configured);
    let request = RankingRequest {
        task: &task,
        mode,
        limit: MAX_RECOMMENDATIONS,
        server: None,
        may_sample: true,
        with_metrics: settings.include_metrics,
    };
    let handle = arguments.context_handle()?;
    let ranked = ranked::rank(context, &request).await;
    ranked::remember(context, handle.as_deref(), &task, &ranked);
    let book = settings.include_metrics.then(|| context.engine.metrics_for(context.caller.principal.key()));
    let tools = ranked.tools.into_iter();
    let tools: Vec<RecommendedTool<'a>> =
        tools.map(|ranked| RecommendedTool::new(context, ranked, book.as_deref())).collect();
    // The reasons stand beside the tools.
    let names = tools.iter().map(|found| format!("{} of {}", found.tool, found.server));
    let recommendation = match names.collect::<Vec<_>>().join(", or ") {
        none if none.is_empty() => "No tool fits.".to_owned(),
        names => format!("Use {names}."),
    };
    let down = unavailable::servers(context);
    let is_up = |backend: &&Arc<str>| down.iter().all(|server| *server.server != ***backend);
    let servers = snapshot.backends.keys().filter(|backend| view.has_backend(backend)).filter(is_up);
    Ok(Recommended {
        success: true,
        recommendation,
        tools,
        available_servers: servers.map(AsRef::as_ref).collect(),
        total_tools: view.visible_tools,
        mode_used: ranked.mode,
        warning: ranked.warning,
        task,
    })
}
