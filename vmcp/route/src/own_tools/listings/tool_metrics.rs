//! The handlers of get_tool_metrics and reset_tool_metrics, for tools of the caller's view. Texts of errors
//! are not shown: they may be of another caller's call.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use vmcp_config::OptimTool;
use vmcp_store::ToolMetrics;

use crate::answer::Answer;
use crate::answer::tool_result;
use crate::caller::CallContext;
use crate::own_tools::arguments::input::InputError;
use crate::own_tools::arguments::own_arguments::{OwnArguments, SERVER, TOOL};
use crate::own_tools::own_answer::{self, Refusal};
use vmcp_engine::engine::View;
pub(crate) use vmcp_engine::engine::replicas::Census;
use vmcp_engine::telemetry::calls::{Origin, Outcome};
use vmcp_engine::telemetry::tool_metrics::Filter;
pub(crate) use vmcp_engine::telemetry::tool_metrics::report::{
    MetricsQuery, MetricsScope, ToolReport, report,
};

/// Most tools that `sort` returns.
const MAX_LIMIT: usize = 1000;

/// Answers with the figures of tools.
pub(crate) async fn get(context: CallContext<'_>, arguments: &RawValue) -> Answer {
    context.engine.gather_metrics().await;
    own_answer::answer(context, Origin::Own(OptimTool::GetToolMetrics), arguments, |arguments| {
        let query = query(context, arguments)?;
        let tools = reported(context, &query);
        let all = query.scope != Some(MetricsScope::Own);
        let replicas = context.engine.census(context.snapshot).filter(|_| all).map(Replicas::from);
        Ok(match (&query.server, &query.tool) {
            _ if query.sort.is_some() => Figures::Sorted { success: true, replicas, tools },
            (Some(_), Some(tool)) if tools.is_empty() => {
                let error = format!("no call of {tool} was counted");
                return Err(Refusal::json(&NotCounted { success: false, error }));
            }
            (Some(_), _) => Figures::Sorted { success: true, replicas, tools },
            (None, _) => Figures::Grouped { success: true, replicas, servers: grouped(tools) },
        })
    })
}

/// Forgets the figures of tools.
pub(in crate::own_tools) async fn reset(context: CallContext<'_>, arguments: &RawValue) -> Answer {
    let recorder = context.start_own_record(Origin::Own(OptimTool::ResetToolMetrics), arguments);
    let query =
        OwnArguments::parse(arguments).map_err(Refusal::from).and_then(|given| query(context, &given));
    let query = match query {
        Ok(query) => query,
        Err(refusal) => {
            recorder.settle(Outcome::ToolError);
            return Answer::own(own_answer::refused(refusal));
        }
    };
    let mut reset = 0;
    for tool in reported(context, &query) {
        let filter = Filter { backend: Some(tool.server), tool: Some(tool.tool) };
        reset += context.engine.reset_metrics(filter, false).await;
    }
    recorder.settle(Outcome::Ok);
    Answer::own(tool_result::structured(&to_raw_value(&Reset { success: true, reset }).unwrap_or_default()))
}

fn query(context: CallContext<'_>, arguments: &OwnArguments<'_>) -> Result<MetricsQuery, Refusal> {
    let limit = context.snapshot.config.optimizer.limits.tool_name_chars;
    let server = arguments.text(&SERVER, limit)?;
    let tool = arguments.text(&TOOL, limit)?;
    // The listed name means one tool; figures are kept under the server's own.
    let listed = tool.as_deref().and_then(|name| context.view.tool(name));
    let (server, tool) = match listed {
        Some(found) if server.is_none() => {
            (Some(found.backend.to_string()), Some(found.definition.name.clone()))
        }
        _ => (server, tool),
    };
    Ok(MetricsQuery {
        server,
        tool,
        sort: arguments.read("sort", r#""top" or "failing""#)?,
        limit: arguments.count("limit", MAX_LIMIT)?,
        min_calls: arguments.read("min_calls", "a whole number")?,
        threshold: threshold(arguments)?,
        scope: arguments.read("scope", r#""all" or "own""#)?,
    })
}

fn threshold(arguments: &OwnArguments<'_>) -> Result<Option<f64>, InputError> {
    let expected = "a number from 0 to 1";
    let threshold: Option<f64> = arguments.read("threshold", expected)?;
    if threshold.is_some_and(|threshold| !(0.0..=1.0).contains(&threshold)) {
        return Err(InputError::invalid("threshold", expected));
    }
    Ok(threshold)
}

/// Returns the figures of the tools that the caller sees.
fn reported(context: CallContext<'_>, query: &MetricsQuery) -> Vec<ToolReport> {
    let (catalog, view) = (context.snapshot.unfiltered(), context.view);
    let sees = |metrics: &ToolMetrics| is_visible(context, view, metrics);
    let book = match query.scope {
        Some(MetricsScope::Own) => context.engine.tool_metrics().book(),
        Some(MetricsScope::All) | None => context.engine.total_metrics(),
    };
    let report = report(&book, Some(catalog), query, sees);
    let without_text = |tool| ToolReport { last_error: None, ..tool };
    report.tools.into_iter().map(without_text).collect()
}

/// True for a tool of the view, and for a removed one of a server of which the view hides nothing.
fn is_visible(context: CallContext<'_>, view: &View, metrics: &ToolMetrics) -> bool {
    let catalog = context.snapshot.unfiltered();
    if !catalog.tool_of(&metrics.backend, &metrics.tool).is_empty() {
        return !view.tools_of(&metrics.backend, &metrics.tool).is_empty();
    }
    let whole = || {
        let mut offered = catalog.tools.iter().filter(|tool| *tool.backend == *metrics.backend);
        offered.all(|tool| view.tool(&tool.name).is_some())
    };
    view.has_backend(&metrics.backend) && whole()
}

fn grouped(tools: Vec<ToolReport>) -> Vec<ServerFigures> {
    let mut servers: Vec<ServerFigures> = Vec::new();
    for tool in tools {
        match servers.last_mut().filter(|last| last.server == tool.server) {
            Some(last) => last.tools.push(tool),
            None => servers.push(ServerFigures { server: tool.server.clone(), tools: vec![tool] }),
        }
    }
    servers
}

#[derive(Serialize)]
#[serde(untagged)]
enum Figures {
    Sorted {
        success: bool,
        #[serde(flatten)]
        replicas: Option<Replicas>,
        tools: Vec<ToolReport>,
    },
    Grouped {
        success: bool,
        #[serde(flatten)]
        replicas: Option<Replicas>,
        servers: Vec<ServerFigures>,
    },
}

/// The replicas whose figures are summed. Addresses are for operators.
#[derive(Serialize)]
struct Replicas {
    /// Replicas that answer, this one included.
    replicas: usize,
    /// Number of replicas that do not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreachable_replicas: Option<usize>,
}

impl From<Census> for Replicas {
    fn from(Census { replicas, unreachable }: Census) -> Replicas {
        Replicas { replicas, unreachable_replicas: Some(unreachable.len()).filter(|missing| *missing > 0) }
    }
}

#[derive(Serialize)]
struct ServerFigures {
    server: String,
    tools: Vec<ToolReport>,
}

#[derive(Serialize)]
struct NotCounted {
    success: bool,
    error: String,
}

#[derive(Serialize)]
struct Reset {
    success: bool,
    /// Tools that had figures.
    reset: usize,
}
