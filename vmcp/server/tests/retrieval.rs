//! Retrieval quality does not fall, and rises by reliability: `vmcp eval`, by keywords alone, on public sets
//! of tests/retrieval.
//!
//! Keywords need no model and no network, and both sets take seconds in a debug build. A change that lifts
//! the figures lifts the floors too; figures with embeddings are in docs/contributor/search-quality.md.

#![expect(clippy::expect_used, reason = "helpers of tests fail like tests")]

use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use vmcp_embed::testing::FakeService;

/// A set of queries, and the figures that it must reach: slightly under those when the floor was set.
struct QuerySet {
    tools: &'static str,
    queries: &'static str,
    min_recall_at_8: f64,
    min_ndcg_at_10: f64,
}

/// Measured by keywords alone: recall@8 .816 and NDCG@10 .675; .960 and .826; 1 and .988; .767 and .585; .775
/// and .596; .86 and .681; .528 and .403; .725 and .499; .8 and .584; .775 and .586; .825 and .646.
const QUERY_SETS: [QuerySet; 11] = [
    QuerySet { tools: "livemcp", queries: "livemcp-llm", min_recall_at_8: 0.80, min_ndcg_at_10: 0.655 },
    QuerySet { tools: "toollinkos", queries: "toollinkos", min_recall_at_8: 0.955, min_ndcg_at_10: 0.82 },
    QuerySet { tools: "livemcp", queries: "same-needs-agents", min_recall_at_8: 0.99, min_ndcg_at_10: 0.97 },
    QuerySet { tools: "livemcp", queries: "same-needs-people", min_recall_at_8: 0.73, min_ndcg_at_10: 0.50 },
    QuerySet { tools: "livemcp", queries: "livemcp-people", min_recall_at_8: 0.735, min_ndcg_at_10: 0.565 },
    QuerySet { tools: "everyday", queries: "everyday-choosing", min_recall_at_8: 0.80, min_ndcg_at_10: 0.62 },
    QuerySet {
        tools: "everyday",
        queries: "everyday-more-choosing",
        min_recall_at_8: 0.48,
        min_ndcg_at_10: 0.36,
    },
    QuerySet { tools: "livemcp", queries: "livemcp-de", min_recall_at_8: 0.67, min_ndcg_at_10: 0.47 },
    QuerySet { tools: "livemcp", queries: "livemcp-es", min_recall_at_8: 0.75, min_ndcg_at_10: 0.55 },
    QuerySet { tools: "livemcp", queries: "livemcp-zh", min_recall_at_8: 0.72, min_ndcg_at_10: 0.55 },
    QuerySet { tools: "livemcp", queries: "livemcp-ja", min_recall_at_8: 0.77, min_ndcg_at_10: 0.60 },
];

/// The measures that `vmcp eval --output json` prints, as far as they are asserted.
#[derive(Debug, Deserialize)]
struct Measures {
    recall_at_3: f64,
    recall_at_8: f64,
    ndcg_at_10: f64,
    queries: usize,
}

/// The measures of a replay: without and with the lessons of the log.
#[derive(Debug, Deserialize)]
struct Replay {
    recall_at_1: Change,
    recall_at_8: Change,
    mrr: Change,
    ndcg_at_10: Change,
}

/// A measure without and with learned pairs, and the lower end of the difference's confidence interval.
#[derive(Debug, Deserialize)]
struct Change {
    before: f64,
    after: f64,
    low: f64,
}

/// A part of `vmcp eval --partial`.
#[derive(Debug, Deserialize)]
struct PartialScore {
    share: f64,
    recall_at_8: f64,
    ndcg_at_10: f64,
}

/// Runs `vmcp eval`; `log` is the name of a log to learn success rates from.
fn evaluate<T: DeserializeOwned>(tools: &str, queries: &str, log: Option<&str>) -> T {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/retrieval");
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmcp"));
    command
        .args(["eval", "--provider", "none", "--output", "json", "--tools"])
        .arg(folder.join(format!("{tools}.tools.jsonl.gz")))
        .arg("--queries")
        .arg(folder.join(format!("{queries}.queries.jsonl.gz")));
    if let Some(log) = log {
        command.args(["--reliability", "--log"]).arg(folder.join(format!("{log}.log.jsonl.gz")));
    }
    let output = command.output().expect("vmcp runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the report is JSON")
}

#[test]
fn search_by_keywords_finds_as_much_as_before() {
    for set in QUERY_SETS {
        let measures: Measures = evaluate(set.tools, set.queries, None);
        assert!(measures.queries > 0, "{}: no queries", set.queries);
        println!("{}: recall@3 {:.3}", set.queries, measures.recall_at_3);
        assert!(
            measures.recall_at_8 >= set.min_recall_at_8 && measures.ndcg_at_10 >= set.min_ndcg_at_10,
            "{}: recall@8 {:.3} (at least {}), NDCG@10 {:.3} (at least {})",
            set.queries,
            measures.recall_at_8,
            set.min_recall_at_8,
            measures.ndcg_at_10,
            set.min_ndcg_at_10
        );
    }
}

#[test]
fn of_the_same_tool_on_two_servers_the_one_that_works_comes_first() {
    for set in ["people", "llm", "steps"] {
        let queries = format!("two-servers-{set}");
        let failing: Replay = evaluate("two-servers", &queries, Some("two-servers-failing"));
        for change in [&failing.recall_at_1, &failing.mrr] {
            assert!(change.low > 0.0 && change.after > change.before, "{set}: {failing:?}");
        }
        let Replay { recall_at_1, recall_at_8, mrr, ndcg_at_10 } =
            evaluate("two-servers", &queries, Some("two-servers-working"));
        for change in [recall_at_1, recall_at_8, mrr, ndcg_at_10] {
            let difference = (change.after - change.before).abs();
            assert!(difference < 1e-9, "{set}: where nothing fails, nothing changes: {change:?}");
        }
    }
}

/// Change of a measure by one query of the set.
const ONE_QUERY: f64 = 0.011;

#[tokio::test(flavor = "multi_thread")]
async fn no_part_of_the_vectors_makes_search_worse_than_words_and_than_all_vectors() {
    // Bags of words serve as vectors: the same on every machine, and weaker than words alone.
    let service = FakeService::start().await.expect("a port");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/retrieval");
    let cache = tempfile::tempdir().expect("a folder");
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_vmcp"))
        .args(["eval", "--partial", "--provider", "tei", "--output", "json", "--endpoint", &service.url()])
        .args(["--tools", "livemcp.tools.jsonl.gz", "--queries", "livemcp-llm.queries.jsonl.gz"])
        .env("XDG_CACHE_HOME", cache.path())
        .current_dir(folder)
        .output()
        .await
        .expect("vmcp runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let parts: Vec<PartialScore> = serde_json::from_slice(&output.stdout).expect("the report is JSON");
    assert_eq!(parts.len(), 14);
    let (words, all) = (&parts[0], &parts[6]);
    assert!(words.share < all.share, "{words:?} {all:?}");
    let recall = words.recall_at_8.min(all.recall_at_8) - ONE_QUERY;
    let ndcg = words.ndcg_at_10.min(all.ndcg_at_10) - ONE_QUERY;
    let worse: Vec<_> =
        parts.iter().filter(|part| part.recall_at_8 < recall || part.ndcg_at_10 < ndcg).collect();
    assert!(worse.is_empty(), "{worse:?}, by words {words:?}, with all {all:?}");
}
