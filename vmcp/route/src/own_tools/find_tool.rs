//! The handler of find_tool: searches the caller's view of the catalog, and answers with the best tools,
//! their schemas, and the tokens that this answer saves against listing every tool.
//!
//! A search without embeddings still answers, by keywords, and says so (`degraded`); with `onUnavailable:
//! fail` it is an error instead.

mod ambiguity;
pub(super) mod search_record;
mod short_schema;
pub(super) mod signatures;
pub(super) mod visible_schema;

use std::borrow::Cow;
use std::pin::pin;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use vmcp_config::OnUnavailable;
use vmcp_json::object::Object;
use vmcp_model::catalog::CatalogTool;
use vmcp_model::tokens;
use vmcp_search::{Explanation, QueryTerm, Ranking, SMALL_SET, SearchMode, first_sentence};

use self::short_schema::short_schema;
use self::visible_schema::visible_schema;
use super::arguments::dialect::Dialect;
use super::unavailable::{self, UnavailableServer};
use crate::answer::Answer;
use crate::answer::tool_result;
use crate::caller::CallContext;
use crate::own_tools::arguments::find_arguments::{Detail, FindArguments};
pub(crate) use vmcp_engine::engine::snapshot::contextual::tool_key;
use vmcp_engine::engine::{Engine, View};
use vmcp_engine::search::reranking::Reordering;
pub(crate) use vmcp_engine::search::{Degraded, SearchRequest, SearchResult, search};
use vmcp_engine::telemetry::calls::{Origin, Outcome};
use vmcp_engine::telemetry::metrics::EmbeddingLabels;
use vmcp_engine::telemetry::traces::{self, OpenSpan, TraceSpan};

/// Characters of a first sentence that are shown, unless everything is.
const MAX_SENTENCE_CHARS: usize = 200;

/// Searches, and answers with a `CallToolResult`.
pub(super) async fn run(context: CallContext<'_>, arguments: &RawValue) -> Answer {
    let mut recorder = context.start_own_record(Origin::FindTool, arguments);
    let span = TraceSpan::begin("optimizer.find_tool", OpenSpan::call);
    recorder.record().span = span.clone();
    let found = traces::in_span(pin!(find(context, arguments)), &span).await;
    let (result, outcome) = match found {
        Ok(json) => (tool_result::structured(&json), Outcome::Ok),
        Err(message) => (tool_result::error(&message), Outcome::ToolError),
    };
    recorder.record().bytes_in = arguments.get().len() as u64;
    recorder.record().bytes_out = result.get().len() as u64;
    recorder.settle(outcome);
    Answer::own(result)
}

async fn find(context: CallContext<'_>, arguments: &RawValue) -> Result<Box<RawValue>, String> {
    let CallContext { engine, snapshot, view, caller } = context;
    let config = &snapshot.config.optimizer;
    let arguments = FindArguments::parse(arguments, &config.limits).map_err(|error| error.to_string())?;
    let searcher = engine.searcher(snapshot, caller.principal.key());
    let request = SearchRequest {
        description: &arguments.description,
        keywords: &arguments.keywords,
        limit: arguments.limit,
        visible: Some(view.visible()),
        explain: arguments.explain,
    };
    let found = search(&searcher, request).await;
    let metrics = engine.metrics();
    if let Some(took) = found.embedding_took {
        let duration = metrics.embedding_duration.get_or_create(&EmbeddingLabels { kind: "query" });
        duration.observe(took.as_secs_f64());
        match &found.degraded {
            Some(degraded) => report(engine, degraded, took),
            None => engine.query_answered(),
        }
    }
    if let Some(Reordering { took: Some(took), error }) = &found.reordering {
        metrics.rerank_duration.observe(took.as_secs_f64());
        metrics.rerank_errors.inc_by(u64::from(error.is_some()));
    }
    if let Some(degraded) = &found.degraded {
        TraceSpan::current().text("degraded", &degraded.to_string());
        metrics.degraded_searches.inc();
        if config.embeddings.on_unavailable == OnUnavailable::Fail && degraded.lacks_vectors() {
            return Err(format!("the search is not available: {degraded}"));
        }
    }
    let hits = || found.ranking.hits.iter().filter_map(move |hit| tool_key(view, hit.document));
    let key = context.context_key(arguments.context.as_deref());
    if let Some(key) = key {
        engine.contexts().with(key, caller.principal.key(), |context| context.finds(hits()));
    }
    search_record::record(context, key, [&arguments.description, &arguments.keywords], hits());
    let mut unavailable = unavailable::servers(context);
    if !arguments.explain {
        // Causes may be long, and would stand in every answer; `explain` asks for them.
        for server in &mut unavailable {
            server.reason = None;
        }
    }
    answer(context, &found, &arguments, unavailable).map_err(|error| error.to_string())
}

/// Reports to the engine how a request for the query's vector ended, so that the next searches do not wait
/// for the same failure. A search that asked for none, during an outage, reports nothing.
fn report(engine: &Engine, degraded: &Degraded, took: Duration) {
    let failed = || engine.metrics().embedding_errors.get_or_create(&EmbeddingLabels { kind: "query" }).inc();
    match degraded {
        Degraded::Provider(error) => {
            failed();
            engine.query_failed(error, took);
        }
        Degraded::Slow(after) => {
            failed();
            engine.query_slow(*after);
        }
        Degraded::OtherModel => engine.query_of_other_model(),
        Degraded::NoVectors | Degraded::SomeVectors { .. } | Degraded::NotReranked(_) => {
            engine.query_answered();
        }
    }
}

#[derive(Serialize)]
struct FindToolAnswer<'a> {
    tools: &'a RawValue,
    token_metrics: TokenMetrics,
    search_mode: SearchMode,
    #[serde(skip_serializing_if = "Option::is_none")]
    degraded: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    degraded_reason: Option<String>,
    /// The query as it was searched, without its slips.
    #[serde(skip_serializing_if = "Option::is_none")]
    corrected_query: Option<&'a str>,
    /// Servers whose tools fit equally well: the user may have to say which one is meant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ambiguous_between: Vec<&'a str>,
    /// Servers that do not answer: what is not found may be theirs. The cause only with `explain`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unavailable: Vec<UnavailableServer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<SearchExplanation<'a>>,
}

#[derive(Serialize)]
struct FoundTool<'a> {
    name: &'a str,
    backend_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Cow<'a, RawValue>>,
    score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<&'a Explanation>,
}

/// Diagnosis of a search, for callers that set `explain`.
#[derive(Serialize)]
struct SearchExplanation<'a> {
    /// Tools that this caller may see; all others had no influence.
    tools_searched: usize,
    keyword_matches: usize,
    without_vector: usize,
    semantic_ratio: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    distance_threshold: Option<f32>,
    terms: &'a [QueryTerm],
    clauses: &'a [String],
}

/// Tokens that the answer, as a whole, saves against listing every tool. The definitions of the own tools are
/// given apart, as their cost.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct TokenMetrics {
    baseline_tokens: u64,
    returned_tokens: u64,
    savings_percent: f64,
    tokens_saved: i64,
    optimizer_tokens: u64,
}

impl TokenMetrics {
    fn new(view: &View, returned: u64) -> TokenMetrics {
        let baseline = view.baseline_tokens;
        let saved = i64::try_from(baseline).unwrap_or(i64::MAX) - i64::try_from(returned).unwrap_or(i64::MAX);
        let percent = if baseline == 0 { 0.0 } else { saved as f64 / baseline as f64 * 100.0 };
        TokenMetrics {
            baseline_tokens: baseline,
            returned_tokens: returned,
            savings_percent: (percent * 100.0).round() / 100.0,
            tokens_saved: saved,
            optimizer_tokens: view.optimizer_tokens,
        }
    }
}

fn answer(
    context: CallContext<'_>,
    found: &SearchResult,
    arguments: &FindArguments,
    unavailable: Vec<UnavailableServer>,
) -> Result<Box<RawValue>, serde_json::Error> {
    let CallContext { engine, snapshot, view, .. } = context;
    let (settings, metrics) = (&snapshot.config.optimizer.search, engine.metrics());
    let ranking = &found.ranking;
    let returned: Vec<&CatalogTool> =
        ranking.hits.iter().filter_map(|hit| Some(view.document(hit.document)?.as_ref())).collect();
    let listed: Vec<Object<'_>> =
        returned.iter().map(|tool| Object::parse(&tool.raw).unwrap_or_default()).collect();
    let full = arguments.detail == Detail::Full;
    let tools = returned.iter().zip(&listed).zip(&ranking.hits).map(|((tool, listed), hit)| FoundTool {
        name: &tool.name,
        backend_id: &tool.backend,
        description: description(tool, arguments.detail),
        parameters: parameters(listed, arguments.detail),
        score: (hit.score * 1e4).round() / 1e4,
        title: tool.title.as_deref().filter(|_| full),
        annotations: listed.get("annotations").filter(|_| full),
        output_schema: listed.get("outputSchema").filter(|_| full),
        signature: (arguments.detail == Detail::Signatures)
            .then(|| signatures::signature(context, tool, Dialect::Python)),
        explanation: hit.explanation.as_ref(),
    });
    // A small set and a re-ranking service have scores of other scales.
    let ambiguous_between = if ranking.visible >= SMALL_SET && found.reordering.is_none() {
        let hits = returned.iter().zip(&ranking.hits);
        ambiguity::tied_servers(hits.map(|(tool, hit)| (hit.score, &*tool.backend)))
    } else {
        Vec::new()
    };
    // Schemas are most of an answer: they are written once, and copied into the answer.
    let tools = to_raw_value(&tools.collect::<Vec<_>>())?;
    let mut answer = FindToolAnswer {
        tools: RawValue::NULL,
        token_metrics: TokenMetrics::new(view, 0),
        search_mode: ranking.mode,
        degraded: found.degraded.as_ref().map(|_| true),
        degraded_reason: found.degraded.as_ref().map(ToString::to_string),
        corrected_query: found.corrected.as_deref(),
        ambiguous_between,
        unavailable,
        explain: arguments.explain.then(|| explanation(ranking, settings)),
    };
    let size = |json: &RawValue| json.get().chars().count();
    let characters = size(&to_raw_value(&answer)?) - size(RawValue::NULL) + size(&tools);
    answer.tools = &tools;
    answer.token_metrics =
        TokenMetrics::new(view, tokens::estimate([u32::try_from(characters).unwrap_or(u32::MAX)]));
    metrics.find_tool_results.observe(returned.len() as f64);
    // An answer may cost more than a small catalog; a histogram takes no negative values.
    metrics.token_savings.observe(answer.token_metrics.savings_percent.max(0.0));
    engine.query_log().saved(u64::try_from(answer.token_metrics.tokens_saved).unwrap_or_default());
    to_raw_value(&answer)
}

fn description(tool: &CatalogTool, detail: Detail) -> Option<Cow<'_, str>> {
    match detail {
        Detail::Names | Detail::Signatures => None,
        Detail::Summary => Some(
            first_sentence(&tool.description).chars().take(MAX_SENTENCE_CHARS).collect::<String>().into(),
        ),
        Detail::Full => Some(tool.description.as_str().into()),
    }
}

fn parameters<'a>(listed: &Object<'a>, detail: Detail) -> Option<Cow<'a, RawValue>> {
    let schema = listed.get("inputSchema").unwrap_or(RawValue::NULL);
    match detail {
        Detail::Names | Detail::Signatures => None,
        // A schema that cannot be shortened stays whole.
        Detail::Summary => Some(short_schema(schema).map_or_else(|| visible_schema(schema), Cow::Owned)),
        Detail::Full => Some(visible_schema(schema)),
    }
}

fn explanation<'a>(ranking: &'a Ranking, settings: &vmcp_config::Search) -> SearchExplanation<'a> {
    SearchExplanation {
        tools_searched: ranking.visible,
        keyword_matches: ranking.keyword_matches,
        without_vector: ranking.without_vector,
        semantic_ratio: settings.hybrid_semantic_ratio,
        distance_threshold: settings.semantic_distance_threshold,
        terms: &ranking.terms,
        clauses: &ranking.clauses,
    }
}
