//! The data of the page about searches that led nowhere.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use axum::Extension;
use axum::extract::State;
use axum::response::{Html, Json};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use vmcp_console::pages::wanted::{
    MAX_GROUPS, MAX_SEARCHES, SearchCounts, WantedGroup, WantedPage, wanted as wanted_page,
};
use vmcp_console::text::MAX_LINE;
use vmcp_engine::engine::Engine;
use vmcp_engine::engine::replicas::{OfReplica, OtherReplicas, Waiting};
use vmcp_engine::random::now_ms;
use vmcp_search::measures::search_log::wanted::{Wanted, wanted};

use crate::port::admin::Admin;
use crate::port::console::access::{ConsoleDoor, Visitor};
use crate::port::console::answer::replicas;

/// Path at which other replicas answer.
const PATH: &str = "/admin/replica/wanted";
/// Most wordings and tools of a group of several replicas.
const MAX_OF_GROUP: usize = 10;

/// Searches of one replica that led nowhere.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::port::console) struct ReplicaWanted {
    counts: SearchCounts,
    /// `None`: searches are not logged.
    groups: Option<Vec<WantedGroup>>,
}

/// Answers `GET /console/wanted`.
pub(in crate::port::console) async fn show(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
) -> Html<String> {
    let others: OtherReplicas<ReplicaWanted> = door.engine().ask_other_replicas(PATH, Waiting::Page).await;
    let ReplicaWanted { mut counts, groups } = own(door.engine()).await;
    let mut all = groups;
    for other in others.answers {
        let of_other = other.answer.counts;
        counts.searches = counts.searches.saturating_add(of_other.searches);
        counts.without_result = counts.without_result.saturating_add(of_other.without_result);
        counts.without_call = counts.without_call.saturating_add(of_other.without_call);
        if let Some(groups) = other.answer.groups {
            all.get_or_insert_default().extend(groups);
        }
    }
    let data = WantedPage { counts, groups: all.map(joined), replicas: replicas(others.census) };
    Html(wanted_page(&door.frame(&visitor), &data))
}

/// Answers `GET /admin/replica/wanted`.
pub(in crate::port::console) async fn serve(State(admin): State<Admin>) -> Json<OfReplica<ReplicaWanted>> {
    let engine = &admin.0.engine;
    let mut answer = own(engine).await;
    for group in answer.groups.iter_mut().flatten() {
        // Longer words would be cut on the page, and could make the answer too large.
        for words in std::iter::once(&mut group.query).chain(&mut group.wordings) {
            *words = words.chars().take(MAX_LINE).collect();
        }
        group.wordings.truncate(MAX_OF_GROUP);
        group.called_instead.truncate(MAX_OF_GROUP);
    }
    Json(OfReplica { replica: engine.replica_id().to_owned(), answer })
}

/// Returns the searches of this process that led nowhere.
async fn own(engine: &Engine) -> ReplicaWanted {
    let metrics = engine.metrics();
    let counts = SearchCounts {
        searches: metrics.searches.get(),
        without_result: metrics.searches_without_result.get(),
        without_call: metrics.searches_without_call.get(),
    };
    let groups = if engine.query_log().is_enabled() { Some(groups(engine).await) } else { None };
    ReplicaWanted { counts, groups }
}

/// Joins groups of replicas that have the same words, the most frequent first.
fn joined(groups: Vec<WantedGroup>) -> Vec<WantedGroup> {
    let mut by_words: BTreeMap<String, WantedGroup> = BTreeMap::new();
    for group in groups {
        let words = group.query.to_lowercase();
        match by_words.get_mut(&words) {
            Some(sum) => add(sum, group),
            None => {
                by_words.insert(words, group);
            }
        }
    }
    let mut groups: Vec<_> = by_words.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.searches));
    groups.truncate(MAX_GROUPS);
    groups
}

/// Adds the searches of another replica. An identity may have searched at both: the larger number of clients
/// is certain.
fn add(sum: &mut WantedGroup, other: WantedGroup) {
    let WantedGroup { query: _, wordings, searches, clients, ends, called_instead, last_at } = other;
    sum.searches = sum.searches.saturating_add(searches);
    sum.clients = sum.clients.max(clients);
    for (end, number) in ends {
        match sum.ends.iter_mut().find(|(known, _)| *known == end) {
            Some((_, known)) => *known = known.saturating_add(number),
            None => sum.ends.push((end, number)),
        }
    }
    for wording in wordings {
        if sum.wordings.len() < MAX_OF_GROUP && !sum.wordings.contains(&wording) {
            sum.wordings.push(wording);
        }
    }
    for tool in called_instead {
        if sum.called_instead.len() < MAX_OF_GROUP && !sum.called_instead.contains(&tool) {
            sum.called_instead.push(tool);
        }
    }
    if sum.last_at < last_at {
        sum.last_at = last_at;
    }
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
    let ends = ends.into_iter().map(|(end, number)| (end.to_owned(), number));
    let at = Duration::from_millis(u64::try_from(group.last_at).unwrap_or_default());
    WantedGroup {
        query: group.query,
        wordings: group.wordings,
        searches: group.searches,
        clients: group.clients,
        ends: ends.filter(|(_, number)| *number > 0).collect(),
        called_instead: group.called_instead.into_iter().map(|tool| (tool.server, tool.tool)).collect(),
        last_at: humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + at).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_replicas_are_joined_by_their_words() {
        let group = |query: &str, searches: usize, clients: usize, last_at: &str| WantedGroup {
            query: query.to_owned(),
            wordings: vec![format!("{query}, please")],
            searches,
            clients,
            ends: vec![("no result".to_owned(), searches)],
            last_at: last_at.to_owned(),
            ..WantedGroup::default()
        };
        let of_other = WantedGroup {
            ends: vec![("no result".to_owned(), 1), ("nothing called".to_owned(), 2)],
            ..group("Play Music", 3, 1, "2026-11-28T02:00:00Z")
        };
        let groups = joined(vec![
            group("book a room", 4, 1, "2026-11-28T00:00:00Z"),
            group("play music", 2, 2, "2026-11-28T01:00:00Z"),
            of_other,
        ]);
        let [music, room] = groups.as_slice() else { panic!("{groups:?}") };
        assert_eq!((music.searches, music.clients, &*music.query), (5, 2, "play music"));
        assert_eq!(music.ends, [("no result".to_owned(), 3), ("nothing called".to_owned(), 2)]);
        assert_eq!((music.wordings.len(), &*music.last_at), (2, "2026-11-28T02:00:00Z"));
        assert_eq!(room.searches, 4);
    }
}
