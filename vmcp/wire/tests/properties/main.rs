//! Properties that hold for every message, stream, token and byte.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails may panic")]

mod arbitrary;
mod arriving;
mod json;
mod owned;
mod relay;
mod shapes;
mod streams;
mod tokens;

/// 64 cases by default, for a quick run; `PROPTEST_CASES=5000 cargo test -p vmcp-wire` tries more.
fn config() -> proptest::test_runner::Config {
    let default = proptest::test_runner::Config::default();
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    proptest::test_runner::Config {
        cases: if asked { default.cases } else { 64 },
        failure_persistence: None,
        ..default
    }
}
