//! [`OwnLogReport`]: what a log of searches says about a catalog, for an operator to act on.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use vmcp_config::Config;
use vmcp_engine::engine::snapshot::index_document;
use vmcp_engine::telemetry::query_log::reading::LogReading;
use vmcp_model::catalog::CatalogTool;
use vmcp_search::measures::search_log::figures::{SearchFigures, figures};
use vmcp_search::measures::search_log::suggestions::{Advice, Suggestion, suggestions};
use vmcp_search::measures::search_log::tool_uses::tool_uses;
use vmcp_search::measures::search_log::wanted::{Wanted, wanted};
use vmcp_search::measures::search_log::{LoggedSearch, LoggedTool};

use super::super::corpus::Corpus;
use crate::cli::console::output;

/// Rows of each table that people see; the other formats have all.
const MAX_ROWS: usize = 15;

/// The report on a log. Scripts rely on the names.
#[derive(Debug, Serialize)]
pub(super) struct OwnLogReport {
    #[serde(flatten)]
    figures: SearchFigures,
    /// Searches that led to no tool that they found, grouped by likeness.
    wanted: Vec<Wanted>,
    /// Tools that searches found, and that were never called.
    found_never_called: Vec<ToolCount>,
    /// Tools that were called, and that no search found.
    called_by_name_only: Vec<ToolCount>,
    suggestions: Vec<Suggestion>,
}

/// A tool, and the number of searches or calls.
#[derive(Debug, Serialize)]
struct ToolCount {
    #[serde(flatten)]
    tool: LoggedTool,
    count: u64,
}

impl OwnLogReport {
    /// Reports on a log, by the definitions of a catalog and the pins of its configuration.
    pub(super) fn new(log: &LogReading, corpus: &Corpus, config: &Config) -> OwnLogReport {
        let LogReading { searches, unsearched } = log;
        let document = |tool: &LoggedTool| listed(corpus, tool).map(index_document::document);
        let is_pinned = |tool: &LoggedTool| {
            listed(corpus, tool).is_some_and(|tool| config.optimizer.pinned_tools.contains(&tool.name))
        };
        let is_called = |tool: &LoggedTool| unsearched.contains_key(tool);
        OwnLogReport {
            figures: figures(searches),
            wanted: wanted(searches),
            found_never_called: found_never_called(searches, unsearched),
            called_by_name_only: called_by_name_only(searches, unsearched),
            suggestions: suggestions(searches, document, is_pinned, is_called),
        }
    }

    /// Returns tables of the report.
    pub(super) fn human_text(&self) -> String {
        let count = |count: usize| count.to_string();
        let share = |value: f64| format!("{value:.3}");
        let of = &self.figures;
        let rows = [
            ("searches", count(of.searches), "logged, by every identity"),
            ("with a call", count(of.with_call), "a tool was called within ten minutes"),
            ("without a call", count(of.without_call), "tools were found, and none was called"),
            ("without a result", count(of.without_result), "no tool was found"),
            ("another tool", count(of.with_other_tool), "a tool was called that the search did not find"),
            ("recall@1", share(of.recall_at_1), "share of the called tools that came first"),
            ("recall@3", share(of.recall_at_3), "… among the first three"),
            ("recall@8", share(of.recall_at_8), "… among the first eight"),
            ("MRR", share(of.mrr), "1 / rank of the first called tool"),
        ];
        let rows = rows.map(|(name, value, meaning)| [name.to_owned(), value, meaning.to_owned()]);
        let mut text = output::table(["MEASURE", "VALUE", "MEANING"], rows);
        let wanted = self.wanted.iter().map(|group| {
            let why = [
                (group.no_result, "no result"),
                (group.nothing_called, "nothing called"),
                (group.other_tool, "another tool"),
            ];
            let why = why.iter().filter(|(count, _)| *count > 0);
            let why: Vec<_> = why.map(|(count, why)| format!("{why} {count}")).collect();
            let instead: Vec<_> = group.called_instead.iter().map(ToString::to_string).collect();
            [group.query.clone(), count(group.searches), why.join(", "), instead.join(", ")]
        });
        section(&mut text, "Wanted", ["SEARCH", "TIMES", "WHY", "CALLED INSTEAD"], wanted);
        let tools = |tools: &[ToolCount]| {
            tools.iter().map(|one| [one.tool.to_string(), one.count.to_string()]).collect::<Vec<_>>()
        };
        let never = tools(&self.found_never_called);
        section(&mut text, "Found, and never called", ["TOOL", "SEARCHES"], never.into_iter());
        let by_name = tools(&self.called_by_name_only);
        section(&mut text, "Called by name only", ["TOOL", "CALLS"], by_name.into_iter());
        let suggested = self
            .suggestions
            .iter()
            .map(|one| [one.tool.to_string(), advice(&one.advice), count(one.searches)]);
        section(&mut text, "Suggestions", ["TOOL", "SUGGESTION", "SEARCHES"], suggested);
        text
    }
}

/// Adds a table with its title, unless it would be empty.
fn section<const COLUMNS: usize>(
    text: &mut String,
    title: &str,
    head: [&str; COLUMNS],
    rows: impl Iterator<Item = [String; COLUMNS]>,
) {
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return;
    }
    let more = rows.len().saturating_sub(MAX_ROWS);
    let shown = output::table(head, rows.into_iter().take(MAX_ROWS));
    // Writing to a string cannot fail.
    let _ = write!(text, "\n\n{title}\n\n{shown}");
    if more > 0 {
        let _ = write!(text, "\n… and {more} more: -o json has all");
    }
}

/// Returns a suggestion as a person reads it.
fn advice(advice: &Advice) -> String {
    match advice {
        Advice::Describe { words } => {
            let words: Vec<_> =
                words.iter().map(|word| format!("{} ({})", word.word, word.searches)).collect();
            format!("override its description with the words that searches use: {}", words.join(", "))
        }
        Advice::Pin { share } => {
            format!("pin it (optimizer.pinnedTools): called after {:.0} % of the searches", share * 100.0)
        }
        Advice::Narrow => {
            "narrow its description by an override, or filter it: often found, never called".to_owned()
        }
    }
}

/// Returns the tool of a catalog, if clients may find it.
pub(super) fn listed<'a>(corpus: &'a Corpus, tool: &LoggedTool) -> Option<&'a CatalogTool> {
    let found = corpus.catalog().tool_of(&tool.server, &tool.tool).into_iter().map(|found| &**found);
    found.filter(|found| found.definition.name == tool.tool).find(|found| found.listed)
}

fn found_never_called(searches: &[LoggedSearch], unsearched: &BTreeMap<LoggedTool, u64>) -> Vec<ToolCount> {
    let uses = tool_uses(searches).into_iter();
    let never = uses.filter(|(tool, uses)| uses.called == 0 && !unsearched.contains_key(*tool));
    most_first(never.map(|(tool, uses)| ToolCount { tool: tool.clone(), count: uses.found as u64 }))
}

fn called_by_name_only(searches: &[LoggedSearch], unsearched: &BTreeMap<LoggedTool, u64>) -> Vec<ToolCount> {
    let uses = tool_uses(searches);
    let never_found = unsearched.iter().filter(|(tool, _)| uses.get(tool).is_none_or(|uses| uses.found == 0));
    most_first(never_found.map(|(tool, calls)| ToolCount { tool: tool.clone(), count: *calls }))
}

fn most_first(tools: impl Iterator<Item = ToolCount>) -> Vec<ToolCount> {
    let mut tools: Vec<_> = tools.collect();
    tools.sort_by_key(|one| std::cmp::Reverse(one.count));
    tools
}

#[cfg(test)]
mod tests {
    use vmcp_search::measures::search_log::LoggedCall;

    use super::*;
    use crate::cli::ask::eval::files::ToolLine;

    fn tool(name: &str) -> LoggedTool {
        LoggedTool { server: "s".to_owned(), tool: name.to_owned() }
    }

    fn search(query: &str, found: &[&str], called: &[(&str, Option<usize>)]) -> LoggedSearch {
        let call = |(name, rank): &(&str, Option<usize>)| LoggedCall { tool: tool(name), rank: *rank };
        LoggedSearch {
            query: query.to_owned(),
            found: found.iter().map(|name| tool(name)).collect(),
            calls: called.iter().map(call).collect(),
            ..LoggedSearch::default()
        }
    }

    #[test]
    fn the_report_names_what_is_wanted_what_is_idle_and_what_to_do() {
        let line = |name: &str| ToolLine {
            server: "s".to_owned(),
            name: name.to_owned(),
            description: None,
            input_schema: None,
        };
        let corpus = Corpus::new(["create_issue", "list_users", "ping"].map(line).into());
        let config = vmcp_config::load("", "f", &|_| None).unwrap().config;
        let searches = vec![
            search("open a ticket", &["list_users"], &[("create_issue", None)]),
            search("a ticket please", &["list_users"], &[("create_issue", None)]),
            search("play music", &[], &[]),
        ];
        let unsearched = BTreeMap::from([(tool("ping"), 7)]);
        let report = OwnLogReport::new(&LogReading { searches, unsearched }, &corpus, &config);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["searches"], 3);
        assert_eq!(json["wanted"][0]["searches"], 2, "{json:#}");
        assert_eq!(json["found_never_called"][0]["tool"], "list_users");
        assert_eq!(json["called_by_name_only"][0]["count"], 7);
        assert_eq!(json["suggestions"][0]["words"][0]["word"], "ticket");
        let text = report.human_text();
        for part in ["Wanted", "play music", "Called by name only", "searches use: ticket (2)"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
