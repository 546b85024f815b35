//! `GET /tools` by context, beside `tools/list` of the same server.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use vmcp_wire::era::Era;
use vmcp_wire::methods;

use crate::client::http_connection::HttpConnection;
use crate::client::replay_client::ReplayClient;
use crate::report::{Report, Section, Unit};
use crate::samples::interleaved;
use crate::synthetic_tools::count_in_words;
use crate::testbed::Testbed;

/// Request for a few of the tools that find something: all of them do.
const REQUEST: &[u8] = b"GET /tools?context=search&limit=8 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";
/// Most that 99 of 100 answers may take over 500 tools.
const PROMISED_P99: Duration = Duration::from_millis(5);

/// Measures an answer by context over `tools` tools, and checks that the backend is not asked for it.
pub(super) async fn measure(report: &mut Report, testbed: &mut Testbed, tools: usize) -> Result<()> {
    let mut connection = HttpConnection::open(testbed.vmcp()?.clients).await?;
    let answer: Value = serde_json::from_slice(connection.exchange(REQUEST).await?.body)?;
    let count = |name: &str| answer.pointer(&format!("/metadata/{name}")).and_then(Value::as_u64);
    ensure!(
        (count("originalCount"), count("returnedCount")) == (Some(tools as u64), Some(8)),
        "not a full answer: {answer}"
    );
    let target = testbed.targets.iter().find(|target| target.is_vmcp()).context("no vmcp")?;
    let mut client = ReplayClient::connect(&target.endpoint, Era::Modern, 0).await?;
    let mut list = client.prepare(methods::TOOLS_LIST, "{}")?;
    let before = testbed.counters.read().await?.requests;
    let (ours, theirs) = interleaved(
        report.runs(1000),
        async |_| connection.exchange(REQUEST).await.map(|answer| answer.status),
        async |_| client.send(&mut list).await.map(|answer| answer.status),
    )
    .await?;
    ensure!(testbed.counters.read().await?.requests == before, "the backend was asked");
    let tools = count_in_words(tools);
    report.row(
        Section::Lists,
        Unit::Seconds,
        (format!("GET /tools by context, {tools}"), &ours),
        ("tools/list of the same server", &theirs),
    );
    let what = format!("99 of 100 answers of GET /tools by context, {tools}");
    report.check_target(&what, Unit::Seconds, ours.p99(), PROMISED_P99.as_secs_f64());
    Ok(())
}
