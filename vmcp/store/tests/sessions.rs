//! Sessions of coding agents in `state.db`: hand-off, owners, bounds, restarts.
#![expect(clippy::expect_used, reason = "helpers of tests")]

use vmcp_hooks::decision::{Decision, Moment};
use vmcp_hooks::hook_call::HookCall;
use vmcp_hooks::session::SessionStatus;
use vmcp_store::{MAX_EVENTS_OF_SESSION, MAX_SESSIONS, SessionLimits, SessionQuery, StateStore};

use crate::both_stores::both;

const ALICE: [u8; 32] = [1; 32];
const BOB: [u8; 32] = [2; 32];
const LIMITS: SessionLimits = SessionLimits { max_of_owner: 3, kept_since: 0 };

/// A hook as JSON, `{hook_type, params, source}`.
fn call(json: &str) -> HookCall {
    HookCall::read(json).expect("a hook")
}

fn take(store: &StateStore, owner: &[u8; 32], json: &str, now: i64) -> Decision {
    take_summed(store, owner, json, now, None)
}

fn take_summed(
    store: &StateStore,
    owner: &[u8; 32],
    json: &str,
    now: i64,
    summary: Option<&str>,
) -> Decision {
    let moment = Moment {
        now,
        new_id: format!("id-{now}"),
        machine_id: format!("machine-{now}"),
        summary: summary.map(str::to_owned),
    };
    store.take_hook(owner, &call(json), &moment, LIMITS).expect("a store")
}

fn start(id: &str, source: &str, project: &str) -> String {
    format!(
        r#"{{"hook_type": "SessionStart", "source": "Codex",
            "params": {{"session_id": "{id}", "source": "{source}", "cwd": "{project}"}}}}"#
    )
}

fn hook(hook_type: &str, id: &str) -> String {
    format!(r#"{{"hook_type": "{hook_type}", "source": "codex", "params": {{"session_id": "{id}"}}}}"#)
}

#[test]
fn a_cleared_session_takes_over_from_the_newest_that_waits() {
    let dir = tempfile::tempdir().unwrap();
    let store = StateStore::open(dir.path()).unwrap();
    let first = take(&store, &ALICE, &start("a", "startup", "/p"), 1);
    assert_eq!((first.session.machine_id.as_str(), first.restored_summary), ("machine-1", None));
    take_summed(&store, &ALICE, &hook("SessionEnd", "a"), 2, Some("did A"));
    for other in [start("x", "clear", "/other"), start("y", "startup", "/p")] {
        assert_eq!(take(&store, &ALICE, &other, 3).restored_summary, None);
        store.remove_session(&ALICE, "id-3").unwrap();
    }
    assert_eq!(take(&store, &BOB, &start("b", "clear", "/p"), 4).restored_summary, None);
    drop(store);
    let store = StateStore::open(dir.path()).unwrap();
    let next = take(&store, &ALICE, &start("b", "clear", "/p"), 5);
    assert_eq!(next.restored_summary.as_deref(), Some("did A"));
    assert_eq!(next.session.parent_session_id.as_deref(), Some("id-1"));
    assert_eq!(next.session.machine_id, "machine-1", "kept with the sessions");
    let (parent, _) = store.session(&ALICE, "id-1", 0).unwrap().unwrap();
    assert_eq!(parent.status, SessionStatus::Expired);
    let again = take(&store, &ALICE, &start("c", "clear", "/p"), 6);
    assert_eq!(again.restored_summary, None, "a summary is handed over once");
}

#[test]
fn resume_leads_to_the_same_row_by_either_id() {
    both(|store| {
        take(store, &ALICE, &start("a", "startup", "/p"), 1);
        assert_eq!(take(store, &ALICE, &start("a", "resume", "/p"), 2).session.id, "id-1");
        assert_eq!(take(store, &ALICE, &hook("Stop", "id-1"), 3).session.external_id, "a");
        assert_eq!(store.sessions(&ALICE, &SessionQuery::default(), 0).unwrap().len(), 1);
    });
}

#[test]
fn a_session_of_another_owner_does_not_exist() {
    both(|store| {
        take(store, &ALICE, &start("a", "startup", "/p"), 1);
        assert_eq!(store.session(&BOB, "id-1", 0).unwrap(), None);
        assert!(!store.remove_session(&BOB, "id-1").unwrap());
        assert!(store.sessions(&BOB, &SessionQuery::default(), 0).unwrap().is_empty());
        assert_eq!(take(store, &BOB, &hook("Stop", "id-1"), 2).session.id, "id-2", "a session of Bob's own");
        assert!(store.remove_session(&ALICE, "id-1").unwrap());
        assert_eq!(store.session(&ALICE, "id-1", 0).unwrap(), None);
    });
}

#[test]
fn events_are_in_order_and_bounded() {
    both(|store| {
        take(store, &ALICE, &start("a", "startup", "/p"), 1);
        for hook_type in ["PreCompact", "SubagentStart", "SubagentStop"] {
            take(store, &ALICE, &hook(hook_type, "a"), 2);
        }
        let events = store.session(&ALICE, "id-1", 0).unwrap().unwrap().1;
        let types: Vec<_> = events.iter().map(|event| event.hook_type.as_str()).collect();
        assert_eq!(types, ["session-start", "pre-compact", "subagent-start", "subagent-stop"]);
        for now in (10..).take(MAX_EVENTS_OF_SESSION) {
            take(store, &ALICE, &hook("Stop", "a"), now);
        }
        let events = store.session(&ALICE, "id-1", 0).unwrap().unwrap().1;
        assert_eq!((events.len(), events[0].at), (MAX_EVENTS_OF_SESSION, 10));
    });
}

#[test]
fn sessions_are_bounded_by_owner_by_age_and_altogether() {
    let store = StateStore::in_memory().unwrap();
    for now in 1..=5 {
        take(&store, &ALICE, &start(&format!("a{now}"), "startup", "/p"), now);
    }
    take(&store, &BOB, &start("b", "startup", "/p"), 6);
    let ids = |owner, since| -> Vec<_> {
        let sessions = store.sessions(owner, &SessionQuery::default(), since).unwrap();
        sessions.into_iter().map(|session| session.id).collect()
    };
    assert_eq!(ids(&ALICE, 0), ["id-5", "id-4", "id-3"]);
    assert_eq!(ids(&ALICE, 4), ["id-5", "id-4"]);
    assert_eq!(ids(&ALICE, 0), ["id-5", "id-4"], "reading forgets older ones");
    assert_eq!(store.session(&ALICE, "id-4", 5).unwrap(), None);
    assert_eq!(ids(&ALICE, 0), ["id-5"]);
    store.forget_sessions(6).unwrap();
    assert!(ids(&ALICE, 0).is_empty());
    take(&store, &ALICE, &start("a5", "startup", "/p"), 5);
    let late = Moment { now: 9, new_id: "n".into(), machine_id: "m".into(), summary: None };
    let limits = SessionLimits { kept_since: 6, ..LIMITS };
    store.take_hook(&BOB, &call(&start("c", "startup", "/p")), &late, limits).unwrap();
    assert_eq!((ids(&ALICE, 0).len(), ids(&BOB, 0).len()), (0, 2), "and are forgotten");

    take(&store, &ALICE, &start("a", "startup", "/p"), 10);
    let limits = SessionLimits { max_of_owner: MAX_SESSIONS + 1, kept_since: 0 };
    for now in 0..MAX_SESSIONS {
        let moment = Moment { now: 11, new_id: format!("n{now}"), machine_id: "m".into(), summary: None };
        store.take_hook(&BOB, &call(&start(&format!("c{now}"), "startup", "/p")), &moment, limits).unwrap();
    }
    assert_eq!(ids(&ALICE, 0), ["id-10"], "who has few keeps them");
    assert_eq!(store.session(&BOB, "id-6", 0).unwrap(), None, "who has the most loses the oldest");
    assert!(store.session(&BOB, &format!("n{}", MAX_SESSIONS - 1), 0).unwrap().is_some());
}

#[test]
fn sessions_are_chosen_by_state_client_and_project() {
    both(|store| {
        take(store, &ALICE, &start("a", "startup", "/p"), 1);
        take(store, &ALICE, &start("b", "startup", "/q"), 2);
        take(store, &ALICE, &hook("Stop", "b"), 3);
        let ids = |query: SessionQuery| -> Vec<_> {
            store.sessions(&ALICE, &query, 0).unwrap().into_iter().map(|session| session.id).collect()
        };
        assert_eq!(
            ids(SessionQuery { status: Some(SessionStatus::Paused), ..SessionQuery::default() }),
            ["id-2"]
        );
        assert_eq!(ids(SessionQuery { project_id: Some("/p".into()), ..SessionQuery::default() }), ["id-1"]);
        assert!(ids(SessionQuery { source: Some("claude".into()), ..SessionQuery::default() }).is_empty());
        assert_eq!(ids(SessionQuery { limit: Some(1), ..SessionQuery::default() }), ["id-2"]);
    });
}
