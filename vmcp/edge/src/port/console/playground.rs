//! The data of the search playground: the search of find_tool over all tools, or over the tools that one
//! client may see, with its explanation.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;
use vmcp_console::pages::catalog::Visibility;
use vmcp_console::pages::search::{Answer, FoundTool, Query as PageQuery, Verdict, search as search_page};
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::{Snapshot, View};
use vmcp_engine::optim::names::{OwnName, own_name};
use vmcp_engine::search::{SearchRequest, search};
use vmcp_model::tokens;
use vmcp_search::{Hit, Ranking};

use super::access::{ConsoleDoor, Visitor};
use super::catalog::visibility;
use super::other_pages::client_query::{ClientQuery, WANTS_SUBJECT};
use crate::port::admin::diagnosis::explain_tool::{explain, named, principal};

/// Most reasons for the place of a wanted tool.
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
    let question = client.question(&snapshot.config, mistake);
    let query = PageQuery { text: q, keywords, wanted: wanted.trim().to_owned(), client: question };
    let mut answer = if is_asked {
        Some(answer(&door, &snapshot, &query, &client, searching.as_ref()).await)
    } else {
        None
    };
    if visitor.is_viewer()
        && let Some(answer) = &mut answer
    {
        answer.hidden.clear();
    }
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
    client: &ClientQuery,
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
    let tool_of = |hit: &Hit| match catalog.tools.get(hit.document) {
        Some(tool) => FoundTool {
            name: tool.name.clone(),
            server: tool.backend.to_string(),
            original: tool.definition.name.clone(),
            tokens: tool.tokens,
        },
        None => FoundTool::default(),
    };
    let tools = found.ranking.hits.iter().take(SHOWN_HITS).map(tool_of).collect();
    let limit = searcher.settings.limit;
    let sent = found.ranking.hits.iter().take(limit).filter_map(|hit| catalog.tools.get(hit.document));
    let answer_tokens = tokens::estimate(sent.map(|tool| tool.size));
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
        hidden = all.ranking.hits.iter().filter(is_hidden).map(tool_of).collect();
    }
    let own_view = searching.map(|_| &*view);
    let verdict =
        (!query.wanted.is_empty()).then(|| verdict(snapshot, own_view, &found.ranking, &query.wanted));
    let mut reasons = match &verdict {
        Some(verdict) => reasons(door, client, &query.wanted, verdict).await,
        None => Vec::new(),
    };
    let meant = named(snapshot, &query.wanted).filter(|tool| tool.name != query.wanted);
    if let Some(tool) = meant.filter(|_| verdict != Some(Verdict::OwnTool)) {
        reasons.insert(0, format!("clients call it `{}`", tool.name));
    }
    Answer {
        tools,
        answer_tokens,
        list_tokens: view.baseline_tokens,
        degraded: found.degraded.map(|degraded| degraded.to_string()),
        semantic_ratio: searcher.settings.semantic_ratio,
        limit,
        verdict,
        reasons,
        who: searching.map(|principal| principal.identity.subject().to_owned()).unwrap_or_default(),
        hidden,
        ranking: found.ranking,
    }
}

/// Returns further reasons for the place of a wanted tool: servers that have listed nothing, the rule that
/// hides it, or the policy that decides about the client.
async fn reasons(door: &ConsoleDoor, client: &ClientQuery, wanted: &str, verdict: &Verdict) -> Vec<String> {
    let subjects: &[&str] = match verdict {
        Verdict::Unknown => &["definition", "backend"],
        Verdict::Hidden | Verdict::Quarantined => &["name", "filter"],
        Verdict::NotForClient => &["policy", "list"],
        Verdict::OwnTool | Verdict::Ranked(_) | Verdict::NoMatch => return Vec::new(),
    };
    let config = door.engine().snapshot().config.clone();
    let Ok(request) = client.request(&config, wanted) else { return Vec::new() };
    let Ok(explanation) = explain(door.engine(), &request).await else { return Vec::new() };
    let steps = explanation.steps.into_iter().filter(|step| subjects.contains(&step.subject.as_str()));
    let nearest = explanation.nearest.into_iter().map(|name| format!("perhaps `{name}` is meant"));
    steps.map(|step| step.why).chain(nearest).take(MAX_REASONS).collect()
}

/// Returns true for the name of a tool of vmcp itself, as clients call it.
fn is_own_tool(snapshot: &Snapshot, name: &str) -> bool {
    let optimizer = &snapshot.config.optimizer;
    match optimizer.enabled.then(|| own_name(name)).flatten() {
        Some(OwnName::Reserved(_)) => true,
        Some(OwnName::Bare(_)) => optimizer.legacy_aliases && snapshot.unfiltered().tool(name).is_none(),
        Some(OwnName::Unknown) | None => false,
    }
}

/// Returns why a tool has its place. `wanted` is the name under which clients call it, an alias, or its own
/// name at the only server that has it; `view` has the tools of the client that searches.
fn verdict(snapshot: &Snapshot, view: Option<&View>, ranking: &Ranking, wanted: &str) -> Verdict {
    if is_own_tool(snapshot, wanted) {
        return Verdict::OwnTool;
    }
    let Some(tool) = named(snapshot, wanted) else { return Verdict::Unknown };
    match visibility(snapshot, &tool) {
        Visibility::Quarantined => return Verdict::Quarantined,
        Visibility::Hidden => return Verdict::Hidden,
        Visibility::Found | Visibility::OnlyFound => {}
    }
    if view.is_some_and(|view| view.tool(&tool.name).is_none()) {
        return Verdict::NotForClient;
    }
    let rank = snapshot
        .unfiltered()
        .position(&tool.name)
        .and_then(|document| ranking.hits.iter().position(|hit| hit.document == document));
    rank.map_or(Verdict::NoMatch, |rank| Verdict::Ranked(rank + 1))
}

#[cfg(test)]
mod tests {
    use vmcp_engine::testing::{KEYWORDS, Scripted, backends, engine};
    use vmcp_search::SearchMode;

    use super::*;

    #[tokio::test]
    async fn the_place_of_a_tool_is_told_for_each_name_that_people_know() {
        let server = Scripted::start(&[
            ("now", "Tells the time.", serde_json::json!({})),
            ("later", "Tells a later time.", serde_json::json!({})),
            ("secret", "Tells a secret.", serde_json::json!({})),
        ])
        .await;
        let rules = "aggregation: { aliases: { uhr: clock_now }, tools: [{ workload: clock, \
                     filter: [now, later_today], overrides: { later: { name: later_today } } }] }";
        let engine = engine(&backends(&[("clock", &server.url)], &format!("{rules}\n{KEYWORDS}"))).await;
        let snapshot = engine.snapshot();
        let ranking = Ranking {
            hits: Vec::new(),
            mode: SearchMode::Keyword,
            visible: 2,
            without_vector: 0,
            keyword_matches: 0,
            terms: Vec::new(),
            clauses: Vec::new(),
        };
        for (wanted, expected) in [
            ("clock_now", Verdict::NoMatch),
            ("now", Verdict::NoMatch),
            ("uhr", Verdict::NoMatch),
            ("clock_later_today", Verdict::NoMatch),
            ("later", Verdict::NoMatch),
            ("later_today", Verdict::NoMatch),
            ("clock_secret", Verdict::Hidden),
            ("gone", Verdict::Unknown),
            ("find_tool", Verdict::OwnTool),
            ("optim_find_tool", Verdict::OwnTool),
            ("optim.call_tool", Verdict::OwnTool),
        ] {
            assert_eq!(verdict(&snapshot, None, &ranking, wanted), expected, "{wanted}");
        }
    }
}
