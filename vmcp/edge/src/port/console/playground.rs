//! The data of the search playground: the search of find_tool over all tools, or over the tools that one
//! client may see, with its explanation.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;
use vmcp_console::pages::search::{Answer, Query as PageQuery, Verdict, search as search_page};
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::{Snapshot, View};
use vmcp_engine::search::{SearchRequest, search};
use vmcp_search::{Hit, Ranking};

use super::access::{ConsoleDoor, Visitor};
use super::catalog::visibility;
use super::other_pages::client_query::{ClientQuery, WANTS_SUBJECT};
use crate::port::admin::diagnosis::explain_tool::{ExplainRequest, explain, principal};
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
    Query(client): Query<ClientQuery>,
) -> Response {
    for (name, text) in [("q", &q), ("keywords", &keywords), ("wanted", &wanted)] {
        if text.chars().count() > MAX_QUERY_CHARS {
            let words = format!("{name}: longer than {MAX_QUERY_CHARS} characters\n");
            return (StatusCode::BAD_REQUEST, words).into_response();
        }
    }
    let snapshot = door.engine().snapshot();
    let (searching, mistake) = match searching(&client, &snapshot) {
        Ok(searching) => (searching, None),
        Err(mistake) => (None, Some(mistake)),
    };
    let is_asked = mistake.is_none() && !(q.trim().is_empty() && keywords.trim().is_empty());
    let client = client.question(&snapshot.config, mistake);
    let query = PageQuery { text: q, keywords, wanted: wanted.trim().to_owned(), client };
    let answer =
        if is_asked { Some(answer(&door, &snapshot, &query, searching.as_ref()).await) } else { None };
    Html(search_page(&door.frame(&visitor), &query, answer.as_ref())).into_response()
}

/// Returns the client that searches; `None`: all tools are searched.
fn searching(client: &ClientQuery, snapshot: &Snapshot) -> Result<Option<Principal>, String> {
    if client.is_anonymous() && !client.has_profile() {
        return Ok(None);
    }
    if client.is_anonymous() && !snapshot.authentication.is_anonymous() {
        return Err(WANTS_SUBJECT.to_owned());
    }
    let request = client.request(&snapshot.config, "")?;
    principal(&request, &snapshot.config).map(Some)
}

async fn answer(
    door: &ConsoleDoor,
    snapshot: &Arc<Snapshot>,
    query: &PageQuery,
    searching: Option<&Principal>,
) -> Answer {
    let catalog = snapshot.unfiltered();
    let view = match searching {
        Some(principal) => {
            door.engine().prepare(snapshot, principal).await;
            snapshot.view(principal)
        }
        None => Arc::clone(snapshot.whole_view()),
    };
    let key = searching.map_or_else(|| Principal::default().key(), Principal::key);
    let searcher = door.engine().searcher(snapshot, key);
    // The rank of a wanted tool may be any; without one, the first hits are enough.
    let limit = if query.wanted.is_empty() { SHOWN_HITS } else { catalog.tools.len().max(SHOWN_HITS) };
    let request = SearchRequest {
        description: &query.text,
        keywords: &query.keywords,
        limit: Some(limit),
        visible: Some(view.visible()),
        explain: true,
    };
    let found = search(&searcher, request).await;
    let named = |hit: &Hit| match catalog.tools.get(hit.document) {
        Some(tool) => (tool.name.clone(), tool.backend.to_string(), tool.definition.name.clone()),
        None => (String::new(), String::new(), String::new()),
    };
    let tools = found.ranking.hits.iter().take(SHOWN_HITS).map(named).collect();
    let mut hidden = Vec::new();
    if searching.is_some() {
        let request = SearchRequest {
            limit: Some(SHOWN_HITS),
            visible: Some(snapshot.whole_view().visible()),
            explain: false,
            ..request
        };
        let all = search(&searcher, request).await;
        let is_hidden = |hit: &&Hit| view.document(hit.document).is_none();
        hidden = all.ranking.hits.iter().filter(is_hidden).map(named).collect();
    }
    let own_view = searching.map(|_| &*view);
    let verdict =
        (!query.wanted.is_empty()).then(|| verdict(snapshot, own_view, &found.ranking, &query.wanted));
    let is_unknown = verdict == Some(Verdict::Unknown);
    let reasons = if is_unknown { reasons(door, &query.wanted).await } else { Vec::new() };
    Answer {
        tools,
        degraded: found.degraded.map(|degraded| degraded.to_string()),
        semantic_ratio: searcher.settings.semantic_ratio,
        limit: searcher.settings.limit,
        verdict,
        reasons,
        who: searching.map(|principal| principal.identity.subject().to_owned()).unwrap_or_default(),
        hidden,
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
/// server; `view` has the tools of the client that searches.
fn verdict(snapshot: &Snapshot, view: Option<&View>, ranking: &Ranking, wanted: &str) -> Verdict {
    let catalog = snapshot.unfiltered();
    let by_own_name = || catalog.tools.iter().find(|tool| tool.definition.name == wanted);
    let Some(tool) = catalog.tool(wanted).or_else(by_own_name) else { return Verdict::Unknown };
    match visibility(snapshot, tool) {
        Visibility::Quarantined => return Verdict::Quarantined,
        Visibility::Hidden => return Verdict::Hidden,
        Visibility::Found | Visibility::OnlyFound => {}
    }
    if view.is_some_and(|view| view.tool(&tool.name).is_none()) {
        return Verdict::NotForClient;
    }
    let rank = catalog
        .position(&tool.name)
        .and_then(|document| ranking.hits.iter().position(|hit| hit.document == document));
    rank.map_or(Verdict::NoMatch, |rank| Verdict::Ranked(rank + 1))
}
