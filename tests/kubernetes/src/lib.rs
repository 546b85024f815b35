//! Harness of the Kubernetes tests: a real API server, and a real node on which pods run.
//!
//! - [`ControlPlane`]: etcd, API server and controller manager on free ports of 127.0.0.1; no root, no pods.
//! - [`Node`]: a whole cluster with one node inside one network namespace; takes root. `make e2e` starts it.
//! - [`Cluster`]: either of them, or the cluster that `KUBECONFIG` names, as its administrator sees it.
//! - [`Namespace`]: the part of a cluster that one test owns. A wait in it that times out prints its
//!   objects, events and logs.
//! - [`Stopwatch`]: bounds of time that hold on a busy machine.
//! - [`Operator`]: the built `vmcp-operator`, running beside the test and watching one namespace.
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
//! A test that needs pods begins with [`Cluster::from_environment`] instead.
//!
//! Nothing here returns an error: a harness that cannot do its part fails the test, with the objects,
//! events and logs.
#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::print_stderr,
    reason = "a failure of the harness is the test's failure, and its runner shows what was printed"
)]

mod cluster;
mod control_plane;
pub mod images;
mod manifests;
mod node;
mod operator;
mod programs;
mod stopwatch;

pub use cluster::{Cluster, Endpoint, Namespace, RELEASE, chart, older_chart};
pub use control_plane::{ControlPlane, PreparedControlPlane};
pub use manifests::WEB;
pub use node::Node;
pub use operator::{Operator, SCRIPT_JOBS_ROLE, SERVER_ADMIN_ROLE, script_jobs_role, server_admin_roles};
pub use programs::{Programs, cache};
pub use stopwatch::{Stopwatch, written_by_operator};
pub use vmcp_integration::skipped;

use std::time::Duration;

/// Longest wait for an event in a cluster; then the test fails. Generous: the machine may be busy with other
/// tests.
pub const CLUSTER_WAIT_TIMEOUT: Duration = Duration::from_mins(3);

/// Returns the root of the repository.
pub fn repository() -> std::path::PathBuf {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository that this was built from")
}
