//! The handler of list_tools: the tools of the caller's view by server, each with a brief description.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use vmcp_model::catalog::CatalogTool;
use vmcp_search::first_sentence;

use super::own_answer::{self, Refusal};
use crate::optim::own_arguments::SERVER;
use crate::route::answer::Answer;
use crate::route::caller::CallContext;
use crate::telemetry::calls::Origin;
use crate::telemetry::tool_metrics::MetricsBook;
use crate::telemetry::tool_metrics::report::rounded;
use vmcp_config::OptimTool;

/// Most characters of a brief description.
const MAX_BRIEF_CHARS: usize = 100;

/// Answers with the tools of one server, or of all.
pub(in crate::route::own_tools) fn run(context: CallContext<'_>, arguments: &RawValue) -> Answer {
    own_answer::answer(context, Origin::Own(OptimTool::ListTools), arguments, |arguments| {
        let limit = context.snapshot.config.optimizer.limits.tool_name_chars;
        let server = arguments.text(&SERVER, limit)?;
        let with_metrics = arguments.read("include_metrics", "true or false")?.unwrap_or(false);
        let book = with_metrics.then(|| context.engine.total_metrics());
        let view = context.view;
        let servers = context.snapshot.backends.keys().filter(|backend| view.has_backend(backend));
        let tools_of = |backend: &str| {
            let mut tools: Vec<_> = view.tools().filter(|tool| &*tool.backend == backend).collect();
            tools.sort_by(|one, other| one.name.cmp(&other.name));
            tools.into_iter().map(|tool| ListedTool::new(tool, book.as_deref())).collect::<Vec<_>>()
        };
        let Some(wanted) = server else {
            let servers = servers.map(|name| ServerTools { name, tools: tools_of(name) }).collect();
            return Ok(Listing::All { success: true, servers });
        };
        let Some(server) = servers.clone().find(|name| name.eq_ignore_ascii_case(&wanted)) else {
            let error = format!("server not found: {wanted}");
            let available_servers = servers.map(AsRef::as_ref).collect();
            return Err(Refusal::json(&UnknownServer { success: false, error, available_servers }));
        };
        Ok(Listing::One { success: true, server, tools: tools_of(server) })
    })
}

#[derive(Serialize)]
#[serde(untagged)]
enum Listing<'a> {
    One { success: bool, server: &'a str, tools: Vec<ListedTool<'a>> },
    All { success: bool, servers: Vec<ServerTools<'a>> },
}

#[derive(Serialize)]
struct ServerTools<'a> {
    name: &'a str,
    tools: Vec<ListedTool<'a>>,
}

/// The answer for a server that the caller does not see.
#[derive(Serialize)]
pub(in crate::route::own_tools) struct UnknownServer<'a> {
    pub(in crate::route::own_tools) success: bool,
    pub(in crate::route::own_tools) error: String,
    pub(in crate::route::own_tools) available_servers: Vec<&'a str>,
}

#[derive(Serialize)]
struct ListedTool<'a> {
    name: &'a str,
    brief: String,
    /// `null` for a tool that was never called.
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<Value>,
}

impl<'a> ListedTool<'a> {
    fn new(tool: &'a CatalogTool, book: Option<&MetricsBook>) -> ListedTool<'a> {
        let brief_metrics = |book: &MetricsBook| match book.get(&tool.backend, &tool.definition.name) {
            None => Value::Null,
            Some(metrics) => json!({
                "success_rate": rounded(metrics.success_rate(), 2),
                "avg_latency_ms": rounded(metrics.avg_latency_ms, 1),
                "call_count": metrics.call_count,
            }),
        };
        ListedTool { name: &tool.name, brief: brief(&tool.description), metrics: book.map(brief_metrics) }
    }
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
