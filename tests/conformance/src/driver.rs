//! The client of a client scenario: vmcp with the scenario's server as its only backend, and a real client before it.

use vmcp_integration::{installed, node, run_script};

use crate::server_side::through;

/// Starts vmcp and does what the scenario, which is named in the environment, is about.
pub(crate) async fn drive(url: &str) {
    let vmcp = through(url).await;
    let args = ["--input-type=module", "-", &vmcp.url];
    run_script(&node("node"), &args, include_str!("driver.mjs"), &installed("node")).await;
}
