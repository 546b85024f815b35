//! Client of a client scenario: vmcp with the server of the scenario as its only backend, and the official
//! TypeScript client in front of it.

use vmcp_integration::{installed, node, run_script};

use crate::server_side::through;

/// Starts vmcp and does what the scenario asks for; the environment names the scenario.
pub(crate) async fn drive(url: &str) {
    let vmcp = through(url).await;
    let args = ["--input-type=module", "-", &vmcp.url];
    run_script(&node("node"), &args, include_str!("driver.mjs"), &installed("node")).await;
}
