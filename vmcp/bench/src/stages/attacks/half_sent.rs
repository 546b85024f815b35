//! Stage `half-sent`: memory of 10,000 requests whose bodies stop half way, against the budget for bytes.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tokio::time::sleep;
use vmcp_wire::era::Era;
use vmcp_wire::methods;

use crate::client::replay_client::{Endpoint, ReplayClient};
use crate::progress::progress;
use crate::report::{Report, Row, Section, Unit, format_value};
use crate::roles::served_content::TOOL_COUNT;
use crate::testbed::{ANY_LOCAL_PORT, Testbed, process_usage};

const CONNECTIONS: usize = 10_000;
/// Open files that are left for everything else.
const RESERVED_FILES: u64 = 200;
/// Length of each body, and the part of it that is sent: 10,000 × 32 KiB are 312 MiB.
const BODY_BYTES: usize = 64 << 10;
const SENT_BYTES: usize = BODY_BYTES / 2;
/// Bytes that vmcp is configured to hold at most: 64 MiB.
const BYTE_BUDGET: usize = 64 << 20;
/// Time that a process rests before its memory is read.
const SETTLE_TIME: Duration = Duration::from_secs(1);

/// Measures the memory, and adds the row.
pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    let files = process_usage::raise_open_files()?;
    let count = CONNECTIONS.min(usize::try_from(files.saturating_sub(RESERVED_FILES))?);
    progress(&format!("half-sent: {count} bodies"));
    let mut testbed = Testbed::new(ANY_LOCAL_PORT).await?;
    testbed.start_vmcp(json!({
        "backends": [testbed.entry("dual")],
        "optimizer": {"embeddings": {"provider": "none"}},
        // All connections come from one address, which may take all of the budget.
        "server": {
            "maxConnections": 2 * CONNECTIONS,
            "maxBufferedBytes": BYTE_BUDGET,
            "maxBufferedBytesPerClient": BYTE_BUDGET,
            "maxRequestsPerClient": 2 * CONNECTIONS,
        },
    }))?;
    testbed.vmcp()?.complete_list(TOOL_COUNT).await?;
    let (address, pid) = (testbed.vmcp()?.clients, testbed.vmcp()?.pid()?);
    let endpoint = Endpoint { address, path: "/mcp".to_owned() };

    // A request first, so that the memory of a connection itself is not counted.
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = ReplayClient::connect(&endpoint, Era::Modern, 0).await?;
        client.request_result(methods::TOOLS_LIST, "{}").await?;
        clients.push(client);
    }
    sleep(SETTLE_TIME).await;
    let idle = process_usage::resident(pid)?;
    process_usage::reset_peak(pid)?;
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\ncontent-length: {BODY_BYTES}\r\n\r\n"
    );
    let request = [head.as_bytes(), &b" ".repeat(SENT_BYTES)].concat();
    for client in &mut clients {
        client.connection.send_part(&request).await;
    }
    sleep(SETTLE_TIME).await;
    let peak = process_usage::peak(pid)?;
    let answered = clients.iter().filter(|client| client.connection.has_input()).count();
    let what = format!("memory of {count} half-sent bodies over their idle connections");
    report.check_target(&what, Unit::Bytes, peak - idle, BYTE_BUDGET as f64);
    report.add(
        Section::HalfSent,
        Row {
            what: format!("{what}; {answered} were refused"),
            n: count,
            memory: Some(peak - idle),
            yardstick: "configured budget".to_owned(),
            compared: Some((
                format_value(BYTE_BUDGET as f64, Unit::Bytes),
                (peak - idle) / BYTE_BUDGET as f64,
            )),
            ..Row::default()
        },
    );
    testbed.end().await
}
