//! Stage `start`: time from the start of the process to its first answers, with and without a backend that
//! hangs, and with and without saved definitions of slow backends.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;
use tokio::time::Instant;

use crate::client::mcp_client::McpClient;
use crate::progress::progress;
use crate::report::{Report, Section, Unit};
use crate::samples::{Samples, interleaved};
use crate::testbed::test_backends::{FixtureServer, HungBackend, SlowBackend};
use crate::testbed::vmcp_process::VmcpProcess;

/// Tools of the backend.
const TOOLS: usize = 20;
/// Backends that take long to connect, the time that they take, and the tools of each.
const SLOW_BACKENDS: usize = 10;
const CONNECTING: Duration = Duration::from_millis(500);
const TOOLS_OF_SLOW: usize = 50;
/// Time that vmcp has to save definitions.
const SAVING: Duration = Duration::from_secs(1);

/// Measures the start, and calls beside a backend that hangs; adds the rows.
pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    progress("starting vmcp again and again, with and without a backend that hangs");
    let toolset = format!("synthetic:{TOOLS}");
    let (quick, hung) = (FixtureServer::start(&toolset).await?, HungBackend::start().await?);
    let [mut fixture, mut ready, mut ready_hung, mut list, mut list_hung] =
        [(); 5].map(|()| Samples::default());
    for run in 0..=report.runs(25).max(7) {
        let started = Instant::now();
        let mut other = FixtureServer::start(&toolset).await?;
        let of_fixture = started.elapsed();
        other.child.kill().await?;
        let alone = start(&[&quick.backend]).await?;
        let beside = start(&[&quick.backend, &hung.backend]).await?;
        // The first run reads the programs from disk, so it is not counted.
        if run > 0 {
            fixture.push(of_fixture);
            ready.push(alone.0);
            list.push(alone.1);
            ready_hung.push(beside.0);
            list_hung.push(beside.1);
        }
    }
    let mut row = |what: &str, samples: &Samples, other: &str, of_other: &Samples| {
        report.row(Section::Start, Unit::Seconds, (what, samples), (other, of_other));
    };
    let listing = format!("start to a first complete tools/list ({TOOLS} tools)");
    row("start to /readyz", &ready, "start of the test server, 20 tools and no configuration", &fixture);
    row("start to /readyz, one more backend that never answers", &ready_hung, "without it", &ready);
    row(&listing, &list, "start to /readyz", &ready);
    row(&format!("{listing}, one more backend that never answers"), &list_hung, "without it", &list);
    report.check_median("start to a first complete tools/list", Unit::Seconds, &list, 0.01);
    report.check_median("the same beside a backend that hangs", Unit::Seconds, &list_hung, 0.15);

    progress("calling the healthy backend, with and without one that hangs");
    let quick = FixtureServer::start("echo").await?;
    let alone = VmcpProcess::spawn(&[&quick.backend])?;
    let beside = VmcpProcess::spawn(&[&quick.backend, &hung.backend])?;
    let (mut of_alone, mut of_beside) = (caller(&alone).await?, caller(&beside).await?);
    let (calls_beside, calls_alone) = interleaved(
        report.runs(2000),
        async |_| echo(&mut of_beside).await,
        async |_| echo(&mut of_alone).await,
    )
    .await?;
    report.row(
        Section::Start,
        Unit::Seconds,
        ("a call to a healthy backend beside one that never answers", &calls_beside),
        ("the same call without it", &calls_alone),
    );
    alone.end().await?;
    beside.end().await?;
    saved_definitions(report).await
}

/// Measures starts over backends that take long to connect, with the definitions of an earlier process and
/// without them.
async fn saved_definitions(report: &mut Report) -> Result<()> {
    progress("starting over slow backends, with and without saved definitions");
    let server = FixtureServer::start(&format!("synthetic:{TOOLS_OF_SLOW}")).await?;
    let mut slow = Vec::new();
    for number in 0..SLOW_BACKENDS {
        slow.push(SlowBackend::start(&format!("slow{number}"), &server, CONNECTING).await?);
    }
    let backends: Vec<_> = slow.iter().map(|slow| &slow.backend).collect();
    let optimizer = json!({"exposure": "All", "embeddings": {"provider": "none"}});
    let config = json!({"backends": backends, "optimizer": optimizer});
    let all = SLOW_BACKENDS * TOOLS_OF_SLOW;
    let (mut fresh, mut saved) = (Samples::default(), Samples::default());
    for _ in 0..report.runs(15).max(5) {
        let vmcp = VmcpProcess::configured(config.clone())?;
        fresh.push(vmcp.complete_list(all).await?);
        // A moment for the definitions to be saved.
        tokio::time::sleep(SAVING).await;
        let vmcp = vmcp.restarted().await?;
        saved.push(vmcp.complete_list(all).await?);
        vmcp.end().await?;
    }
    report.row(
        Section::Start,
        Unit::Seconds,
        (
            "start to a complete tools/list, 500 tools of ten backends that take 500 ms to connect, saved",
            &saved,
        ),
        ("the same without saved definitions", &fresh),
    );
    report.check_median(
        "a complete list over saved definitions of slow backends",
        Unit::Seconds,
        &saved,
        0.01,
    );
    Ok(())
}

/// Returns the times from the start to readiness and to the complete list.
async fn start(backends: &[&serde_json::Value]) -> Result<(Duration, Duration)> {
    let vmcp = VmcpProcess::spawn(backends)?;
    let times = (vmcp.ready().await?, vmcp.complete_list(TOOLS).await?);
    vmcp.end().await?;
    Ok(times)
}

/// Returns a client, once the tools of the backend can be called.
async fn caller(vmcp: &VmcpProcess) -> Result<McpClient> {
    vmcp.ready().await?;
    let mut client = McpClient::connect(vmcp.clients).await?;
    let started = Instant::now();
    while let Err(error) = echo(&mut client).await {
        if started.elapsed().as_secs() > 30 {
            return Err(error).context("the backend does not come up");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(client)
}

async fn echo(client: &mut McpClient) -> Result<()> {
    let call = json!({"name": "quick_echo", "arguments": {"message": "hello"}});
    let answer = client.request("tools/call", call).await?;
    let arrived = answer.windows(5).any(|window| window == b"hello");
    arrived.then_some(()).with_context(|| format!("no echo: {}", String::from_utf8_lossy(&answer)))
}
