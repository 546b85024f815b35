//! Client of a client scenario: vmcp with the server of the scenario as its only backend, and the official
//! TypeScript client in front of it.

mod sign_in;

use vmcp_integration::{Vmcp, installed, node, run_script};

use crate::server_side::through;

/// Starts vmcp and does what the scenario asks for; the environment names the scenario.
pub(crate) async fn drive(url: &str) -> anyhow::Result<()> {
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    if let Some(scenario) = scenario.strip_prefix("auth/") {
        if let Some(signed_in) = sign_in::sign_in(scenario, url).await? {
            run(&signed_in.vmcp).await;
        }
        return Ok(());
    }
    run(&through(url).await).await;
    Ok(())
}

async fn run(vmcp: &Vmcp) {
    let args = ["--input-type=module", "-", &vmcp.url];
    run_script(&node("node"), &args, include_str!("driver.mjs"), &installed("node")).await;
}
