//! Scripts as Jobs, with an API server of the test that starts the program of each Job's pod in a process of
//! this machine: CPython from the search path.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod it {
    mod cluster;
    mod failures;
    mod scripts;
}
