//! Measures of an evaluation, and the queries it missed.

use std::fmt;

use serde::Serialize;
use vmcp_search::measures::{Judgment, mean, percentile};

use super::files::{NeededTool, Query};
use crate::cli::console::output;

/// Values of an evaluation, one entry for each query.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) judgments: Vec<Judgment>,
    /// Tokens of the tools in each answer.
    pub(super) tokens: Vec<f64>,
    /// Milliseconds of each search, with the embedding of the query.
    pub(super) with_embedding: Vec<f64>,
    /// Milliseconds of each search alone.
    pub(super) without_embedding: Vec<f64>,
    /// Queries with an unmet need.
    pub(super) misses: Vec<Miss>,
}

/// Means of all queries. Scripts rely on the names and their order.
#[derive(Debug, Serialize)]
pub(super) struct Measures {
    recall_at_1: f64,
    recall_at_3: f64,
    recall_at_5: f64,
    pub(super) recall_at_8: f64,
    recall_at_10: f64,
    mrr: f64,
    pub(super) ndcg_at_10: f64,
    complete_at_8: f64,
    mean_returned_tokens: f64,
    pub(super) query_ms_p50: f64,
    query_ms_p99: f64,
    search_ms_p50: f64,
    tools: usize,
    queries: usize,
    /// Queries with an unmet need, as many as were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    misses: Vec<Miss>,
}

impl Report {
    /// Returns the means over all queries, and the first of those with an unmet need.
    pub(super) fn measures(&self, tools: usize, misses: usize) -> Measures {
        let over = |measure: &dyn Fn(&Judgment) -> f64| {
            mean(&self.judgments.iter().map(measure).collect::<Vec<_>>())
        };
        let time = |times: &[f64], percent| percentile(times, percent).unwrap_or_default();
        Measures {
            recall_at_1: over(&|judgment| judgment.recall(1)),
            recall_at_3: over(&|judgment| judgment.recall(3)),
            recall_at_5: over(&|judgment| judgment.recall(5)),
            recall_at_8: over(&|judgment| judgment.recall(8)),
            recall_at_10: over(&|judgment| judgment.recall(10)),
            mrr: over(&Judgment::reciprocal_rank),
            ndcg_at_10: over(&|judgment| judgment.ndcg(10)),
            complete_at_8: over(&|judgment| f64::from(judgment.complete(8))),
            mean_returned_tokens: mean(&self.tokens),
            query_ms_p50: time(&self.with_embedding, 50.0),
            query_ms_p99: time(&self.with_embedding, 99.0),
            search_ms_p50: time(&self.without_embedding, 50.0),
            tools,
            queries: self.judgments.len(),
            misses: self.misses.iter().take(misses).cloned().collect(),
        }
    }

    /// Returns a table with the meaning of each measure.
    pub(super) fn human_text(&self, tools: usize, limit: usize) -> String {
        let measures = self.measures(tools, 0);
        let share = |value: f64| format!("{value:.3}");
        let time = |value: f64| format!("{value:.2} ms");
        let rows = [
            ("recall@1", share(measures.recall_at_1), "share of needs met by the first tool"),
            ("recall@3", share(measures.recall_at_3), "… by the first three"),
            ("recall@5", share(measures.recall_at_5), "… by the first five"),
            ("recall@8", share(measures.recall_at_8), "… by the first eight"),
            ("recall@10", share(measures.recall_at_10), "… by the first ten"),
            ("MRR", share(measures.mrr), "1 / rank of the first tool that is needed"),
            ("NDCG@10", share(measures.ndcg_at_10), "how high the needed tools stand among the first ten"),
            (
                "complete@8",
                share(measures.complete_at_8),
                "share of queries with every need met by the first eight",
            ),
            ("tokens", format!("{:.0}", measures.mean_returned_tokens), "of an answer, in the mean"),
            ("query p50", time(measures.query_ms_p50), "a query, its embedding included"),
            ("query p99", time(measures.query_ms_p99), "the same, 99 of 100 are quicker"),
            ("search p50", time(measures.search_ms_p50), "a query without its embedding"),
        ];
        let rows = rows.map(|(name, value, meaning)| [name.to_owned(), value, meaning.to_owned()]);
        let table = output::table(["MEASURE", "VALUE", "MEANING"], rows);
        format!("{table}\n\n{} queries, {tools} tools, {limit} tools an answer", measures.queries)
    }
}

/// A query with an unmet need.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Miss {
    query: String,
    /// Tools that would have satisfied a need, each with its rank from 1.
    missed: Vec<(NeededTool, Option<usize>)>,
    /// Tools that came first instead.
    first: Vec<String>,
}

impl Miss {
    /// Returns the needs that the first `limit` tools of a ranking do not satisfy.
    pub(super) fn new(query: &Query, ranking: &[(&str, &str)], limit: usize) -> Miss {
        let rank = |need: &NeededTool| {
            ranking.iter().position(|hit| *hit == need.as_pair()).map(|position| position + 1)
        };
        let best = |group: &Vec<NeededTool>| {
            let ranked = group.iter().map(|need| (need.clone(), rank(need)));
            ranked.min_by_key(|(_, rank)| rank.unwrap_or(usize::MAX))
        };
        let missed =
            query.groups.iter().filter_map(best).filter(|(_, rank)| rank.is_none_or(|rank| rank > limit));
        Miss {
            query: format!(
                "{}: {}",
                query.id,
                [query.text.as_str(), query.keywords.as_str()].join(" ").trim()
            ),
            missed: missed.collect(),
            first: ranking.iter().take(3).map(|(server, tool)| format!("{server}/{tool}")).collect(),
        }
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Miss { query, missed, first } = self;
        write!(f, "{query}")?;
        for (NeededTool(server, tool), rank) in missed {
            let place = rank.map_or_else(|| "far behind".to_owned(), |rank| format!("at place {rank}"));
            write!(f, "\n  needed {server}/{tool}, which came {place}")?;
        }
        write!(f, "\n  came first: {}", first.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(tool: &str) -> NeededTool {
        NeededTool("s".to_owned(), tool.to_owned())
    }

    #[test]
    fn measures_are_means_over_queries() {
        let groups = |tool: &str| vec![vec![tool.to_owned()]];
        let ranking = ["a".to_owned(), "b".to_owned()];
        let report = Report {
            judgments: vec![Judgment::new(&ranking, &groups("a")), Judgment::new(&ranking, &groups("z"))],
            tokens: vec![100.0, 300.0],
            with_embedding: vec![4.0, 6.0],
            without_embedding: vec![1.0, 2.0],
            ..Report::default()
        };
        let measures = serde_json::to_value(report.measures(7, 0)).unwrap();
        for (key, expected) in [
            ("recall_at_1", 0.5),
            ("recall_at_3", 0.5),
            ("complete_at_8", 0.5),
            ("mrr", 0.5),
            ("ndcg_at_10", 0.5),
            ("mean_returned_tokens", 200.0),
            ("query_ms_p50", 4.0),
            ("query_ms_p99", 6.0),
            ("search_ms_p50", 1.0),
            ("tools", 7.0),
            ("queries", 2.0),
        ] {
            assert_eq!(measures[key].as_f64(), Some(expected), "{key}");
        }
        assert!(report.human_text(7, 8).contains("2 queries, 7 tools, 8 tools an answer"));
    }

    #[test]
    fn a_miss_says_what_was_needed_and_where_it_came() {
        let query = Query {
            id: "q".to_owned(),
            text: "do it".to_owned(),
            keywords: String::new(),
            groups: vec![vec![need("x"), need("c")], vec![need("a")], vec![need("y")]],
            failed: Vec::new(),
        };
        let text = Miss::new(&query, &[("s", "a"), ("s", "b"), ("s", "c")], 2).to_string();
        assert_eq!(
            text,
            "q: do it\n  needed s/c, which came at place 3\n  needed s/y, which came far behind\n  came first: s/a, s/b, s/c"
        );
    }
}
