//! The harness of the Kubernetes tests: a real API server, and a real node on which pods run.
//!
//! A test of the control plane reads as a scenario:
//!
//! ```text
//! let cluster = ControlPlane::shared().await;
//! let place = cluster.namespace("repair").await;
//! let operator = Operator::start(&place).await;
//! place.apply(include_str!("group.yaml")).await;
//! let deployment = place.eventually("the Deployment", async || place.get::<Deployment>("vmcp").await).await;
//! ```
//!
//! A test of the node begins with `Cluster::given()` instead; `make e2e` gives it.
//!
//! Nothing here returns an error: a harness that cannot do its part fails the test, with the objects, events and logs.
#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::print_stderr,
    reason = "a failure of the harness is the test's failure, and its runner shows what was printed"
)]

mod access;
mod chart;
mod cluster;
mod control_plane;
mod given;
pub mod images;
mod manifests;
mod namespace;
mod node;
mod operator;
mod processes;
mod programs;
mod report;
mod service;

pub use chart::{RELEASE, chart, older_chart};
pub use cluster::Cluster;
pub use control_plane::ControlPlane;
pub use manifests::WEB;
pub use namespace::Namespace;
pub use node::Node;
pub use operator::Operator;
pub use programs::{Programs, cache};
pub use service::Endpoint;

use std::io::Write as _;
use std::time::Duration;

/// How long anything may take that is not meant to be slow. Generous: the machine may be busy with other tests.
pub const PATIENCE: Duration = Duration::from_mins(3);

/// Tells whoever runs the tests that this one was not run; the test's runner would keep what a passing test prints.
pub fn skipped(reason: &str) {
    let test = std::thread::current();
    let _unheard = writeln!(std::io::stderr(), "skipped: {}: {reason}", test.name().unwrap_or("a test"));
}

/// The root of the repository.
pub fn repository() -> std::path::PathBuf {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository that this was built from")
}
