//! Both kinds of [`StateStore`], which behave alike.
#![expect(clippy::expect_used, reason = "helpers of tests fail like tests")]

use vmcp_store::StateStore;

/// Runs `check` on a store in memory and on one in a folder.
pub(crate) fn both(check: impl Fn(&StateStore)) {
    check(&StateStore::in_memory().expect("a store in memory"));
    let dir = tempfile::tempdir().expect("a folder");
    check(&StateStore::open(dir.path()).expect("a store in a folder"));
}
