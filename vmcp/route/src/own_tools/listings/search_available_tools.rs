//! The handler of search_available_tools: a text in names and descriptions, else the search of find_tool for
//! several words. The way out of a list that does not have the tool.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;
use vmcp_config::OptimTool;
use vmcp_model::catalog::CatalogTool;
use vmcp_search::first_sentence;

use crate::answer::Answer;
use crate::caller::CallContext;
use crate::own_tools::arguments::own_arguments::OwnArguments;
use crate::own_tools::find_tool::search_record;
use crate::own_tools::own_answer::{self, Refusal};
pub(crate) use vmcp_engine::search::{SearchRequest, search};
use vmcp_engine::telemetry::calls::Origin;

/// Most tools that are answered with.
const MAX_TOOLS: usize = 50;

/// Answers with the tools, as a Markdown list and as data.
pub(in crate::own_tools) async fn run(context: CallContext<'_>, arguments: &RawValue) -> Answer {
    let recorder = context.start_own_record(Origin::Own(OptimTool::SearchAvailableTools), arguments);
    own_answer::told(recorder, found(context, arguments).await, FoundTools::text)
}

#[derive(Serialize)]
struct FoundTools {
    query: String,
    tools: Vec<FoundTool>,
    /// Tools that contain the text beyond those in the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<usize>,
}

#[derive(Serialize)]
struct FoundTool {
    name: String,
    server: String,
    description: String,
}

impl FoundTools {
    fn text(&self) -> String {
        let FoundTools { query, tools, left_out } = self;
        if tools.is_empty() {
            return format!("No tools found matching \"{query}\"");
        }
        let count = tools.len() + left_out.unwrap_or_default();
        let lines = tools.iter().map(|tool| format!("- **{}**: {}", tool.name, tool.description));
        let head = format!("Found {count} tool(s) matching \"{query}\"");
        std::iter::once(head).chain(lines).collect::<Vec<_>>().join("\n")
    }
}

async fn found(context: CallContext<'_>, arguments: &RawValue) -> Result<FoundTools, Refusal> {
    let CallContext { engine, snapshot, view, caller } = context;
    let arguments = OwnArguments::parse(arguments)?;
    let limit = snapshot.config.optimizer.limits.description_chars;
    let query = arguments.required(&["query"], limit)?.trim().to_owned();
    let handle = arguments.context_handle()?;
    let needle = query.to_lowercase();
    let contains = |tool: &&CatalogTool| {
        tool.name.to_lowercase().contains(&needle) || tool.description.to_lowercase().contains(&needle)
    };
    let mut tools: Vec<&CatalogTool> = view.tools().map(AsRef::as_ref).filter(contains).collect();
    let mut by_search = false;
    if tools.is_empty() && query.split_whitespace().nth(1).is_some() {
        let request = SearchRequest {
            description: &query,
            keywords: "",
            limit: None,
            visible: Some(view.visible()),
            explain: false,
        };
        let ranking = search(&engine.searcher(snapshot, caller.principal.key()), request).await.ranking;
        tools =
            ranking.hits.iter().filter_map(|hit| view.document(hit.document)).map(AsRef::as_ref).collect();
        by_search = true;
    }
    let left_out = tools.len().saturating_sub(MAX_TOOLS);
    tools.truncate(MAX_TOOLS);
    let keys = || tools.iter().map(|tool| (Arc::clone(&tool.backend), tool.definition.name.as_str().into()));
    let key = context.context_key(handle.as_deref());
    search_record::record(context, key, [&query, ""], keys());
    if let Some(key) = key {
        engine.contexts().with(key, caller.principal.key(), |context| {
            // Tools that contain a text come in the order of their names, not of a search.
            if by_search { context.finds(keys()) } else { context.sees(keys()) }
        });
    }
    let tools = tools.into_iter().map(|tool| FoundTool {
        name: tool.name.clone(),
        server: tool.backend.to_string(),
        description: first_sentence(&tool.description).trim().to_owned(),
    });
    Ok(FoundTools { query, tools: tools.collect(), left_out: (left_out > 0).then_some(left_out) })
}
