//! Scripts of code mode: one call, and 100 calls one after another, beside the calls made by the client.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use super::{call, json_text};
use crate::client::mcp_client::McpClient;
use crate::report::{Report, Section, Unit};
use crate::samples::{Samples, interleaved_after};

/// Most that a script of one call may take: so many times the direct call, and two milliseconds.
const MAX_OF_DIRECT_CALL: f64 = 1.5;
const SCRIPT_SECONDS: f64 = 0.002;
/// Time before a script: its worker is warm. An agent's model takes longer between two scripts.
const PAUSE: Duration = Duration::from_millis(20);
/// Calls of the long script, the most that a script may make by default.
const CALLS: usize = 100;
/// Most that the long script may take, of the same calls made by the client.
const MAX_OF_DIRECT_CALLS: f64 = 1.3;

/// Measures both scripts, and adds the rows.
pub(super) async fn measure(report: &mut Report, vmcp: SocketAddr) -> Result<()> {
    let what = "script of one call";
    let (script, direct) = compared(PAUSE, report.runs(100), vmcp, 1).await?;
    report.row(Section::Code, Unit::Seconds, (what, &script), ("the direct call of its tool", &direct));
    report.check_median(what, Unit::Seconds, &script, direct.p50() * MAX_OF_DIRECT_CALL + SCRIPT_SECONDS);

    let hurried = "script of one call, each straight after the one before";
    let (script, direct) = compared(Duration::ZERO, report.runs(100), vmcp, 1).await?;
    report.row(Section::Code, Unit::Seconds, (hurried, &script), ("the direct call of its tool", &direct));

    let what = format!("script of {CALLS} calls, one after another");
    let (script, direct) = compared(PAUSE, report.runs(30), vmcp, CALLS).await?;
    let peer = "the same calls by the client";
    report.row(Section::Code, Unit::Seconds, (what.as_str(), &script), (peer, &direct));
    report.check_median(&what, Unit::Seconds, &script, direct.p50() * MAX_OF_DIRECT_CALLS);
    Ok(())
}

/// Measures a script that calls `echo` this many times in turns with as many direct calls, each turn after a
/// pause.
async fn compared(
    pause: Duration,
    runs: usize,
    vmcp: SocketAddr,
    calls: usize,
) -> Result<(Samples, Samples)> {
    let code = format!("for i in range({calls}):\n    found = one.echo(text='x')\nfound");
    let (mut scripting, mut calling) = (McpClient::connect(vmcp).await?, McpClient::connect(vmcp).await?);
    interleaved_after(
        pause,
        runs,
        async |_| {
            let arguments = json!({"code": code, "timeout_ms": 20_000});
            let ended = json_text(&call(&mut scripting, "optim.execute_code", arguments).await?)?;
            let is_done =
                ended.get("calls") == Some(&json!(calls)) && ended.get("result") == Some(&json!("x"));
            ensure!(is_done, "the script ended otherwise: {ended}");
            Ok(())
        },
        async |_| {
            for _ in 0..calls {
                call(&mut calling, "one_echo", json!({"text": "x"})).await?;
            }
            Ok(())
        },
    )
    .await
}
