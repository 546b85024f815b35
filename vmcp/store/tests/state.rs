//! Metrics of tools in `state.db`: counts, means, retention, restarts.

use rusqlite::Connection;
use vmcp_store::{CallFact, CallHistory, STATE_FILE_NAME, StateStore};

use crate::both_stores::both;

const NOW: i64 = 1_700_000_000_000;
const DAY: i64 = 24 * 60 * 60 * 1000;

fn ok(at: i64, latency_ms: f64) -> CallFact {
    CallFact { at, succeeded: true, latency_ms, outcome: "ok", error: None }
}

fn failed(at: i64, error: &str) -> CallFact {
    CallFact { at, succeeded: false, latency_ms: 10.0, outcome: "tool_error", error: Some(error.into()) }
}

fn of<'a>(backend: &'a str, tool: &'a str, limit: usize) -> CallHistory<'a> {
    CallHistory { backend: Some(backend), tool: Some(tool), since: 0, limit }
}

#[test]
fn counts_and_the_last_error_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateStore::open(dir.path()).unwrap();
    let mut calls: Vec<_> = (0..10).map(|at| ok(NOW + at, 10.0)).collect();
    calls.insert(3, failed(NOW, "first"));
    calls.insert(7, failed(NOW, "second"));
    state.record_calls(&[("jira", "get", &calls[..5])]).unwrap();
    state.record_calls(&[("jira", "get", &calls[5..])]).unwrap();
    drop(state);
    let state = StateStore::open(dir.path()).unwrap();
    let metrics = state.tool_metrics("jira", "get").unwrap().unwrap();
    assert_eq!((metrics.call_count, metrics.success_count, metrics.failure_count), (12, 10, 2));
    assert_eq!(metrics.last_error.as_deref(), Some("second"), "kept after later successes");
    assert_eq!(metrics.last_success_at, Some(NOW + 9));
    assert_eq!(state.tool_metrics("jira", "other").unwrap(), None);
    let raw = Connection::open(dir.path().join(STATE_FILE_NAME)).unwrap();
    let indexes: i64 = raw
        .query_row(
            "SELECT count(*) FROM sqlite_master WHERE name IN ('idx_tool_metrics_tool', 'idx_tool_metrics_last_called')",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(indexes, 2);
    raw.prepare(
        "SELECT server_name, tool_name, call_count, success_count, failure_count, avg_latency_ms, last_called_at,
                last_error, created_at, updated_at FROM tool_metrics",
    )
    .unwrap();
    let again = "INSERT INTO tool_metrics SELECT * FROM tool_metrics";
    let refused = raw.execute(again, []).unwrap_err().to_string();
    assert!(
        refused.contains("tool_metrics.server_name, tool_metrics.tool_name"),
        "one row a tool: {refused}"
    );
}

#[test]
fn latency_is_the_mean_of_all_calls_and_recent_figures_follow_the_last_ones() {
    both(|state| {
        let metrics = state.record_calls(&[("s", "t", &[ok(NOW, 100.0), ok(NOW, 300.0)])]).unwrap().remove(0);
        assert!((metrics.avg_latency_ms - 200.0).abs() < 1e-9);
        assert!((metrics.recent_latency_ms - 200.0).abs() < 1e-9, "the plain mean at first");
        let broken: Vec<_> = (0..500).map(|_| failed(NOW, "down")).collect();
        state.record_calls(&[("s", "t", &broken)]).unwrap();
        let healed: Vec<_> = (0..200).map(|_| ok(NOW, 10.0)).collect();
        let metrics = state.record_calls(&[("s", "t", &healed)]).unwrap().remove(0);
        assert!(metrics.success_rate() < 0.3, "all calls count: {}", metrics.success_rate());
        assert!(metrics.recent_success_rate > 0.95, "a tool heals: {}", metrics.recent_success_rate);
    });
}

#[test]
fn two_processes_count_into_one_row() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (StateStore::open(dir.path()).unwrap(), StateStore::open(dir.path()).unwrap());
    one.record_calls(&[("s", "t", &[ok(NOW, 1.0)])]).unwrap();
    let seen = other.record_calls(&[("s", "t", &[ok(NOW, 3.0)])]).unwrap().remove(0);
    assert_eq!(seen.call_count, 2);
    assert!((seen.avg_latency_ms - 2.0).abs() < 1e-9);
}

#[test]
fn old_calls_leave_the_log_and_stay_in_the_sums() {
    both(|state| {
        let old = NOW - 10 * DAY;
        state.record_calls(&[("s", "t", &[ok(old, 10.0), failed(old, "x"), ok(NOW, 40.0)])]).unwrap();
        let before = state.tool_metrics("s", "t").unwrap();
        assert_eq!(state.prune_calls(NOW - 7 * DAY).unwrap(), 2);
        assert_eq!(state.logged_calls(of("s", "t", 10)).unwrap().len(), 1);
        let days = state.daily_metrics(of("s", "t", 10)).unwrap();
        let counts: Vec<_> =
            days.iter().map(|day| (day.call_count, day.success_count, day.failure_count)).collect();
        assert_eq!(counts, [(1, 1, 0), (2, 1, 1)], "newest first");
        assert!((days[1].avg_latency_ms - 10.0).abs() < 1e-9);
        assert_eq!(state.tool_metrics("s", "t").unwrap(), before, "totals do not depend on the log");
        // A second batch of the same day adds to its row.
        state.record_calls(&[("s", "t", &[ok(old + 1, 40.0), ok(old + 2, 40.0)])]).unwrap();
        let days = state.daily_metrics(of("s", "t", 10)).unwrap();
        assert_eq!((days.len(), days[1].call_count), (2, 4));
        assert!((days[1].avg_latency_ms - 25.0).abs() < 1e-9);
    });
}

#[test]
fn the_history_is_chosen_by_backend_tool_time_and_number() {
    both(|state| {
        let calls = [ok(NOW - 2 * DAY, 1.0), ok(NOW, 1.0)];
        let all = [("a", "x", &calls[..]), ("a", "y", &calls), ("b", "x", &calls)];
        state.record_calls(&all).unwrap();
        let wanted = |backend, tool, since, limit| CallHistory { backend, tool, since, limit };
        for (choice, expected) in [
            (wanted(None, None, 0, 100), 6),
            (wanted(Some("a"), None, 0, 100), 4),
            (wanted(None, Some("x"), 0, 100), 4),
            (wanted(Some("a"), Some("x"), NOW - DAY, 100), 1),
            (wanted(Some("c"), None, 0, 100), 0),
            (wanted(None, None, 0, 5), 5),
        ] {
            assert_eq!(state.daily_metrics(choice).unwrap().len(), expected, "{choice:?}");
            assert_eq!(state.logged_calls(choice).unwrap().len(), expected, "{choice:?}");
        }
        let newest = state.logged_calls(wanted(Some("b"), None, 0, 1)).unwrap().remove(0);
        assert_eq!((&*newest.backend, &*newest.tool, newest.at, &*newest.outcome), ("b", "x", NOW, "ok"));
    });
}

#[test]
fn a_burst_is_counted_in_full_and_logged_in_part() {
    both(|state| {
        let burst: Vec<_> = (0..1000).map(|at| ok(NOW + at, 1.0)).collect();
        assert_eq!(state.record_calls(&[("s", "t", &burst)]).unwrap()[0].call_count, 1000);
        let logged = state.logged_calls(of("s", "t", 10_000)).unwrap();
        assert_eq!((logged.len(), logged[0].at), (64, NOW + 999));
    });
}

#[test]
fn a_reset_forgets_one_tool_one_backend_or_all() {
    both(|state| {
        let call = [ok(NOW, 1.0)];
        let all = [("a", "x", &call[..]), ("a", "y", &call), ("b", "x", &call), ("c", "z", &call)];
        state.record_calls(&all).unwrap();
        assert_eq!(state.reset_tool_metrics(Some("a"), Some("x")).unwrap(), 1);
        assert_eq!(state.logged_calls(of("a", "x", 9)).unwrap().len(), 0);
        assert_eq!(state.all_tool_metrics().unwrap().len(), 3);
        assert_eq!(state.reset_tool_metrics(Some("b"), None).unwrap(), 1);
        assert_eq!(state.reset_tool_metrics(None, None).unwrap(), 2);
        assert!(state.all_tool_metrics().unwrap().is_empty());
    });
}
