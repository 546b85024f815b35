//! What the process holds, idle and with many sessions. From `/proc`, so on Linux only.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;
use tokio::process::Child;
use tokio::time::sleep;

use crate::client::mcp_client::Client;
use crate::progress::progress;
use crate::report::{Part, Report, Unit};
use crate::samples::Samples;
use crate::testbed::vmcp_process::{Fixture, Vmcp};

/// Tools of the backend.
const TOOLS: usize = 20;
/// Sessions that are opened.
const SESSIONS: usize = 1000;
/// How long a process is left alone before it counts as idle.
const REST: Duration = Duration::from_secs(2);
const MIB: f64 = 1024.0 * 1024.0;

/// The rows.
pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    progress("memory: idle, with 1,000 sessions over one connection, with 1,000 connections");
    let [mut fixture, mut idle, mut sealed, mut connected] = [(); 4].map(|()| Vec::new());
    for _ in 0..report.runs(5).min(5) {
        let quick = Fixture::start(&format!("synthetic:{TOOLS}")).await?;
        let vmcp = Vmcp::spawn(&[&quick.backend])?;
        vmcp.complete_list(TOOLS).await?;
        sleep(REST).await;
        fixture.push(resident(&quick.child).await?);
        idle.push(resident(&vmcp.child).await?);

        let mut client = Client::connect(vmcp.clients).await?;
        for _ in 0..SESSIONS {
            open(&mut client).await?;
        }
        sleep(REST).await;
        sealed.push(resident(&vmcp.child).await?);

        let mut clients = Vec::new();
        for _ in 0..SESSIONS {
            let mut client = Client::connect(vmcp.clients).await?;
            open(&mut client).await?;
            clients.push(client);
        }
        sleep(REST).await;
        connected.push(resident(&vmcp.child).await?);
        vmcp.end().await?;
    }
    let [fixture, idle, sealed, connected] = [fixture, idle, sealed, connected].map(Samples::from_iter);
    let mut row = |what: &str, samples: &Samples, other: &str, of_other: &Samples| {
        report.row(Part::Memory, Unit::Bytes, (what, samples), (other, of_other));
    };
    row("resident memory, idle, one backend of 20 tools, no local model", &idle, "the test server", &fixture);
    row("after 1,000 sessions over one connection", &sealed, "idle", &idle);
    row("after 1,000 more, each with its open connection", &connected, "before them", &sealed);
    report.target("resident memory, idle, without local model", Unit::Bytes, &idle, 40.0 * MIB);
    Ok(())
}

/// A session that has listed its tools.
async fn open(client: &mut Client) -> Result<()> {
    client.open_session().await?;
    client.request("tools/list", json!({})).await?;
    Ok(())
}

/// Bytes of resident memory.
async fn resident(child: &Child) -> Result<f64> {
    let id = child.id().context("the process has ended")?;
    let status = tokio::fs::read_to_string(format!("/proc/{id}/status")).await?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024.0)
}
