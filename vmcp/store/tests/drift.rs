//! Trusted definitions of tools in `state.db`: changes, quarantine, approval.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use vmcp_store::{DriftState, ListedTool, StateStore};

#[path = "support/both_stores.rs"]
mod both_stores;
use both_stores::both;

fn observe(state: &StateStore, definition: &str, quarantine: bool) -> Vec<DriftState> {
    let listed = ListedTool { tool: "add", hash: format!("hash of {definition}"), definition };
    let news = state.observe_listing("s", &[listed], quarantine, 1).unwrap();
    news.into_iter().map(|drift| drift.state).collect()
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
    state.observe_listing("s", &[], true, 2).unwrap();
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
