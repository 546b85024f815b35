//! `vmcp find`: searches tools as find_tool does, and shows the answer.

mod search_answer;
mod unavailable;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::cli::connection::{self, CallFailure, ClaimsFile, Connection, Consent, Readiness, ServerOptions};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::console::{notes, tool_result};
use crate::cli::options::GlobalOptions;
use search_answer::SearchAnswer;
use vmcp_engine::optim::definitions::MAX_FOUND_TOOLS;

/// Search the tools of all backends
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vmcp find \"who is following this ticket\"
  vmcp find \"issues of a sprint\" --keywords \"jira agile\" --explain
  vmcp find \"current weather\" -o json | jq -r '.tools[0].name'")]
pub(in crate::cli) struct Arguments {
    /// Task of the tool, in your own words
    query: String,
    /// Terms that the tool should contain, separated by blanks
    #[arg(short, long, value_name = "TERMS")]
    keywords: Option<String>,
    /// Maximum number of tools to show [default: optimizer.search.maxTools]
    #[arg(short, long, value_name = "N", value_parser = RangedU64ValueParser::<u64>::new().range(1..=MAX_FOUND_TOOLS as u64))]
    limit: Option<u64>,
    /// Explain the place of each tool: scores, ranks, terms and clauses
    #[arg(short, long)]
    explain: bool,
    /// File with the claims of a client, as JSON: find what its policies let it see, in this process
    #[arg(long = "as", value_name = "FILE")]
    claims: Option<ClaimsFile>,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    server_options: ServerOptions,
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { query, keywords, limit, explain, claims, output: format, server_options } = arguments;
    let mut request = Map::new();
    request.insert("tool_description".to_owned(), query.into());
    request.extend(keywords.map(|keywords| ("tool_keywords".to_owned(), keywords.into())));
    request.extend(limit.map(|limit| ("limit".to_owned(), limit.into())));
    // A table says, without being asked, when words had no part in it.
    request.insert("explain".to_owned(), (explain || format == OutputFormat::Table).into());
    let wait = server_options.wait;
    let work = async |connection: &Connection| {
        let mut result = search(connection, request.clone()).await?;
        let tools = result.pointer("/structuredContent/tools").and_then(Value::as_array);
        if tools.is_some_and(Vec::is_empty) && connection.wait_for_starts(wait).await {
            result = search(connection, request).await?;
        }
        if tool_result::is_error(&result) {
            return Err(CommandFailure::new(tool_result::text(&result)));
        }
        let answer = result.get("structuredContent").cloned().unwrap_or_default();
        let found = SearchAnswer::deserialize(&answer)?;
        output::print(format, &answer, || found.human_text(explain))?;
        if found.degraded {
            let reason = found.degraded_reason.as_deref().unwrap_or("no reason given");
            notes::note(&format!(
                "degraded ({} search): {reason}; `vmcp doctor` says what to do",
                found.search_mode
            ));
        }
        if found.is_by_meaning_alone() {
            notes::note("no tool shares a word with the query; these are the nearest in meaning");
        }
        let down = unavailable::with_reasons(&found.unavailable, connection).await;
        for line in unavailable::lines(&down) {
            notes::note(&line);
        }
        if !found.tools.is_empty() {
            return Ok(Exit::Done);
        }
        let (note, exit) = match (down.is_empty(), found.searched_nothing()) {
            (false, true) => ("there is no tool to search as long as no server answers", Exit::Unreachable),
            (false, false) => (
                "no tool of the other servers fits; use other words, or see `vmcp tools`",
                Exit::NothingFound,
            ),
            (true, _) => ("no tool fits; use other words, or see `vmcp tools`", Exit::NothingFound),
        };
        notes::note(note);
        Ok(exit)
    };
    match claims {
        Some(claims) => connection::with_identity(global, claims, &Readiness::Search, wait, work),
        None => connection::with_connection(global, &server_options, &Readiness::Search, work),
    }
}

async fn search(connection: &Connection, request: Map<String, Value>) -> Result<Value, CommandFailure> {
    connection.call("optim.find_tool", request, Consent::Absent).await.map_err(|failure| match failure {
        CallFailure::UnknownTool => CommandFailure::new("the server does not search")
            .remedy("set `optimizer: { enabled: true }` in its configuration"),
        CallFailure::Other(failure) => failure,
    })
}
