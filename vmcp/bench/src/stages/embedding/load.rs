//! Searches of one and of many clients, while the local model embeds a catalog.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::join_all;
use tokio_util::task::AbortOnDropHandle;
use vmcp_embed::{Embedder, LocalEmbedder};
use vmcp_engine::search::{QueryVectors, SearchRequest, SearchSettings, Searcher, search};
use vmcp_search::learning::DEFAULT_LEARNED_WEIGHT;
use vmcp_search::{
    DEFAULT_LIMIT, DEFAULT_RELIABILITY_WEIGHT, DEFAULT_SEMANTIC_RATIO, Document, Index, Vectors, vector_text,
};

use crate::progress::progress;
use crate::report::{Report, Section, Unit};
use crate::samples::Samples;
use crate::synthetic_tools::{DIMENSIONS, count_in_words, generate, query, unit_vector};

/// Tools that are searched, and whose texts are embedded meanwhile.
const TOOLS: usize = 5_000;
/// Numbers of clients, each with one search at a time.
const CLIENTS: [usize; 3] = [1, 8, 32];
/// Most clients whose searches must stay whole; more of them exceed the processor.
const PROMISED_CLIENTS: usize = 8;
/// Time that a search of the product waits for the vector of its query.
const QUERY_DEADLINE: Duration = Duration::from_secs(2);

/// Measures searches beside bulk work, and adds the rows; a row counts the degraded ones.
pub(super) async fn measure(embedder: &Arc<LocalEmbedder>, report: &mut Report) -> Result<()> {
    let documents: Vec<Document> = generate(TOOLS)
        .into_iter()
        .map(|tool| Document {
            server: tool.server,
            name: tool.name,
            description: tool.description,
            parameters: Vec::new(),
        })
        .collect();
    let texts: Vec<String> = documents.iter().map(vector_text).collect();
    let rows = texts.iter().map(|text| Some(unit_vector(text)));
    let index = Index::new(&documents).with_vectors(Vectors::from_rows(DIMENSIONS, rows));
    let asked: Arc<dyn Embedder> = Arc::<LocalEmbedder>::clone(embedder);
    let searcher = Searcher {
        index: Arc::new(index),
        vectors: QueryVectors::From(asked),
        reliability: [].into(),
        learned: None,
        reranking: None,
        settings: SearchSettings {
            limit: DEFAULT_LIMIT,
            semantic_ratio: DEFAULT_SEMANTIC_RATIO,
            distance_threshold: None,
            reliability_weight: DEFAULT_RELIABILITY_WEIGHT,
            learned_weight: DEFAULT_LEARNED_WEIGHT,
            query_deadline: QUERY_DEADLINE,
        },
    };
    let alone = searches(&searcher, 1, report.runs(100)).await.0;
    let busy = Arc::clone(embedder);
    let working = tokio::spawn(async move { while busy.embed(&texts).await.is_ok() {} });
    let working = AbortOnDropHandle::new(working);
    for clients in CLIENTS {
        progress(&format!("searches beside the embedding of a catalog, clients: {clients}"));
        let (samples, degraded) = searches(&searcher, clients, report.runs(100)).await;
        let what = format!(
            "search over {} while these are embedded, clients: {clients} ({degraded} degraded)",
            count_in_words(TOOLS)
        );
        let other = "by one client, no embedding of tools";
        report.row(Section::Embedding, Unit::Seconds, (what, &samples), (other, &alone));
        if clients <= PROMISED_CLIENTS {
            let what = format!("degraded searches beside bulk, clients: {clients}");
            report.check_target(&what, Unit::Count, degraded as f64, 0.0);
        }
    }
    drop(working);
    Ok(())
}

/// Lets the clients search, each one search after the other; returns the times, and the number of degraded
/// searches.
async fn searches(searcher: &Searcher, clients: usize, runs: usize) -> (Samples, usize) {
    let client = |client: usize| {
        let searcher = searcher.clone();
        async move {
            let (mut times, mut degraded) = (Vec::with_capacity(runs), 0);
            for run in 0..runs {
                let (description, keywords) = query(client + run);
                let request =
                    SearchRequest { description, keywords, limit: None, visible: None, explain: false };
                let started = Instant::now();
                let found = search(&searcher, request).await;
                times.push(started.elapsed().as_secs_f64());
                degraded += usize::from(found.degraded.is_some());
            }
            (times, degraded)
        }
    };
    let results = join_all((0..clients).map(client)).await;
    let degraded = results.iter().map(|(_, degraded)| *degraded).sum();
    (results.into_iter().flat_map(|(times, _)| times).collect(), degraded)
}
