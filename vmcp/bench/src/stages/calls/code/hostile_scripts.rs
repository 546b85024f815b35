//! Calls of a client beside scripts of another connection that only compute.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::call;
use crate::client::mcp_client::McpClient;
use crate::report::{Report, Section, Unit};
use crate::samples::Samples;

/// Scripts at the same time: as many as one client may run by default.
const SCRIPTS: usize = 2;
/// Rounds without the scripts and beside them, in turns, and the calls of one.
const ROUNDS: usize = 5;
const CALLS: usize = 200;
/// Pause between two calls, so that waiting for the processor shows.
const PAUSE: Duration = Duration::from_millis(5);
/// Time in which the scripts begin, and end once their client has left.
const SETTLE_TIME: Duration = Duration::from_millis(500);
/// Highest p99 beside the scripts, as a multiple of the p99 without them.
const MAX_RATIO: f64 = 2.0;

/// Measures the calls with and without the scripts, and adds the row.
pub(super) async fn measure(report: &mut Report, vmcp: SocketAddr) -> Result<()> {
    let mut client = McpClient::connect(vmcp).await?;
    let (mut calm, mut beside) = (Samples::default(), Samples::default());
    for _ in 0..ROUNDS {
        calm.extend([calls(&mut client).await?.p99()]);
        let scripts: Vec<_> =
            (0..SCRIPTS).map(|_| AbortOnDropHandle::new(tokio::spawn(compute(vmcp)))).collect();
        sleep(SETTLE_TIME).await;
        let refused = call(&mut client, "optim.execute_code", json!({"code": "1"})).await;
        let is_busy = refused.is_err_and(|error| error.to_string().contains("BusyError"));
        ensure!(is_busy, "{SCRIPTS} scripts should run");
        beside.extend([calls(&mut client).await?.p99()]);
        drop(scripts);
        sleep(SETTLE_TIME).await;
    }
    let what = format!("p99 of calls beside {SCRIPTS} scripts that only compute");
    report.row(Section::Code, Unit::Seconds, (what.as_str(), &beside), ("p99 without them", &calm));
    report.check_target(&what, Unit::Ratio, beside.p50() / calm.p50(), MAX_RATIO);
    Ok(())
}

/// Runs a script that never ends, until it is dropped.
async fn compute(vmcp: SocketAddr) -> Result<()> {
    let mut client = McpClient::connect(vmcp).await?;
    let arguments = json!({"code": "while True: pass", "timeout_ms": 20_000});
    call(&mut client, "optim.execute_code", arguments).await?;
    Ok(())
}

/// Makes the calls of a round.
async fn calls(client: &mut McpClient) -> Result<Samples> {
    let mut samples = Samples::default();
    for _ in 0..CALLS {
        sleep(PAUSE).await;
        let begun = Instant::now();
        call(client, "one_echo", json!({"text": "x"})).await?;
        samples.push(begun.elapsed());
    }
    Ok(samples)
}
