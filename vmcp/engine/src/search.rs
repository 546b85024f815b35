//! The one search behind find_tool, `vmcp find` and `vmcp eval`: embeds the query, scans the index and
//! reports a degraded search.
//!
//! A missing or slow embedding provider never fails a search: keywords answer alone, and
//! [`SearchResult::degraded`] gives the reason.

pub mod context;
mod learned_tools;
#[cfg(test)]
mod paraphrases;
pub mod reranking;
#[cfg(test)]
mod tests;
pub mod topics;

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use tokio::time::timeout;
use vmcp_embed::{EmbedError, Embedder};
use vmcp_search::{
    Clause, Index, Query, Ranking, Reliability, SMALL_SET, SearchMode, Visible, query_form, request_of,
    rerank, short_form, split_clauses,
};

use context::QueryEmbedding;
use learned_tools::LearnedDocuments;
pub use learned_tools::LearnedTools;
use reranking::{Reordering, Reranking};

use crate::telemetry::traces::{OpenSpan, TraceSpan, in_span};

/// Time that a search waits for the embedding of its query; then keywords answer alone.
const QUERY_EMBEDDING_TIMEOUT: Duration = Duration::from_secs(2);
/// Time that a search waits for the local model to be loaded, before [`QUERY_EMBEDDING_TIMEOUT`] begins.
const MODEL_LOAD_TIMEOUT: Duration = Duration::from_secs(20);
/// From this many tools on, a scan runs on a blocking thread: it takes long enough to delay the connections
/// of an async thread.
const MIN_OFFLOADED_TOOLS: usize = 1000;

/// An index, the source of query vectors and the ranking settings. Cheap to clone.
#[derive(Clone)]
pub struct Searcher {
    /// The tools.
    pub index: Arc<Index>,
    /// Source of the query's vector.
    pub vectors: QueryVectors,
    /// Success of tools' calls by document number, in ascending order.
    pub reliability: Arc<[(usize, Reliability)]>,
    /// Learned pairs; `None` before the first pair, or if learning is off.
    pub learned: Option<LearnedTools>,
    /// Service that reorders the first hits; `None`: their order stays.
    pub reranking: Option<Reranking>,
    /// Ranking.
    pub settings: SearchSettings,
}

/// Source of a query's vector.
#[derive(Clone)]
pub enum QueryVectors {
    /// None, by configuration: keywords alone.
    Off,
    /// None at present: the provider is down.
    Down(EmbedError),
    /// The model that embedded the tools.
    From(Arc<dyn Embedder>),
}

/// Ranking settings.
#[derive(Debug, Clone)]
pub struct SearchSettings {
    /// Most hits if the request names no limit.
    pub limit: usize,
    /// Weight of the vectors, 0 (keywords only) to 1 (vectors only).
    pub semantic_ratio: f32,
    /// Cosine distance beyond which a tool is not found by its vector.
    pub distance_threshold: Option<f32>,
    /// Weight of tools' success rates, 0 (none) to 1.
    pub reliability_weight: f32,
    /// Weight of learned pairs, 0 (none) to 1.
    pub learned_weight: f32,
    /// Time to wait for the embedding of the query.
    pub query_deadline: Duration,
}

impl From<&vmcp_config::Search> for SearchSettings {
    fn from(search: &vmcp_config::Search) -> SearchSettings {
        SearchSettings {
            limit: search.max_tools,
            semantic_ratio: search.hybrid_semantic_ratio,
            distance_threshold: search.semantic_distance_threshold,
            reliability_weight: search.reliability_weight,
            learned_weight: search.learned_weight,
            query_deadline: QUERY_EMBEDDING_TIMEOUT,
        }
    }
}

/// A search request.
#[derive(Debug, Clone, Copy)]
pub struct SearchRequest<'a> {
    /// Task that the tool should do.
    pub description: &'a str,
    /// Terms; may be empty.
    pub keywords: &'a str,
    /// Most hits; the configured number if absent.
    pub limit: Option<usize>,
    /// Tools that the caller may see; `None`: all.
    pub visible: Option<&'a Arc<Visible>>,
    /// Adds an explanation to each hit.
    pub explain: bool,
}

/// The result of a search.
#[derive(Debug)]
pub struct SearchResult {
    /// The ranked hits.
    pub ranking: Ranking,
    /// Reason, if the search had to do without something.
    pub degraded: Option<Degraded>,
    /// Time that the provider took for the query's vectors, if it was asked.
    pub embedding_took: Option<Duration>,
    /// Reordering of the first hits; `None` without a re-ranking service.
    pub reordering: Option<Reordering>,
    /// The query as it was searched, if slips were corrected in it.
    pub corrected: Option<String>,
}

/// Reasons for a degraded search.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Degraded {
    /// No tool has a vector yet.
    #[error("the tools are not embedded yet")]
    NoVectors,
    /// Some tools have no vector yet; they are ranked by keywords.
    #[error("{missing} of {visible} tools are not embedded yet")]
    SomeVectors {
        /// Tools without a vector.
        missing: usize,
        /// Tools searched.
        visible: usize,
    },
    /// The query was not embedded. The text names no address: callers read it.
    #[error("the query could not be embedded ({})", .0.category())]
    Provider(EmbedError),
    /// The query was not embedded in time.
    #[error("the query was not embedded within {} seconds", .0.as_secs_f32())]
    Slow(Duration),
    /// The query's vector does not fit the tools'; the model has just changed.
    #[error("the embedding model has changed; the tools are being embedded anew")]
    OtherModel,
    /// The first hits were not reordered. The text names no address.
    #[error("the first hits were not re-ranked ({0})")]
    NotReranked(String),
}

impl Degraded {
    /// True if the search had to do without vectors.
    pub fn lacks_vectors(&self) -> bool {
        !matches!(self, Degraded::NotReranked(_))
    }
}

/// Searches. Never fails: if one arm has no input, the other answers, and the result says so.
pub fn search<'a>(searcher: &'a Searcher, request: SearchRequest<'a>) -> BoxFuture<'a, SearchResult> {
    Box::pin(find(searcher, request))
}

async fn find(searcher: &Searcher, request: SearchRequest<'_>) -> SearchResult {
    prepare(&searcher.index).await;
    let description = request_of(request.description.trim());
    let visible = request.visible.map(|visible| &**visible);
    let [description, keywords] =
        [description, request.keywords].map(|text| spelled(searcher, text, visible));
    let is_corrected = [&description, &keywords].into_iter().any(|text| matches!(text, Cow::Owned(_)));
    let description = &*description;
    let whole = whole_query(description, &keywords);
    let corrected = is_corrected.then(|| whole.clone());
    // One batch for the whole query and its clauses: a provider takes little longer for it than for one text.
    let texts: Vec<String> = std::iter::once(whole).chain(split_clauses(description)).collect();
    // The index compares no forms in a small set of visible tools.
    let visible = request.visible.map_or(searcher.index.len(), |visible| visible.len());
    let takes_forms = visible >= SMALL_SET
        && matches!(&searcher.vectors, QueryVectors::From(embedder) if embedder.takes_short_forms());
    // The whole query, at 0, is expanded; its clauses are not.
    let form = |at: usize, text: &String| if at == 0 { query_form(text) } else { short_form(text) };
    let forms = texts.iter().enumerate().map(|(at, text)| if takes_forms { form(at, text) } else { None });
    let forms: Vec<_> = forms.collect();
    let embedded: Vec<String> = texts.iter().chain(forms.iter().flatten()).cloned().collect();
    let asked = searcher.asks_provider().then(Instant::now);
    let (mut vectors, unembedded) = match embed(searcher, &embedded).await {
        Ok(vectors) => (vectors, None),
        Err(reason) => (Vec::new(), Some(reason)),
    };
    let embedding_took = asked.map(|asked| asked.elapsed());
    let learned = learned(searcher, vectors.first()).await.promoting(request.visible);
    let limit = request.limit.unwrap_or(searcher.settings.limit);
    // The vectors of the forms follow those of the texts.
    let mut of_forms = vectors.split_off(texts.len().min(vectors.len())).into_iter();
    let short_vectors = forms.iter().map(|form| form.as_ref().and_then(|_| of_forms.next())).collect();
    let scan = Arc::new(Scan {
        index: Arc::clone(&searcher.index),
        visible: request.visible.map(Arc::clone),
        texts,
        vectors,
        short_vectors,
        reliability: Arc::clone(&searcher.reliability),
        learned,
        limit: searcher.reranking.as_ref().map_or(limit, |reranking| limit.max(reranking.candidates)),
        settings: searcher.settings.clone(),
        explain: request.explain,
        span: TraceSpan::current(),
    });
    let is_quick = searcher.index.is_prepared() && searcher.index.len() < MIN_OFFLOADED_TOOLS;
    let mut ranking = if is_quick {
        scan.run()
    } else {
        let scanner = Arc::clone(&scan);
        // The task fails only when the runtime is going down; then this thread answers.
        tokio::task::spawn_blocking(move || scanner.run()).await.unwrap_or_else(|_| scan.run())
    };
    let reordering = order_anew(searcher, &scan, &mut ranking).await;
    ranking.hits.truncate(limit);
    let without_vectors = match unembedded {
        _ if !searcher.wants_vectors() => None,
        Some(reason) => Some(reason),
        // Tools have vectors, and none fits the query's.
        None if ranking.mode == SearchMode::Keyword && ranking.without_vector < ranking.visible => {
            Some(Degraded::OtherModel)
        }
        None if ranking.without_vector > 0 => {
            Some(Degraded::SomeVectors { missing: ranking.without_vector, visible: ranking.visible })
        }
        None => None,
    };
    let not_reranked = reordering.as_ref().and_then(|reordering| reordering.error.clone());
    let degraded = without_vectors.or(not_reranked.map(Degraded::NotReranked));
    SearchResult { ranking, degraded, embedding_took, reordering, corrected }
}

/// Orders the first hits by the re-ranking service; an error leaves them as they are. `None` without a
/// service, or without hits to order.
async fn order_anew(searcher: &Searcher, scan: &Scan, ranking: &mut Ranking) -> Option<Reordering> {
    let Reranking { service, texts, candidates } = searcher.reranking.as_ref()?;
    let query = scan.texts.first().filter(|query| !query.is_empty() && ranking.hits.len() > 1)?;
    let text = |document: usize| texts.get(document).map_or("", String::as_str);
    let candidates = service.candidates().min(*candidates);
    let read: Vec<&str> = ranking.hits.iter().take(candidates).map(|hit| text(hit.document)).collect();
    let traced = TraceSpan::begin("search.rerank", |open| open.number("tools", read.len()));
    let (scores, reordering) = in_span(pin!(service.scores(query, &read)), &traced).await;
    if let Some(error) = &reordering.error {
        traced.fill(|open| {
            open.text("error", error);
            open.fail("");
        });
    }
    drop(traced);
    if let Some(scores) = scores {
        rerank(ranking, &scores, &Query { explain: scan.explain, ..scan.experience() });
    }
    Some(reordering)
}

/// Indexes the text of a deferred index, away from the connections of this thread.
async fn prepare(index: &Arc<Index>) {
    if !index.is_prepared() {
        let deferred = Arc::clone(index);
        // The task fails only when the runtime is going down; then the first look into the index indexes it.
        let _prepared = tokio::task::spawn_blocking(move || deferred.prepare()).await;
    }
}

/// Returns a text of a query without its slips.
fn spelled<'a>(searcher: &Searcher, text: &'a str, visible: Option<&Visible>) -> Cow<'a, str> {
    searcher.index.corrected(text, visible).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Returns the text of a query for both arms: description and keywords.
pub fn whole_query(description: &str, keywords: &str) -> String {
    [description.trim(), keywords.trim()].join(" ").trim().to_owned()
}

/// Embeds one text as searches embed queries, and names the model.
pub async fn embed_query(searcher: &Searcher, text: &str) -> Result<QueryEmbedding, Degraded> {
    let embedder = match &searcher.vectors {
        QueryVectors::Off => return Err(Degraded::NoVectors),
        QueryVectors::Down(error) => return Err(Degraded::Provider(error.clone())),
        QueryVectors::From(embedder) => embedder,
    };
    let _loaded = timeout(MODEL_LOAD_TIMEOUT, embedder.prepare()).await;
    let deadline = searcher.settings.query_deadline;
    prepare(&searcher.index).await;
    let texts = [spelled(searcher, request_of(text), None).into_owned()];
    let asked = async { Ok((embedder.embed(&texts).await?, embedder.model_id().await?)) };
    let answered = timeout(deadline, asked).await.map_err(|_| Degraded::Slow(deadline))?;
    let (vectors, model) = answered.map_err(Degraded::Provider)?;
    let vector = vectors.into_iter().next().ok_or(Degraded::NoVectors)?;
    Ok(QueryEmbedding { model: model.into(), vector: vector.into() })
}

/// Returns what was learned about a query, by document.
async fn learned(searcher: &Searcher, query: Option<&Vec<f32>>) -> LearnedDocuments {
    let (Some(learned), Some(query), QueryVectors::From(embedder)) =
        (&searcher.learned, query, &searcher.vectors)
    else {
        return LearnedDocuments::default();
    };
    // The provider has just embedded the query, so that it knows its model.
    match embedder.model_id().await {
        Ok(model) => learned.recollect(&model, query),
        Err(_) => LearnedDocuments::default(),
    }
}

impl Searcher {
    /// True if vectors would influence the ranking.
    fn wants_vectors(&self) -> bool {
        let off = matches!(self.vectors, QueryVectors::Off);
        !off && self.settings.semantic_ratio > 0.0 && !self.index.is_empty()
    }

    /// True if a search asks the provider for anything.
    fn asks_provider(&self) -> bool {
        let reachable = matches!(self.vectors, QueryVectors::From(_));
        reachable && self.wants_vectors() && self.index.vectors().count() > 0
    }
}

/// Embeds the query's texts; returns no vectors if they would not influence the ranking.
async fn embed(searcher: &Searcher, texts: &[String]) -> Result<Vec<Vec<f32>>, Degraded> {
    let embedder = match &searcher.vectors {
        _ if !searcher.wants_vectors() => return Ok(Vec::new()),
        QueryVectors::Off => return Ok(Vec::new()),
        QueryVectors::Down(error) => return Err(Degraded::Provider(error.clone())),
        QueryVectors::From(_) if searcher.index.vectors().count() == 0 => return Err(Degraded::NoVectors),
        QueryVectors::From(embedder) => embedder,
    };
    // A model in this process is loaded by the first search after a start, which takes a second or more.
    let _loaded = timeout(MODEL_LOAD_TIMEOUT, embedder.prepare()).await;
    let deadline = searcher.settings.query_deadline;
    let span = TraceSpan::begin("embedding.query", |open| open.number("texts", texts.len()));
    let outcome = in_span(pin!(timeout(deadline, embedder.embed(texts))), &span).await;
    let failed = match outcome {
        Ok(Ok(vectors)) => {
            span.fill(OpenSpan::succeed);
            return Ok(vectors);
        }
        Ok(Err(EmbedError::ModelChanged { .. })) => Degraded::OtherModel,
        Ok(Err(error)) => Degraded::Provider(error),
        Err(_) => Degraded::Slow(deadline),
    };
    let error = failed.to_string();
    span.fill(|open| {
        open.text("error", &error);
        open.fail("");
    });
    Err(failed)
}

/// The computing part of a search, which does not wait.
struct Scan {
    index: Arc<Index>,
    visible: Option<Arc<Visible>>,
    /// The whole query, then its clauses.
    texts: Vec<String>,
    /// One for each text, or none.
    vectors: Vec<Vec<f32>>,
    /// Vectors of the [forms](short_form) of the texts, by text.
    short_vectors: Vec<Option<Vec<f32>>>,
    reliability: Arc<[(usize, Reliability)]>,
    learned: LearnedDocuments,
    limit: usize,
    settings: SearchSettings,
    explain: bool,
    span: TraceSpan,
}

impl Scan {
    /// Returns a query with nothing but what is known of tools by their use.
    fn experience(&self) -> Query<'_> {
        Query {
            reliability: &self.reliability,
            reliability_weight: self.settings.reliability_weight,
            learned: &self.learned.strengths,
            learned_weight: self.settings.learned_weight,
            promoted: if self.settings.learned_weight > 0.0 { &self.learned.promoted } else { &[] },
            ..Query::default()
        }
    }

    fn run(&self) -> Ranking {
        let vector = |at: usize| self.vectors.get(at).map(Vec::as_slice);
        let short_vector = |at: usize| self.short_vectors.get(at).and_then(Option::as_deref);
        let clause = |(at, text)| Clause { text, vector: vector(at), short_vector: short_vector(at) };
        let mut texts = self.texts.iter().map(String::as_str).enumerate().map(clause);
        let whole = texts.next().unwrap_or(Clause { text: "", vector: None, short_vector: None });
        let clauses: Vec<_> = texts.collect();
        // Both arms share one pass over the index, so their spans cover the same time.
        let keyword = self.span.below("search.keyword", |_| ());
        let semantic = whole.vector.map(|_| {
            self.span.below("search.semantic", |open| open.number("tools", self.index.vectors().count()))
        });
        let ranking = self.index.search(
            &Query {
                text: whole.text,
                vector: whole.vector,
                short_vector: whole.short_vector,
                clauses: &clauses,
                limit: self.limit,
                semantic_ratio: self.settings.semantic_ratio,
                distance_threshold: self.settings.distance_threshold,
                explain: self.explain,
                ..self.experience()
            },
            self.visible.as_deref(),
        );
        drop(semantic);
        keyword.fill(|open| open.number("matches", ranking.keyword_matches));
        ranking
    }
}
