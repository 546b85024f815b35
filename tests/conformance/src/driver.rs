//! The client of a client scenario: vmcp with the scenario's server as its only backend, and a real client before it.

use serde_json::json;
use vmcp_integration::{Vmcp, installed, node, run_script};

use crate::server_side::connected;

/// Starts vmcp and does what the scenario, which is named in the environment, is about.
pub async fn drive(url: &str) -> anyhow::Result<()> {
    let vmcp = Vmcp::new().backend_entry(json!({"name": "scenario", "url": url}));
    let vmcp = vmcp.config(json!({"aggregation": {"conflictResolution": "passthrough"}}));
    let vmcp = vmcp.config(json!({"optimizer": {"enabled": false}})).start().await;
    connected(&vmcp).await;
    let args = ["--input-type=module", "-", &vmcp.url];
    run_script(&node("node"), &args, include_str!("driver.mjs"), &installed("node")).await;
    Ok(())
}
