//! The data of the page about searches that led nowhere.

use std::time::{Duration, SystemTime};

use axum::Extension;
use axum::extract::State;
use axum::response::Html;
use tokio::task::spawn_blocking;
use vmcp_console::pages::wanted::{
    MAX_GROUPS, MAX_SEARCHES, SearchCounts, WantedGroup, wanted as wanted_page,
};
use vmcp_engine::engine::Engine;
use vmcp_engine::random::now_ms;
use vmcp_search::measures::search_log::wanted::{Wanted, wanted};

use crate::port::console::access::{ConsoleDoor, Visitor};

/// Answers `GET /console/wanted`.
pub(in crate::port::console) async fn show(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
) -> Html<String> {
    let engine = door.engine();
    let metrics = engine.metrics();
    let counts = SearchCounts {
        searches: metrics.searches.get(),
        without_result: metrics.searches_without_result.get(),
        without_call: metrics.searches_without_call.get(),
    };
    let groups = if engine.query_log().is_enabled() { Some(groups(engine).await) } else { None };
    Html(wanted_page(&door.frame(&visitor), counts, groups.as_deref()))
}

/// Reads and groups the logged searches that get no more calls.
async fn groups(engine: &Engine) -> Vec<WantedGroup> {
    let mut log = engine.query_log().read(0, MAX_SEARCHES).await;
    log.retain_ended(now_ms());
    // Comparing thousands of searches takes longer than other requests should wait.
    let grouped = spawn_blocking(move || wanted(&log.searches)).await.unwrap_or_default();
    grouped.into_iter().take(MAX_GROUPS).map(shown).collect()
}

fn shown(group: Wanted) -> WantedGroup {
    let ends = [
        ("no result", group.no_result),
        ("nothing called", group.nothing_called),
        ("another tool", group.other_tool),
    ];
    let at = Duration::from_millis(u64::try_from(group.last_at).unwrap_or_default());
    WantedGroup {
        query: group.query,
        wordings: group.wordings,
        searches: group.searches,
        clients: group.clients,
        ends: ends.into_iter().filter(|(_, number)| *number > 0).collect(),
        called_instead: group.called_instead.into_iter().map(|tool| (tool.server, tool.tool)).collect(),
        last_at: humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + at).to_string(),
    }
}
