//! The handler of list_tools: the tools of the caller's view by server, each with a brief description.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use vmcp_model::catalog::CatalogTool;
use vmcp_search::first_sentence;

use super::page::{Page, Rest};
use crate::answer::Answer;
use crate::caller::CallContext;
use crate::own_tools::arguments::own_arguments::SERVER;
use crate::own_tools::own_answer;
use crate::own_tools::resolve::visible_server;
use vmcp_config::OptimTool;
use vmcp_engine::telemetry::calls::Origin;
pub(crate) use vmcp_engine::telemetry::tool_metrics::MetricsBook;
pub(crate) use vmcp_engine::telemetry::tool_metrics::report::rounded;

/// Most characters of a brief description.
const MAX_BRIEF_CHARS: usize = 100;

/// Answers with the tools of one server, or of all.
pub(in crate::own_tools) async fn run(context: CallContext<'_>, arguments: &RawValue) -> Answer {
    let origin = Origin::Own(OptimTool::ListTools);
    let changed_at = changed_at(context).await;
    own_answer::answer(context, origin, arguments, |arguments| {
        let limit = context.snapshot.config.optimizer.limits.tool_name_chars;
        let server = arguments.text(&SERVER, limit)?;
        let with_metrics = arguments.read("include_metrics", "true or false")?.unwrap_or(false);
        let wanted_page = Page::read(arguments)?;
        let book = with_metrics.then(|| context.engine.total_metrics());
        let view = context.view;
        let servers = context.snapshot.backends.keys().filter(|backend| view.has_backend(backend));
        let tools_of = |backend: &str| {
            let mut tools: Vec<_> = view.tools().filter(|tool| &*tool.backend == backend).collect();
            tools.sort_by(|one, other| one.name.cmp(&other.name));
            tools
        };
        let listed = |tool| ListedTool::new(tool, book.as_deref(), &changed_at);
        let Some(wanted) = server else {
            let all: Vec<_> = servers.map(|name| (name.as_ref(), tools_of(name))).collect();
            let (servers, rest) = wanted_page.of_servers(&all);
            let servers = servers.into_iter().map(|(name, tools)| {
                let tools = tools.iter().map(|tool| listed(*tool)).collect();
                ServerTools { name, tools }
            });
            return Ok(Listing::All { success: true, servers: servers.collect(), rest });
        };
        let server = visible_server(context, &wanted)?;
        let tools = tools_of(server);
        let (tools, rest) = wanted_page.of_tools(&tools);
        let tools = tools.iter().map(|tool| listed(*tool)).collect();
        Ok(Listing::One { success: true, server, tools, rest })
    })
}

#[derive(Serialize)]
#[serde(untagged)]
enum Listing<'a> {
    One {
        success: bool,
        server: &'a str,
        tools: Vec<ListedTool<'a>>,
        #[serde(flatten)]
        rest: Option<Rest>,
    },
    All {
        success: bool,
        servers: Vec<ServerTools<'a>>,
        #[serde(flatten)]
        rest: Option<Rest>,
    },
}

#[derive(Serialize)]
struct ServerTools<'a> {
    name: &'a str,
    tools: Vec<ListedTool<'a>>,
}

#[derive(Serialize)]
struct ListedTool<'a> {
    name: &'a str,
    brief: String,
    /// `null` for a tool that was never called.
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<Value>,
    /// Time of the definition's last change, if it ever changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_schema_change: Option<String>,
}

impl<'a> ListedTool<'a> {
    pub(crate) fn new(
        tool: &'a CatalogTool,
        book: Option<&MetricsBook>,
        changed_at: &ChangeTimes,
    ) -> ListedTool<'a> {
        let metrics = |book: &MetricsBook| brief_metrics(book, tool).unwrap_or(Value::Null);
        let key = (tool.backend.to_string(), tool.definition.name.clone());
        ListedTool {
            name: &tool.name,
            brief: brief(&tool.description),
            metrics: book.map(metrics),
            last_schema_change: changed_at.get(&key).cloned(),
        }
    }
}

/// Returns success rate, latency and calls of a tool; `None` for a tool that was never called.
pub(super) fn brief_metrics(book: &MetricsBook, tool: &CatalogTool) -> Option<Value> {
    let metrics = book.get(&tool.backend, &tool.definition.name)?;
    Some(json!({
        "success_rate": rounded(metrics.success_rate(), 2),
        "avg_latency_ms": rounded(metrics.avg_latency_ms, 1),
        "call_count": metrics.call_count,
    }))
}

/// Times of the last change, by server and the tool's own name there.
type ChangeTimes = HashMap<(String, String), String>;

/// Returns when definitions changed; without a readable database, no time is known.
async fn changed_at(context: CallContext<'_>) -> ChangeTimes {
    let changes = context.engine.changed_tools().await.unwrap_or_default();
    changes.into_iter().map(|change| ((change.server, change.tool), change.at)).collect()
}

/// Returns the first sentence of a description, or the first 100 characters of a longer one.
fn brief(description: &str) -> String {
    let sentence = first_sentence(description);
    let sentence = sentence.trim();
    if sentence.is_empty() {
        return "No description available".to_owned();
    }
    match sentence.char_indices().nth(MAX_BRIEF_CHARS) {
        None => sentence.to_owned(),
        Some((end, _)) => format!("{}...", sentence.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brief_description_is_a_sentence_or_a_hundred_characters() {
        let long = "x".repeat(300);
        for (description, expected) in [
            ("Fetch documentation for a library. More follows.", "Fetch documentation for a library."),
            ("", "No description available"),
            ("One without an end", "One without an end"),
        ] {
            assert_eq!(brief(description), expected);
        }
        assert_eq!(brief(&long).len(), 103);
    }
}
