//! The data of the search playground: the search of find_tool over all tools, with its explanation.

use axum::Extension;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;
use vmcp_console::pages::search::{Answer, Query as PageQuery, Verdict, search as search_page};
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::Snapshot;
use vmcp_engine::search::{SearchRequest, search};
use vmcp_search::Ranking;

use super::access::{ConsoleDoor, Visitor};
use super::catalog::visibility;
use crate::port::admin::diagnosis::explain_tool::{ExplainRequest, explain};
use vmcp_console::pages::catalog::Visibility;

/// Most reasons for which a wanted tool is unknown.
const MAX_REASONS: usize = 20;
/// Hits that the page shows.
const SHOWN_HITS: usize = 25;
/// Most characters of a task, or of its keywords: a page is for words, not for documents.
const MAX_QUERY_CHARS: usize = 2_000;

/// The query `?q=TASK&keywords=TERMS&wanted=NAME`.
#[derive(Deserialize)]
pub(super) struct PlaygroundQuery {
    #[serde(default)]
    q: String,
    #[serde(default)]
    keywords: String,
    #[serde(default)]
    wanted: String,
}

/// Answers `GET /console/search`.
pub(super) async fn show(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
    Query(PlaygroundQuery { q, keywords, wanted }): Query<PlaygroundQuery>,
) -> Response {
    for (name, text) in [("q", &q), ("keywords", &keywords), ("wanted", &wanted)] {
        if text.chars().count() > MAX_QUERY_CHARS {
            let words = format!("{name}: longer than {MAX_QUERY_CHARS} characters\n");
            return (StatusCode::BAD_REQUEST, words).into_response();
        }
    }
    let query = PageQuery { text: q, keywords, wanted: wanted.trim().to_owned() };
    let is_asked = !query.text.trim().is_empty() || !query.keywords.trim().is_empty();
    let answer = if is_asked { Some(answer(&door, &query).await) } else { None };
    Html(search_page(&door.frame(&visitor), &query, answer.as_ref())).into_response()
}

async fn answer(door: &ConsoleDoor, query: &PageQuery) -> Answer {
    let snapshot = door.engine().snapshot();
    let catalog = snapshot.unfiltered();
    let searcher = door.engine().searcher(&snapshot, Principal::default().key());
    // The rank of a wanted tool may be any; without one, the first hits are enough.
    let limit = if query.wanted.is_empty() { SHOWN_HITS } else { catalog.tools.len().max(SHOWN_HITS) };
    let request = SearchRequest {
        description: &query.text,
        keywords: &query.keywords,
        limit: Some(limit),
        visible: Some(snapshot.whole_view().visible()),
        explain: true,
    };
    let found = search(&searcher, request).await;
    let shown = found.ranking.hits.iter().take(SHOWN_HITS);
    let tools = shown
        .map(|hit| match catalog.tools.get(hit.document) {
            Some(tool) => (tool.name.clone(), tool.backend.to_string(), tool.definition.name.clone()),
            None => (String::new(), String::new(), String::new()),
        })
        .collect();
    let verdict = (!query.wanted.is_empty()).then(|| verdict(&snapshot, &found.ranking, &query.wanted));
    let is_unknown = verdict == Some(Verdict::Unknown);
    let reasons = if is_unknown { reasons(door, &query.wanted).await } else { Vec::new() };
    Answer {
        tools,
        degraded: found.degraded.map(|degraded| degraded.to_string()),
        semantic_ratio: searcher.settings.semantic_ratio,
        limit: searcher.settings.limit,
        verdict,
        reasons,
        ranking: found.ranking,
    }
}

/// Returns further reasons for which a wanted tool is unknown, such as servers that have listed nothing.
async fn reasons(door: &ConsoleDoor, wanted: &str) -> Vec<String> {
    let request = ExplainRequest { tool: wanted.to_owned(), ..ExplainRequest::default() };
    let Ok(explanation) = explain(door.engine(), &request).await else { return Vec::new() };
    let missing = explanation.steps.into_iter().filter(|step| step.subject != "known");
    let nearest = explanation.nearest.into_iter().map(|name| format!("perhaps `{name}` is meant"));
    missing.map(|step| step.why).chain(nearest).take(MAX_REASONS).collect()
}

/// Returns why a tool has its place. `wanted` is the name under which clients call it, or its own name at a
/// server.
fn verdict(snapshot: &Snapshot, ranking: &Ranking, wanted: &str) -> Verdict {
    let catalog = snapshot.unfiltered();
    let by_own_name = || catalog.tools.iter().find(|tool| tool.definition.name == wanted);
    let Some(tool) = catalog.tool(wanted).or_else(by_own_name) else { return Verdict::Unknown };
    match visibility(snapshot, tool) {
        Visibility::Quarantined => return Verdict::Quarantined,
        Visibility::Hidden => return Verdict::Hidden,
        Visibility::Found | Visibility::OnlyFound => {}
    }
    let rank = catalog
        .position(&tool.name)
        .and_then(|document| ranking.hits.iter().position(|hit| hit.document == document));
    rank.map_or(Verdict::NoMatch, |rank| Verdict::Ranked(rank + 1))
}
