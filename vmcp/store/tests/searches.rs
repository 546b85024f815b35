//! The log of searches, and the tools that follow a tool.

use vmcp_store::UnsearchedCalls;
use vmcp_store::{SearchBatch, SearchCall, SearchLogBounds, StateStore, StoredSearch, StoredSequels};

const DAY: i64 = 24 * 60 * 60 * 1000;

fn search(id: i64, at: i64) -> StoredSearch {
    let (query, keywords) = (format!("query {id}"), String::new());
    StoredSearch { id, at, owner: None, query, keywords, found: "[]".to_owned() }
}

fn call(search: i64, rank: Option<usize>) -> SearchCall {
    SearchCall { search, backend: "s".to_owned(), tool: "t".to_owned(), rank }
}

fn unsearched(day: i64) -> UnsearchedCalls {
    UnsearchedCalls { day, backend: "s".to_owned(), tool: "t".to_owned(), calls: 2 }
}

#[test]
fn searches_come_back_with_their_calls_newest_first() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateStore::open(dir.path()).unwrap();
    let batch = SearchBatch {
        searches: vec![search(1, 10), search(2, 20)],
        calls: vec![call(1, Some(3)), call(2, None), call(9, Some(1))],
        unsearched: vec![unsearched(DAY + 5), unsearched(DAY + 6)],
    };
    state.log_searches(&batch).unwrap();
    drop(state);
    let state = StateStore::open(dir.path()).unwrap();
    assert_eq!(state.logged_searches(0, 9).unwrap(), [search(2, 20), search(1, 10)]);
    assert_eq!(state.logged_searches(0, 1).unwrap(), [search(2, 20)]);
    assert_eq!(state.logged_searches(11, 9).unwrap(), [search(2, 20)]);
    assert_eq!(state.search_calls(0).unwrap(), [call(1, Some(3)), call(2, None)], "search 9 is unknown");
    assert_eq!(state.search_calls(11).unwrap(), [call(2, None)]);
    let counted = UnsearchedCalls { calls: 4, ..unsearched(DAY) };
    assert_eq!(state.unsearched_calls(DAY + 7).unwrap(), [counted]);
    assert_eq!(state.unsearched_calls(2 * DAY).unwrap(), []);
    let file = state.path().unwrap();
    let has_text = || std::fs::read(file).unwrap().windows(7).any(|part| part == b"query 1");
    assert!(has_text());
    assert_eq!(state.delete_searches().unwrap(), 2);
    assert!(!has_text(), "the text is overwritten");
    assert!(state.search_calls(0).unwrap().is_empty() && state.unsearched_calls(0).unwrap().is_empty());
}

#[test]
fn the_log_is_bounded_by_number_by_age_and_by_calls_of_a_search() {
    let state = StateStore::in_memory().unwrap();
    let searches = (1..=5).map(|id| search(id, id * DAY)).collect();
    let calls = (0..40).map(|_| call(5, Some(1))).chain([call(1, None), call(2, None)]).collect();
    let batch = SearchBatch { searches, calls, unsearched: vec![unsearched(DAY), unsearched(5 * DAY)] };
    state.log_searches(&batch).unwrap();
    assert_eq!(state.search_calls(0).unwrap().len(), 16 + 2);
    let bounds = SearchLogBounds { max_searches: 3, kept_since: 2 * DAY };
    assert_eq!(state.prune_searches(bounds).unwrap(), 2);
    let kept: Vec<_> = state.logged_searches(0, 9).unwrap().iter().map(|search| search.id).collect();
    assert_eq!(kept, [5, 4, 3]);
    assert_eq!(state.search_calls(0).unwrap().len(), 16);
    let bounds = SearchLogBounds { max_searches: 3, kept_since: 5 * DAY };
    assert_eq!(state.prune_searches(bounds).unwrap(), 2);
    let days: Vec<_> = state.unsearched_calls(0).unwrap().iter().map(|calls| calls.day).collect();
    assert_eq!(days, [5 * DAY]);
}

#[test]
fn sequels_replace_themselves_and_the_oldest_go() {
    let state = StateStore::in_memory().unwrap();
    let sequels = |tool: &str, sessions: u64, last_at: i64| StoredSequels {
        owner: String::new(),
        backend: "s".to_owned(),
        tool: tool.to_owned(),
        sessions,
        next: "[]".to_owned(),
        last_at,
    };
    state.put_sequels(&[sequels("a", 1, 1), sequels("b", 1, 2)]).unwrap();
    state.put_sequels(&[sequels("a", 2, 3)]).unwrap();
    assert_eq!(state.all_sequels(9).unwrap(), [sequels("a", 2, 3), sequels("b", 1, 2)]);
    state.prune_sequels(1).unwrap();
    assert_eq!(state.all_sequels(9).unwrap(), [sequels("a", 2, 3)]);
}
