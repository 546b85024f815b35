//! Stage `telemetry`: CPU of a call through a vmcp with traces, metrics and audit, beside one without them.
//! Every trace and all metrics go to a collector, audit events to a file; log lines are not exported.
//!
//! Both processes get the same calls, in turns. Exports go on in the turns of the other process and after the
//! last call, so the CPU time of the whole run is compared. It is read per process: the collector, a thread
//! of this process, does not count. Dropped spans cost less than exported ones, so their share is printed.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Builder;

use super::settings_cost::{MeasuredCost, SettingsCost};
use crate::progress::progress;
use crate::report::{Report, Unit};

/// Most that traces, metrics and audit may cost, as a share of a call's CPU.
const MAX_RATIO: f64 = 1.1;

/// Time after the last call in which waiting spans and metrics are exported: the SDK exports a batch that is
/// not full after five seconds.
const LAST_EXPORTS: Duration = Duration::from_secs(6);
/// Spans of one call: the request, the call of the backend, and its exchange.
const SPANS_PER_CALL: f64 = 3.0;

/// Measures calls of both processes in turns, and adds the rows.
pub(crate) async fn measure(report: &mut Report, quick: bool) -> Result<()> {
    progress("telemetry: calls with traces, metrics and audit on, and with them off");
    let folder = tempfile::tempdir()?;
    let (collector, received) = start_collector()?;
    let cost = SettingsCost {
        plain: "vmcp without telemetry",
        other: "vmcp with traces, metrics and audit",
        settings: json!({
            "telemetry": {
                "endpoint": format!("http://{collector}"), "samplingRate": "1.0",
                "metrics": {"enabled": true}, "metricsInterval": "1s",
            },
            "audit": {"enabled": true, "logFile": folder.path().join("audit.jsonl")},
        }),
        row: "call with traces, metrics and audit",
        afterwards: Some(LAST_EXPORTS),
        series: &[r#"vmcp_telemetry_lost_total{signal="traces"}"#],
    };
    let MeasuredCost { ratio, calls, values } = cost.measure(report, quick).await?;
    let received = received.load(Ordering::Relaxed);
    ensure!(received > 0, "the collector got nothing: the cost of no telemetry was measured");
    let mebibytes = received as f64 / f64::from(1 << 20);
    let lost = values.iter().sum::<f64>() / (calls as f64 * SPANS_PER_CALL);
    report.note(&format!(
        "traces, metrics and audit cost {:+.1} % of a call's CPU; the collector got {mebibytes:.1} MiB; {:.1} % of \
         the spans were dropped beyond the queue",
        (ratio - 1.0) * 100.0,
        lost * 100.0
    ));
    report.check_target(
        "CPU of a call with traces, metrics and audit, beside without",
        Unit::Ratio,
        ratio,
        MAX_RATIO,
    );
    Ok(())
}

/// Starts a collector that throws everything away, on a thread of its own. Returns its address, and the
/// bytes that it received. It ends with the process.
fn start_collector() -> Result<(SocketAddr, Arc<AtomicU64>)> {
    let listener = StdListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let received = Arc::new(AtomicU64::new(0));
    let take = async |State(received): State<Arc<AtomicU64>>, body: Bytes| {
        received.fetch_add(body.len() as u64, Ordering::Relaxed);
        StatusCode::OK
    };
    let routes = Router::new()
        .route("/v1/traces", post(take))
        .route("/v1/metrics", post(take))
        .with_state(Arc::clone(&received));
    let runtime = Builder::new_current_thread().enable_all().build()?;
    thread::spawn(move || {
        runtime.block_on(async { axum::serve(TcpListener::from_std(listener)?, routes).await })
    });
    Ok((address, received))
}
