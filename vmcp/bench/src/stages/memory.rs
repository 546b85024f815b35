//! Stage `memory`: memory of vmcp, idle, with many sessions and with several windows of clients; Linux only.

mod client_windows;

use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tokio::time::sleep;

use crate::client::mcp_client::McpClient;
use crate::progress::progress;
use crate::report::{Report, Section, Unit};
use crate::samples::Samples;
use crate::testbed::process_usage;
use crate::testbed::test_backends::FixtureServer;
use crate::testbed::vmcp_process::VmcpProcess;

/// Tools of the backend.
const TOOLS: usize = 20;
/// Sessions that are opened.
const SESSIONS: usize = 1000;
/// Time without work after which a process counts as idle.
const SETTLE_TIME: Duration = Duration::from_secs(2);
const MIB: f64 = 1024.0 * 1024.0;

/// Measures the memory, and adds the rows.
pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    progress("memory: idle, with 1,000 sessions over one connection, with 1,000 connections");
    let [mut fixture, mut idle, mut sealed, mut connected] = [(); 4].map(|()| Vec::new());
    for _ in 0..report.runs(5).min(5) {
        let quick = FixtureServer::start(&format!("synthetic:{TOOLS}")).await?;
        let vmcp = VmcpProcess::spawn(&[&quick.backend])?;
        vmcp.complete_list(TOOLS).await?;
        sleep(SETTLE_TIME).await;
        fixture.push(process_usage::resident(quick.pid()?)?);
        idle.push(process_usage::resident(vmcp.pid()?)?);

        let mut client = McpClient::connect(vmcp.clients).await?;
        for _ in 0..SESSIONS {
            open(&mut client).await?;
        }
        sleep(SETTLE_TIME).await;
        sealed.push(process_usage::resident(vmcp.pid()?)?);

        let mut clients = Vec::new();
        for _ in 0..SESSIONS {
            let mut client = McpClient::connect(vmcp.clients).await?;
            open(&mut client).await?;
            clients.push(client);
        }
        sleep(SETTLE_TIME).await;
        connected.push(process_usage::resident(vmcp.pid()?)?);
        vmcp.end().await?;
    }
    let [fixture, idle, sealed, connected] = [fixture, idle, sealed, connected].map(Samples::from_iter);
    let mut row = |what: &str, samples: &Samples, other: &str, of_other: &Samples| {
        report.row(Section::Memory, Unit::Bytes, (what, samples), (other, of_other));
    };
    row("resident memory, idle, one backend of 20 tools, no local model", &idle, "the test server", &fixture);
    row("after 1,000 sessions over one connection", &sealed, "idle", &idle);
    row("after 1,000 more, each with its open connection", &connected, "before them", &sealed);
    report.check_median("resident memory, idle, without local model", Unit::Bytes, &idle, 30.0 * MIB);
    client_windows::measure(report).await
}

/// Opens a session that lists its tools.
async fn open(client: &mut McpClient) -> Result<()> {
    client.open_session().await?;
    client.request("tools/list", json!({})).await?;
    Ok(())
}
