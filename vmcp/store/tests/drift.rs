//! Trusted definitions of tools in `state.db`: changes, quarantine, approval.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use vmcp_store::{DriftState, ListedTool, StateStore, Trust, TrustRule};

use crate::both_stores::both;

fn observe(state: &StateStore, definition: &str, quarantine: bool) -> Vec<DriftState> {
    let rule: TrustRule<'_> = &|_, _| Trust::Stored;
    observe_with(state, definition, quarantine.then_some(rule))
}

fn observe_with(state: &StateStore, definition: &str, rule: Option<TrustRule<'_>>) -> Vec<DriftState> {
    let listed = ListedTool { tool: "add", hash: format!("hash of {definition}"), definition };
    let news = state.observe_listing("s", &[listed], rule, 1).unwrap();
    news.into_iter().map(|drift| drift.state).collect()
}

/// The hash of the trusted definition, and the time of its approval.
fn trusted(state: &StateStore) -> Option<(String, i64)> {
    let trusted = state.trusted_hashes().unwrap().into_iter().next()?;
    Some((trusted.hash, trusted.approved_at))
}

fn states(state: &StateStore) -> Vec<(DriftState, String, String)> {
    let drifts = state.tool_drifts().unwrap().into_iter();
    drifts.map(|drift| (drift.state, drift.before, drift.after)).collect()
}

#[test]
fn the_first_definition_is_trusted_and_a_change_is_told_once() {
    both(|state| {
        assert_eq!(observe(state, "one", false), []);
        assert_eq!(observe(state, "one", false), []);
        assert_eq!(observe(state, "two", false), [DriftState::Accepted]);
        assert_eq!(observe(state, "two", false), []);
        assert_eq!(states(state), [(DriftState::Accepted, "one".to_owned(), "two".to_owned())]);
        let trusted = state.trusted_definitions("s").unwrap();
        let texts: Vec<_> =
            trusted.iter().map(|(tool, known)| (tool.as_str(), known.definition.as_str())).collect();
        assert_eq!(texts, [("add", "two")]);
        assert!(state.trusted_definitions("another").unwrap().is_empty());
    });
}

#[test]
fn a_quarantined_change_waits_for_approval_across_restarts_and_removals() {
    let dir = tempfile::tempdir().unwrap();
    let open = || StateStore::open(dir.path()).unwrap();
    observe(&open(), "good", true);
    assert_eq!(observe(&open(), "bad", true), [DriftState::Pending]);
    assert_eq!(observe(&open(), "bad", true), [], "known");
    let state = open();
    // The tool goes and comes back: the trusted definition is still the first one.
    state.observe_listing("s", &[], Some(&|_, _| Trust::Stored), 2).unwrap();
    assert_eq!(observe(&state, "worse", true), [DriftState::Pending]);
    assert_eq!(states(&state), [(DriftState::Pending, "good".to_owned(), "worse".to_owned())]);
    assert!(!state.approve_drift("s", "other", None, 3).unwrap());
    assert!(!state.approve_drift("s", "add", Some("hash of bad"), 3).unwrap(), "it changed again");
    assert!(state.approve_drift("s", "add", Some("hash of worse"), 3).unwrap());
    assert!(!state.approve_drift("s", "add", None, 3).unwrap(), "approved already");
    assert_eq!(observe(&state, "worse", true), []);
    assert_eq!(states(&state)[0].0, DriftState::Approved);
}

#[test]
fn a_server_that_goes_back_to_what_is_trusted_needs_no_approval() {
    both(|state| {
        observe(state, "good", true);
        observe(state, "bad", true);
        observe(state, "good", true);
        assert_eq!(states(state), []);
    });
}

#[test]
fn a_definition_that_is_trusted_elsewhere_goes_before_the_first_one_seen() {
    let state = StateStore::in_memory().unwrap();
    assert_eq!(observe_with(&state, "poisoned", Some(&|_, _| Trust::Unknown)), [DriftState::Pending]);
    assert_eq!(trusted(&state), None, "nothing is trusted anew");
    assert_eq!(observe_with(&state, "poisoned", Some(&|_, _| Trust::Unknown)), [], "told once");
    assert_eq!(states(&state), [(DriftState::Pending, "{}".to_owned(), "poisoned".to_owned())]);
    assert_eq!(observe_with(&state, "good", Some(&|_, _| Trust::Listed { approved_at: 0 })), []);
    assert_eq!(states(&state), [], "the server returned to the trusted definition");
    assert_eq!(trusted(&state), Some(("hash of good".to_owned(), 0)));
}

#[test]
fn an_approval_of_another_replica_is_in_force_here() {
    let state = StateStore::in_memory().unwrap();
    observe(&state, "good", true);
    assert_eq!(observe(&state, "better", true), [DriftState::Pending]);
    assert_eq!(observe_with(&state, "better", Some(&|_, _| Trust::Listed { approved_at: 7 })), []);
    assert_eq!(states(&state)[0].0, DriftState::Approved);
    assert_eq!(trusted(&state), Some(("hash of better".to_owned(), 7)));
    assert_eq!(observe(&state, "better", true), []);
}

#[test]
fn an_approval_has_its_time_also_in_a_file_of_an_earlier_version() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateStore::open(dir.path()).unwrap();
    observe(&state, "good", true);
    observe(&state, "better", true);
    assert!(state.approve_drift("s", "add", None, 5).unwrap());
    assert_eq!(trusted(&state).unwrap().1, 5);
    drop(state);
    let raw = rusqlite::Connection::open(dir.path().join("state.db")).unwrap();
    raw.execute_batch(
        "ALTER TABLE tool_baselines DROP COLUMN approved_at;
         DROP TABLE searches; DROP TABLE search_calls; DROP TABLE unsearched_calls; DROP TABLE tool_sequels;
         PRAGMA user_version = 7",
    )
    .unwrap();
    drop(raw);
    assert_eq!(trusted(&StateStore::open(dir.path()).unwrap()).unwrap().1, 5);
}
