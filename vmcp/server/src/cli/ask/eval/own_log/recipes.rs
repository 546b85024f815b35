//! `vmcp eval --log --compare`: the searches of a log under several configurations, side by side.
//!
//! Each different search is replayed once, over the saved definitions by the rules of each configuration:
//! weights, overrides, filters. Its needs are the tools that were called after it. A pinned tool needs no
//! search: it is counted apart.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use serde::Serialize;
use vmcp_config::Config;
use vmcp_engine::search::{SearchRequest, search};
use vmcp_search::Visible;
use vmcp_search::measures::search_log::{LoggedSearch, LoggedTool};
use vmcp_search::measures::{Judgment, mean};

use super::super::corpus::Corpus;
use super::super::evaluation::searcher;
use super::report::listed;
use crate::cli::console::failure::CommandFailure;
use crate::cli::console::{output, progress};

/// Hits of a replayed search in which the places of needed tools are looked up.
const SEARCH_DEPTH: usize = 100;
/// Changed searches that people see; the other formats have all.
const MAX_ROWS: usize = 15;

/// A search that was made once or several times, and the tools that were called after it.
pub(super) struct LoggedQuery {
    description: String,
    keywords: String,
    needs: BTreeSet<LoggedTool>,
}

/// The searches of a log under one configuration.
pub(super) struct ReplayedRecipe {
    name: String,
    /// Tools found for each query, best first.
    found: Vec<Vec<LoggedTool>>,
    /// Needed tools that every list shows under this configuration.
    pinned: BTreeSet<LoggedTool>,
}

/// Returns the different searches of a log, in the order of their words.
pub(super) fn distinct(searches: &[LoggedSearch]) -> Vec<LoggedQuery> {
    let mut queries: BTreeMap<(&str, &str), BTreeSet<LoggedTool>> = BTreeMap::new();
    for search in searches {
        let needs = queries.entry((&search.query, &search.keywords)).or_default();
        needs.extend(search.calls.iter().map(|call| call.tool.clone()));
    }
    let query = |((description, keywords), needs): ((&str, &str), _)| LoggedQuery {
        description: description.to_owned(),
        keywords: keywords.to_owned(),
        needs,
    };
    queries.into_iter().map(query).collect()
}

/// Returns the needed tools that clients may find in a catalog.
pub(super) fn findable(queries: &[LoggedQuery], corpus: &Corpus) -> BTreeSet<LoggedTool> {
    let needs = queries.iter().flat_map(|query| &query.needs);
    needs.filter(|need| listed(corpus, need).is_some()).cloned().collect()
}

/// Replays searches under a configuration.
pub(super) async fn replay(
    name: String,
    queries: &[LoggedQuery],
    corpus: &Corpus,
    config: &Config,
    semantic_ratio: f32,
    limit: usize,
) -> Result<ReplayedRecipe, CommandFailure> {
    let (searcher, _) = searcher(corpus, config, semantic_ratio, limit).await?;
    let listed_tools = corpus.tools().iter().enumerate().filter(|(_, tool)| tool.listed);
    let visible = Arc::new(listed_tools.map(|(at, _)| at).collect::<Visible>());
    let bar = progress::counter(queries.len(), "searching");
    let mut found = Vec::with_capacity(queries.len());
    for query in queries {
        let request = SearchRequest {
            description: &query.description,
            keywords: &query.keywords,
            limit: Some(limit.max(SEARCH_DEPTH)),
            visible: Some(&visible),
            explain: false,
        };
        let result = search(&searcher, request).await;
        if let Some(reason) = result.degraded {
            return Err(CommandFailure::new(format!("{name}: {reason}"))
                .remedy("--provider none measures the keyword search alone"));
        }
        let tool = |document: usize| {
            let tool = corpus.tool(document)?;
            Some(LoggedTool { server: tool.backend.to_string(), tool: tool.definition.name.clone() })
        };
        found.push(result.ranking.hits.iter().filter_map(|hit| tool(hit.document)).collect());
        bar.inc(1);
    }
    bar.finish_and_clear();
    let needs = queries.iter().flat_map(|query| &query.needs);
    let is_pinned = |need: &&LoggedTool| {
        listed(corpus, need).is_some_and(|tool| config.optimizer.pinned_tools.contains(&tool.name))
    };
    Ok(ReplayedRecipe { name, found, pinned: needs.filter(is_pinned).cloned().collect() })
}

/// Recipes side by side. Scripts rely on the names.
#[derive(Debug, Serialize)]
pub(super) struct ComparedLog {
    /// Different searches.
    queries: usize,
    /// Different searches after which a tool was called that the first configuration has: the measures are
    /// over these.
    with_needs: usize,
    recipes: Vec<RecipeFigures>,
}

#[derive(Debug, Serialize)]
struct RecipeFigures {
    recipe: String,
    recall_at_1: f64,
    recall_at_3: f64,
    recall_at_8: f64,
    mrr: f64,
    /// Searches that find no tool.
    without_result: usize,
    /// Searches whose needed tools are all pinned.
    pinned: usize,
    /// Searches that find other tools, or in another order, than under the first configuration, within the
    /// limit of an answer; absent in the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<usize>,
    /// Needed tools with another place than under the first configuration; absent in the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved: Option<Vec<MovedTool>>,
}

/// A needed tool that a search finds at another place.
#[derive(Debug, Clone, Serialize)]
struct MovedTool {
    query: String,
    #[serde(flatten)]
    tool: LoggedTool,
    /// Rank under the first configuration, from 1; `None`: not among the first hundred.
    before: Option<usize>,
    after: Option<usize>,
}

/// Compares recipes with the first one, under which clients may find the tools `findable`.
pub(super) fn compared(
    queries: &[LoggedQuery],
    recipes: &[ReplayedRecipe],
    findable: &BTreeSet<LoggedTool>,
    limit: usize,
) -> ComparedLog {
    let Some(first) = recipes.first() else {
        return ComparedLog { queries: 0, with_needs: 0, recipes: Vec::new() };
    };
    let needs = |query: &LoggedQuery| -> Vec<Vec<LoggedTool>> {
        let known = query.needs.iter().filter(|need| findable.contains(*need));
        known.map(|need| vec![need.clone()]).collect()
    };
    let figures = |(at, recipe): (usize, &ReplayedRecipe)| {
        let judged = queries.iter().zip(&recipe.found).map(|(query, found)| (needs(query), found));
        let judged = judged.filter(|(needs, _)| !needs.is_empty());
        let judgments: Vec<_> = judged.map(|(needs, found)| Judgment::new(found, &needs)).collect();
        let over =
            |measure: &dyn Fn(&Judgment) -> f64| mean(&judgments.iter().map(measure).collect::<Vec<_>>());
        let is_pinned =
            |query: &&LoggedQuery| !query.needs.is_empty() && query.needs.is_subset(&recipe.pinned);
        let pairs = first.found.iter().zip(&recipe.found);
        let differs = |(before, after): &(&Vec<LoggedTool>, &Vec<LoggedTool>)| {
            before.iter().take(limit).ne(after.iter().take(limit))
        };
        RecipeFigures {
            recipe: recipe.name.clone(),
            recall_at_1: over(&|judgment| judgment.recall(1)),
            recall_at_3: over(&|judgment| judgment.recall(3)),
            recall_at_8: over(&|judgment| judgment.recall(8)),
            mrr: over(&Judgment::reciprocal_rank),
            without_result: recipe.found.iter().filter(|found| found.is_empty()).count(),
            pinned: queries.iter().filter(is_pinned).count(),
            changed: (at > 0).then(|| pairs.filter(differs).count()),
            moved: (at > 0).then(|| moved(queries, first, recipe)),
        }
    };
    ComparedLog {
        queries: queries.len(),
        with_needs: queries.iter().filter(|query| !needs(query).is_empty()).count(),
        recipes: recipes.iter().enumerate().map(figures).collect(),
    }
}

/// Returns the needed tools with another place, the greatest moves first.
fn moved(queries: &[LoggedQuery], first: &ReplayedRecipe, recipe: &ReplayedRecipe) -> Vec<MovedTool> {
    let rank = |found: &[LoggedTool], need: &LoggedTool| {
        found.iter().position(|found| found == need).map(|at| at + 1)
    };
    let mut moved = Vec::new();
    for ((query, before), after) in queries.iter().zip(&first.found).zip(&recipe.found) {
        for need in &query.needs {
            let (before, after) = (rank(before, need), rank(after, need));
            if before != after {
                let query = [query.description.as_str(), query.keywords.as_str()].join(" ").trim().to_owned();
                moved.push(MovedTool { query, tool: need.clone(), before, after });
            }
        }
    }
    let place = |rank: Option<usize>| rank.unwrap_or(SEARCH_DEPTH + 1);
    moved.sort_by_key(|one| std::cmp::Reverse(place(one.before).abs_diff(place(one.after))));
    moved
}

impl ComparedLog {
    /// Returns tables of the recipes, and of the needed tools that moved.
    pub(super) fn human_text(&self) -> String {
        let share = |value: f64| format!("{value:.3}");
        let number = |value: Option<usize>| value.map_or_else(String::new, |value| value.to_string());
        let rows = self.recipes.iter().map(|recipe| {
            [
                recipe.recipe.clone(),
                share(recipe.recall_at_1),
                share(recipe.recall_at_3),
                share(recipe.recall_at_8),
                share(recipe.mrr),
                recipe.without_result.to_string(),
                recipe.pinned.to_string(),
                number(recipe.changed),
            ]
        });
        let head = ["RECIPE", "RECALL@1", "RECALL@3", "RECALL@8", "MRR", "NO RESULT", "PINNED", "CHANGED"];
        let table = output::table(head, rows);
        let mut text = format!(
            "{table}\n\n{} different searches; measures over the {} with a call after them",
            self.queries, self.with_needs
        );
        let place = |rank: Option<usize>| rank.map_or_else(|| "–".to_owned(), |rank| rank.to_string());
        for recipe in &self.recipes {
            let Some(moved) = recipe.moved.as_ref().filter(|moved| !moved.is_empty()) else { continue };
            let rows = moved
                .iter()
                .take(MAX_ROWS)
                .map(|one| [one.query.clone(), one.tool.to_string(), place(one.before), place(one.after)]);
            let table = output::table(["SEARCH", "TOOL", "PLACE BEFORE", "AFTER"], rows);
            // Writing to a string cannot fail.
            let _ = write!(text, "\n\nCalled tools that move under {}\n\n{table}", recipe.recipe);
            if moved.len() > MAX_ROWS {
                let _ = write!(text, "\n… and {} more: -o json has all", moved.len() - MAX_ROWS);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> LoggedTool {
        LoggedTool { server: "s".to_owned(), tool: name.to_owned() }
    }

    fn query(description: &str, needs: &[&str]) -> LoggedQuery {
        let needs = needs.iter().map(|name| tool(name)).collect();
        LoggedQuery { description: description.to_owned(), keywords: String::new(), needs }
    }

    fn recipe(name: &str, found: &[&[&str]], pinned: &[&str]) -> ReplayedRecipe {
        let tools = |names: &[&str]| names.iter().map(|name| tool(name)).collect::<Vec<_>>();
        ReplayedRecipe {
            name: name.to_owned(),
            found: found.iter().map(|names| tools(names)).collect(),
            pinned: tools(pinned).into_iter().collect(),
        }
    }

    #[test]
    fn recipes_stand_side_by_side_with_what_changed() {
        let queries =
            [query("one", &["a"]), query("two", &["b"]), query("none", &[]), query("old", &["gone"])];
        let before = recipe("today", &[&["x", "a"], &["b"], &["x"], &[]], &[]);
        let after = recipe("new.yaml", &[&["a", "x"], &["b"], &["x"], &["x"]], &["b"]);
        let findable = BTreeSet::from([tool("a"), tool("b")]);
        let compared = compared(&queries, &[before, after], &findable, 8);
        assert_eq!((compared.queries, compared.with_needs), (4, 2));
        let [first, second] = &compared.recipes[..] else { panic!("{compared:?}") };
        assert_eq!((first.recall_at_1, second.recall_at_1), (0.5, 1.0));
        assert_eq!((first.without_result, second.without_result), (1, 0));
        assert_eq!((first.changed, second.changed), (None, Some(2)));
        assert_eq!((first.pinned, second.pinned), (0, 1));
        let [moved] = &second.moved.as_ref().unwrap()[..] else { panic!("{second:?}") };
        assert_eq!((moved.tool.tool.as_str(), moved.before, moved.after), ("a", Some(2), Some(1)));
        let text = compared.human_text();
        assert!(text.contains("4 different searches; measures over the 2"), "{text}");
        assert!(text.contains("move under new.yaml"), "{text}");
    }
}
