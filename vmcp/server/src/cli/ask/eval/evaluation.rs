//! Runs queries over a catalog, and judges their hits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use vmcp_config::{Config, Rerank};
use vmcp_model::tokens;
use vmcp_search::measures::Judgment;
use vmcp_search::vector_text;

use super::corpus::Corpus;
use super::embedding::{self, TimedEmbedder};
use super::files::{NeededTool, Query};
use super::report::{Miss, Report};
use crate::cli::console::failure::CommandFailure;
use crate::cli::console::progress;
use vmcp_engine::engine::embedding::{configured, ranking_services};
use vmcp_engine::search::reranking::Reranking;
use vmcp_engine::search::{Degraded, QueryVectors, SearchRequest, SearchSettings, Searcher, search};

/// Hits that the measures look at, even if the limit is lower.
const MEASURED_HITS: usize = 10;
/// Hits among which the place of a missed tool is looked up.
const MISS_SEARCH_DEPTH: usize = 100;
/// Timeout of embedding a query; long, so that a slow machine measures the same.
const EMBEDDING_TIMEOUT: Duration = Duration::from_mins(1);

/// Makes a searcher of the catalog by a recipe; the embedder says how long it took.
pub(super) async fn searcher(
    corpus: &Corpus,
    config: &Config,
    semantic_ratio: f32,
    limit: usize,
) -> Result<(Searcher, Option<Arc<TimedEmbedder>>), CommandFailure> {
    let embedder = configured::embedder(config)?;
    let index = embedding::index(corpus, embedder.as_ref()).await?;
    let timed = embedder.map(|embedder| Arc::new(TimedEmbedder::new(embedder)));
    let reranking = |rerank: &Rerank| {
        let texts = corpus.documents().iter().map(vector_text).collect();
        let service = Arc::new(ranking_services::reranker(rerank)?);
        Ok::<_, CommandFailure>(Reranking { service, texts: Arc::new(texts), candidates: rerank.candidates })
    };
    let searcher = Searcher {
        index: Arc::new(index),
        vectors: timed.clone().map_or(QueryVectors::Off, |timed| QueryVectors::From(timed)),
        reliability: [].into(),
        learned: None,
        reranking: config.optimizer.rerank.as_ref().map(reranking).transpose()?,
        settings: SearchSettings {
            limit,
            semantic_ratio,
            query_deadline: EMBEDDING_TIMEOUT,
            ..SearchSettings::from(&config.optimizer.search)
        },
    };
    Ok((searcher, timed))
}

/// Extent of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measured {
    /// The hits of an answer.
    Hits,
    /// Also the place of tools that are not among them.
    Misses,
    /// The hits of a search that lacks vectors, which would be an error otherwise.
    Part,
}

/// Runs the queries, and compares the hits of each with its needs.
pub(super) async fn evaluate(
    corpus: &Corpus,
    queries: &[Query],
    searcher: &Searcher,
    timed: Option<&TimedEmbedder>,
    looked_at: Measured,
) -> Result<Report, CommandFailure> {
    let limit = searcher.settings.limit;
    let measured = limit.max(MEASURED_HITS);
    let wanted = if looked_at == Measured::Misses { measured.max(MISS_SEARCH_DEPTH) } else { measured };
    let bar = progress::counter(queries.len(), "searching");
    let mut report = Report::default();
    for query in queries {
        let started = Instant::now();
        let request = SearchRequest {
            description: &query.text,
            keywords: &query.keywords,
            limit: Some(wanted),
            visible: None,
            explain: false,
        };
        let found = search(searcher, request).await;
        let took = started.elapsed();
        let is_part = matches!(found.degraded, Some(Degraded::NoVectors | Degraded::SomeVectors { .. }));
        if let Some(reason) = found.degraded.filter(|_| !(is_part && looked_at == Measured::Part)) {
            return Err(CommandFailure::new(format!("query {}: {reason}", query.id))
                .remedy("--provider none measures the keyword search alone"));
        }
        let hits = found.ranking.hits.iter().filter_map(|hit| corpus.tool(hit.document));
        let hits: Vec<_> = hits.collect();
        let ranking: Vec<_> =
            hits.iter().map(|tool| (&*tool.backend, tool.definition.name.as_str())).collect();
        let top = ranking.get(..measured.min(ranking.len())).unwrap_or_default();
        let groups: Vec<Vec<_>> =
            query.groups.iter().map(|group| group.iter().map(NeededTool::as_pair).collect()).collect();
        let judgment = Judgment::new(top, &groups);
        if judgment.recall(limit) < 1.0 {
            report.misses.push(Miss::new(query, &ranking, limit));
        }
        report.judgments.push(judgment);
        report.tokens.push(tokens::estimate(hits.iter().take(limit).map(|tool| tool.size)) as f64);
        let embedding = timed.map(TimedEmbedder::take).unwrap_or_default();
        report.with_embedding.push(took.as_secs_f64() * 1e3);
        report.without_embedding.push(took.saturating_sub(embedding).as_secs_f64() * 1e3);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(report)
}
