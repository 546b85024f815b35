//! [`SearchFigures`]: measures of searches in use.
//!
//! The needs of a search are the tools that were called after it. A search without a call after it says
//! nothing of ranks: it is counted apart.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{LoggedSearch, SearchOutcome};
use crate::measures::{Judgment, mean};

/// Measures of the searches of a log. Scripts rely on the names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SearchFigures {
    /// Searches.
    pub searches: usize,
    /// Identities that searched; clients without one count as one.
    pub clients: usize,
    /// Searches after which a tool was called.
    pub with_call: usize,
    /// Searches that found no tool.
    pub without_result: usize,
    /// Searches that found tools, and after which none was called.
    pub without_call: usize,
    /// Searches after which another tool was called than those found.
    pub with_other_tool: usize,
    /// Share of the called tools that came first.
    pub recall_at_1: f64,
    /// Share of the called tools that were among the first three.
    pub recall_at_3: f64,
    /// Share of the called tools that were among the first eight.
    pub recall_at_8: f64,
    /// Mean of 1 / rank of the first called tool.
    pub mrr: f64,
}

/// Returns the judgment of a search by the calls that followed; `None` without any.
pub fn judgment(search: &LoggedSearch) -> Option<Judgment> {
    let called: BTreeSet<_> = search.calls.iter().map(|call| &call.tool).collect();
    let groups: Vec<Vec<_>> = called.into_iter().map(|tool| vec![tool]).collect();
    let found: Vec<_> = search.found.iter().collect();
    (!groups.is_empty()).then(|| Judgment::new(&found, &groups))
}

/// Returns the measures of searches.
pub fn figures(searches: &[LoggedSearch]) -> SearchFigures {
    let judgments: Vec<_> = searches.iter().filter_map(judgment).collect();
    let over = |measure: &dyn Fn(&Judgment) -> f64| mean(&judgments.iter().map(measure).collect::<Vec<_>>());
    let ended = |outcome| searches.iter().filter(|search| search.outcome() == outcome).count();
    let clients: BTreeSet<_> = searches.iter().map(|search| search.client.as_deref()).collect();
    SearchFigures {
        searches: searches.len(),
        clients: clients.len(),
        with_call: judgments.len(),
        without_result: ended(SearchOutcome::NoResult),
        without_call: ended(SearchOutcome::NothingCalled),
        with_other_tool: ended(SearchOutcome::OtherTool),
        recall_at_1: over(&|judgment| judgment.recall(1)),
        recall_at_3: over(&|judgment| judgment.recall(3)),
        recall_at_8: over(&|judgment| judgment.recall(8)),
        mrr: over(&Judgment::reciprocal_rank),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::search;
    use super::*;

    #[test]
    fn figures_are_over_the_searches_that_led_to_a_call() {
        let searches = [
            search("first", &["a", "b"], &["a"]),
            search("second", &["b", "a"], &["a", "a"]),
            search("other", &["b"], &["c"]),
            search("nothing called", &["b"], &[]),
            search("no result", &[], &[]),
        ];
        let figures = figures(&searches);
        let counts = [figures.searches, figures.clients, figures.with_call];
        assert_eq!(counts, [5, 1, 3]);
        assert_eq!((figures.without_result, figures.without_call, figures.with_other_tool), (1, 1, 1));
        assert!((figures.recall_at_1 - 1.0 / 3.0).abs() < 1e-9, "{figures:?}");
        assert!((figures.recall_at_3 - 2.0 / 3.0).abs() < 1e-9, "{figures:?}");
        assert!((figures.mrr - 0.5).abs() < 1e-9, "{figures:?}");
    }
}
