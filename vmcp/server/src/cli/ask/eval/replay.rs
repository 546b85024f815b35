//! `vmcp eval --learned` and `--reliability`: learns from a log of queries and the tools that were used for
//! them, and measures the change for other queries, and for the first queries of the log while little is
//! known.

use std::fmt;

use serde::Serialize;
use vmcp_search::measures::{Judgment, mean, paired_interval};

use super::corpus::Corpus;
use super::evaluation::{Measured, evaluate};
use super::experience::Experience;
use super::files::Query;
use super::report::Report;
use crate::cli::console::failure::CommandFailure;
use crate::cli::console::{output, progress};
use vmcp_engine::search::Searcher;

/// Queries of the log that are measured one by one while it is learned: the cold start.
const FIRST_QUERIES: usize = 50;

/// Reports with and without learning, over the same queries.
pub(super) struct Replay {
    /// Facts that the log taught, and a word for them.
    facts: usize,
    noun: &'static str,
    before: Report,
    after: Report,
    first_before: Report,
    first_after: Report,
}

/// The changes by learning. Scripts rely on the names.
#[derive(Debug, Serialize)]
pub(super) struct ReplayMeasures {
    learned_pairs: usize,
    queries: usize,
    recall_at_1: Change,
    recall_at_3: Change,
    recall_at_8: Change,
    mrr: Change,
    ndcg_at_10: Change,
    /// Of the first queries of the log, each measured before it is learned.
    first_queries: usize,
    first_recall_at_8: Change,
}

/// A measure without and with learning, and the 95 % confidence interval of the difference, paired by query.
#[derive(Debug, Serialize)]
pub(super) struct Change {
    before: f64,
    after: f64,
    low: f64,
    high: f64,
}

/// Splits queries, by turns, into queries to learn from and queries to measure.
pub(super) fn split(queries: Vec<Query>) -> (Vec<Query>, Vec<Query>) {
    let (even, odd): (Vec<_>, Vec<_>) = queries.into_iter().enumerate().partition(|(at, _)| at % 2 == 0);
    let queries = |numbered: Vec<(usize, Query)>| numbered.into_iter().map(|(_, query)| query).collect();
    (queries(even), queries(odd))
}

/// Learns from `log` and measures `queries`.
pub(super) async fn replay(
    corpus: &Corpus,
    log: &[Query],
    queries: &[Query],
    searcher: &Searcher,
    mut experience: Experience,
) -> Result<Replay, CommandFailure> {
    let (mut first_before, mut first_after) = (Report::default(), Report::default());
    let bar = progress::counter(log.len(), "learning");
    for (at, query) in log.iter().enumerate() {
        if at < FIRST_QUERIES {
            let one = std::slice::from_ref(query);
            let knowing = experience.applied(corpus, searcher);
            first_before
                .judgments
                .extend(evaluate(corpus, one, searcher, None, Measured::Hits).await?.judgments);
            first_after
                .judgments
                .extend(evaluate(corpus, one, &knowing, None, Measured::Hits).await?.judgments);
        }
        experience.learn(query, corpus, searcher).await?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let knowing = experience.applied(corpus, searcher);
    Ok(Replay {
        facts: experience.len(),
        noun: experience.noun(),
        before: evaluate(corpus, queries, searcher, None, Measured::Hits).await?,
        after: evaluate(corpus, queries, &knowing, None, Measured::Hits).await?,
        first_before,
        first_after,
    })
}

/// Returns the change of a measure from one report to another over the same queries.
pub(super) fn change(before: &Report, after: &Report, measure: impl Fn(&Judgment) -> f64) -> Change {
    let values = |report: &Report| report.judgments.iter().map(&measure).collect::<Vec<_>>();
    let (before, after) = (values(before), values(after));
    let differences: Vec<_> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    let (low, high) = paired_interval(&differences);
    Change { before: mean(&before), after: mean(&after), low, high }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Change { before, after, low, high } = self;
        write!(f, "{:+.3} ({low:+.3} to {high:+.3})", after - before)
    }
}

impl Replay {
    /// Returns the changes.
    pub(super) fn measures(&self) -> ReplayMeasures {
        let over = |measure: &dyn Fn(&Judgment) -> f64| change(&self.before, &self.after, measure);
        ReplayMeasures {
            learned_pairs: self.facts,
            queries: self.before.judgments.len(),
            recall_at_1: over(&|judgment| judgment.recall(1)),
            recall_at_3: over(&|judgment| judgment.recall(3)),
            recall_at_8: over(&|judgment| judgment.recall(8)),
            mrr: over(&Judgment::reciprocal_rank),
            ndcg_at_10: over(&|judgment| judgment.ndcg(10)),
            first_queries: self.first_before.judgments.len(),
            first_recall_at_8: change(&self.first_before, &self.first_after, |judgment| judgment.recall(8)),
        }
    }

    /// Returns a table of the changes.
    pub(super) fn human_text(&self) -> String {
        let measures = self.measures();
        let row = |name: &str, change: &Change| {
            [
                name.to_owned(),
                format!("{:.3}", change.before),
                format!("{:.3}", change.after),
                change.to_string(),
            ]
        };
        let rows = [
            row("recall@1", &measures.recall_at_1),
            row("recall@3", &measures.recall_at_3),
            row("recall@8", &measures.recall_at_8),
            row("MRR", &measures.mrr),
            row("NDCG@10", &measures.ndcg_at_10),
            row("cold start: recall@8", &measures.first_recall_at_8),
        ];
        let table = output::table(["MEASURE", "BEFORE", "AFTER", "CHANGE (95 %)"], rows);
        format!(
            "{table}\n\n{} {}; {} queries measured, {} more in the cold start",
            measures.learned_pairs, self.noun, measures.queries, measures.first_queries
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_paired_by_query() {
        let judged = |ranking: &[&str]| Judgment::new(ranking, &[vec!["needed"]]);
        let report = |judgments| Report { judgments, ..Report::default() };
        let replay = Replay {
            facts: 3,
            noun: "pairs learned",
            before: report(vec![judged(&["needed"]), judged(&["other", "needed"]), judged(&["other"])]),
            after: report(vec![judged(&["needed"]), judged(&["needed"]), judged(&["other"])]),
            first_before: Report::default(),
            first_after: Report::default(),
        };
        let measures = serde_json::to_value(replay.measures()).unwrap();
        let at = |path: &str| measures.pointer(path).and_then(serde_json::Value::as_f64).unwrap();
        assert!((at("/recall_at_1/after") - at("/recall_at_1/before") - 1.0 / 3.0).abs() < 1e-9);
        assert!(at("/recall_at_8/low").abs() < 1e-9 && at("/recall_at_8/high").abs() < 1e-9);
        assert!(replay.human_text().contains("3 pairs learned; 3 queries measured"));
    }

    #[test]
    fn queries_teach_and_are_measured_by_turns() {
        let query = |id: &str| Query {
            id: id.to_owned(),
            text: String::new(),
            keywords: String::new(),
            groups: Vec::new(),
            failed: Vec::new(),
        };
        let (log, held_out) = split(["a", "b", "c"].map(query).into());
        let ids = |queries: &[Query]| queries.iter().map(|query| query.id.clone()).collect::<Vec<_>>();
        assert_eq!((ids(&log), ids(&held_out)), (vec!["a".to_owned(), "c".to_owned()], vec!["b".to_owned()]));
    }
}
