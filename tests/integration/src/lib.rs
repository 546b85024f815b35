//! Harness of the integration tests: the built `vmcp`, the fixture server, raw clients, real servers.
//!
//! A test reads as a scenario:
//!
//! ```text
//! let jira = Fixture::http("jira", "jira").start().await;
//! let vmcp = Vmcp::new().backend(&jira).start().await;
//! let client = vmcp.legacy().await;
//! let answer = client.call_tool("jira_get_jira_issue", json!({"issueKey": "PROJ-123"})).await;
//! ```
//!
//! Nothing here returns an error: a harness that cannot do its part fails the test, with the last lines of
//! the output of each process.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "a failure of the harness is the test's failure"
)]

mod bridge;
mod client;
mod fixture;
mod paths;
mod process;
mod proxies;
mod raw_connection;
mod script;
mod services;
mod vmcp;

pub use bridge::Bridge;
pub use client::{Client, HttpAnswer, MODERN, Messages, User, http_client};
pub use fixture::{Fixture, FixtureBuilder};
pub use paths::{binary, found_by, free_port, installed, node, python};
pub use process::{Process, children, last_lines};
pub use proxies::{ForwardProxy, PathProxy, RoundRobin, TlsProxy, forward};
pub use raw_connection::RawConnection;
pub use script::console_page::{PageCommand, page_commands};
pub use script::run_script;
pub use services::{
    Collector, CollectorProgram, IdentityProvider, OtelCollector, Packages, Prometheus, PrometheusPrograms,
    Redis, Span, browse,
};
pub use services::{MODEL_KEY, ModelAnswer, ModelStub, codex_program};
pub use services::{npm_manifest, own_platform, package, stand_ins};
pub use vmcp::{Cli, Vmcp, VmcpBuilder, vmcp_command};
pub use vmcp_tidy::skipped;

use std::time::Duration;

/// Longest wait for anything that is not meant to be slow; then the test fails. Generous: the machine may be
/// busy with other tests.
pub const WAIT_TIMEOUT: Duration = Duration::from_mins(2);

/// Asks `check` until it returns something, or fails the test after [`WAIT_TIMEOUT`] with `what` was waited
/// for. The pause between two looks is a tenth of the time waited so far, within 25 and 100 ms.
pub async fn eventually<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let began = tokio::time::Instant::now();
    loop {
        if let Some(found) = check().await {
            return found;
        }
        let waited = began.elapsed();
        assert!(waited < WAIT_TIMEOUT, "waited {WAIT_TIMEOUT:?} in vain for {what}");
        let pause = (waited / 10).clamp(Duration::from_millis(25), Duration::from_millis(100));
        tokio::time::sleep(pause).await;
    }
}
