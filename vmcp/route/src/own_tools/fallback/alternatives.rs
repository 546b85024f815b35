//! Tools that may take the place of a failed one: the most similar ones of the caller's view, ordered by
//! similarity, success rate and recency of success. A server that does not answer offers none.

use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;
use vmcp_backend::BackendState;
use vmcp_config::status::BreakerPosition;
use vmcp_model::catalog::CatalogTool;
use vmcp_search::{Candidate, Query, first_sentence};

use crate::call;
use crate::caller::CallContext;
pub(crate) use vmcp_engine::telemetry::tool_metrics::report::rounded;

/// Most similar tools that are considered.
const MAX_CANDIDATES: usize = 5;
/// Hits of the search, of which candidates are taken: the failed tool itself and those of servers that are
/// down are among them.
const SEARCHED: usize = 24;
/// Least similarity of an alternative; below it, tools have nothing in common but words.
const MIN_SIMILARITY: f32 = 0.35;

/// A tool that may take the place of another.
pub(in crate::own_tools) struct Alternative<'a> {
    pub(in crate::own_tools) tool: &'a Arc<CatalogTool>,
    candidate: Candidate,
}

/// An alternative as an answer names it.
#[derive(Debug, Serialize)]
pub(in crate::own_tools) struct Suggestion<'a> {
    /// The server that has it.
    server: &'a str,
    /// Its name, as call_tool takes it.
    tool: &'a str,
    similarity: f64,
    /// `None`: it was not called often enough to tell.
    success_rate: Option<f64>,
    reason: String,
}

/// Returns the alternatives to `failed`, best first, at most `limit`.
pub(in crate::own_tools) fn find<'a>(
    context: CallContext<'a>,
    failed: &Arc<CatalogTool>,
    limit: usize,
) -> Vec<Alternative<'a>> {
    let (snapshot, view) = (context.snapshot, context.view);
    let position = snapshot.unfiltered().tools.iter().position(|tool| Arc::ptr_eq(tool, failed));
    let Some(position) = position else { return Vec::new() };
    let text = format!("{} {}", failed.own_name, first_sentence(&failed.description));
    let ranking = snapshot.index.search(
        &Query {
            text: &text,
            vector: snapshot.index.vectors().row(position),
            limit: SEARCHED,
            semantic_ratio: snapshot.config.optimizer.search.hybrid_semantic_ratio,
            explain: true,
            ..Query::default()
        },
        Some(view.visible()),
    );
    let book = context.engine.metrics_for(context.caller.principal.key());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    let alternative = |hit: &vmcp_search::Hit| {
        let tool = view.document(hit.document).filter(|_| hit.document != position)?;
        let cosine = hit.explanation.as_ref().and_then(|explanation| explanation.cosine);
        let similarity = cosine.unwrap_or(hit.score);
        let metrics = book.get(&tool.backend, &tool.definition.name);
        let hours = |at: i64| (now as f64 - at as f64) / 3.6e6;
        let candidate = Candidate {
            similarity: f64::from(similarity.clamp(0.0, 1.0)),
            calls: metrics.map_or(0, |metrics| metrics.call_count),
            success_rate: metrics.map_or(0.0, |metrics| metrics.recent_success_rate),
            success_age_hours: metrics.and_then(|metrics| metrics.last_success_at).map(hours),
            same_server: tool.backend == failed.backend,
        };
        let fits = similarity >= MIN_SIMILARITY && !candidate.is_poor();
        (fits && answers(context, &tool.backend) && call::may_name(context, tool))
            .then_some(Alternative { tool, candidate })
    };
    let mut alternatives: Vec<_> = ranking.hits.iter().filter_map(alternative).take(MAX_CANDIDATES).collect();
    alternatives.sort_by(|one, other| other.candidate.rank().total_cmp(&one.candidate.rank()));
    alternatives.truncate(limit);
    alternatives
}

/// Returns true unless the server is known not to answer.
fn answers(context: CallContext<'_>, backend: &str) -> bool {
    let status = context.snapshot.backends.get(backend).map(vmcp_backend::Backend::status);
    status.is_some_and(|status| {
        status.state != BackendState::Failed && status.breaker == BreakerPosition::Closed
    })
}

impl<'a> Alternative<'a> {
    /// Returns the alternative as an answer names it.
    pub(in crate::own_tools) fn suggestion(&self) -> Suggestion<'a> {
        let Candidate { similarity, same_server, .. } = self.candidate;
        let rate = self.candidate.known_rate();
        let place = if same_server { "the same server" } else { "another server" };
        let record = match rate {
            Some(rate) => format!("{:.0} % of its calls succeed", rate * 100.0),
            None => "hardly called yet".to_owned(),
        };
        Suggestion {
            server: &self.tool.backend,
            tool: &self.tool.name,
            similarity: rounded(similarity, 2),
            success_rate: rate.map(|rate| rounded(rate, 2)),
            reason: format!("similar tool of {place}; {record}"),
        }
    }
}
