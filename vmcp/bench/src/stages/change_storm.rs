//! Stage `storm`: a backend that changes its tools 100 times a second, in front of 1,000 listening streams.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use vmcp_wire::era::Era;
use vmcp_wire::methods;

use crate::client::http_connection::HttpConnection;
use crate::client::replay_client::{Endpoint, ReplayClient};
use crate::options::Options;
use crate::progress::progress;
use crate::report::{Report, Row, Section, Unit, format_value};
use crate::roles::backend::{StormSummary, now};
use crate::roles::served_content;
use crate::samples::Samples;
use crate::testbed::process_usage;
use crate::testbed::{ANY_LOCAL_PORT, Testbed};

/// Changes a second, and seconds of a storm.
const RATE: u32 = 100;
const SECONDS: u32 = 5;
const QUICK_SECONDS: u32 = 2;
/// Number of streams: half are GET streams of legacy sessions, half `subscriptions/listen`.
const STREAMS: usize = 1_000;
/// A stream without a notification for this time is done.
const QUIET_PERIOD: Duration = Duration::from_secs(2);
const CHANGE_TIMEOUT: Duration = Duration::from_secs(15);

/// Notifications that one stream received.
#[derive(Clone, Copy)]
struct StreamMessages {
    count: usize,
    /// Time of the last one, in nanoseconds since 1970.
    last: u128,
}

/// Measurements of one storm.
struct StormResult {
    summary: StormSummary,
    streams: Vec<StreamMessages>,
    /// Seconds of CPU from the first change until all streams were quiet.
    cpu: f64,
    /// Resident bytes before the streams, with them, and after the storm.
    memory: [f64; 3],
}

/// Measures a storm with and without listening streams, and adds the rows.
pub(crate) async fn measure(report: &mut Report, options: &Options) -> Result<()> {
    process_usage::raise_open_files()?;
    let seconds = if options.quick { QUICK_SECONDS } else { SECONDS };
    progress("storm: no stream listens");
    let idle_run = run_storm(0, seconds).await?;
    progress("storm: 1,000 streams listen");
    let listening_run = run_storm(STREAMS, seconds).await?;

    let changes = f64::from(RATE * seconds);
    let times: Samples = listening_run.streams.iter().map(|stream| stream.count as f64).collect();
    let unaware =
        listening_run.streams.iter().filter(|stream| stream.last < listening_run.summary.last_change).count();
    if unaware > 0 {
        report.note(&format!("storm: {unaware} of {STREAMS} streams were not notified of the last change"));
    }
    let late =
        |stream: &StreamMessages| stream.last.saturating_sub(listening_run.summary.last_change) as f64 * 1e-9;
    let late: Samples = listening_run.streams.iter().map(late).collect();
    let [worst] = late.quantiles([1.0]);
    let what = format!("{RATE} changes a second for {seconds} s, 1,000 streams");
    let [before, listening, after] = listening_run.memory;
    let mut row = |row: Row| report.add(Section::Storm, row);
    row(Row {
        what: format!("{what}: CPU of a change"),
        n: changes as usize,
        cpu: Some(listening_run.cpu / changes),
        memory: Some(after),
        yardstick: "nobody listens".to_owned(),
        compared: Some((
            format_value(idle_run.cpu / changes, Unit::Seconds),
            listening_run.cpu / idle_run.cpu,
        )),
        ..Row::default()
    });
    row(Row {
        what: format!("{what}: messages to a stream"),
        n: STREAMS,
        p50: format!("{:.0}", times.p50()),
        p99: format!("{:.0}", times.p99()),
        rate: Some(times.sum() / f64::from(seconds)),
        yardstick: "changes".to_owned(),
        compared: Some((format!("{changes:.0}"), times.p50() / changes)),
        ..Row::default()
    });
    row(Row {
        what: format!("{what}: from the last change until a stream's last message"),
        n: STREAMS,
        p50: format_value(late.p50(), Unit::Seconds),
        p99: format_value(late.p99(), Unit::Seconds),
        yardstick: "the last stream".to_owned(),
        compared: Some((format_value(worst, Unit::Seconds), late.p50() / worst)),
        ..Row::default()
    });
    row(Row {
        what: "memory of each of 1,000 listening streams".to_owned(),
        n: STREAMS,
        p50: format_value((listening - before) / STREAMS as f64, Unit::Bytes),
        memory: Some(listening),
        yardstick: "without streams".to_owned(),
        compared: Some((format_value(before, Unit::Bytes), listening / before)),
        ..Row::default()
    });
    Ok(())
}

/// Runs one storm over this many streams, through a vmcp of its own.
async fn run_storm(streams: usize, seconds: u32) -> Result<StormResult> {
    let mut testbed = Testbed::new(ANY_LOCAL_PORT).await?;
    let backends = [testbed.entry("changing")];
    testbed.start_vmcp(json!({"backends": backends, "optimizer": {"embeddings": {"provider": "none"}}}))?;
    testbed.vmcp()?.complete_list(served_content::CHANGING_TOOLS).await?;
    let pid = testbed.vmcp()?.pid()?;
    let endpoint = Endpoint { address: testbed.vmcp()?.clients, path: "/mcp".to_owned() };
    sleep(Duration::from_millis(500)).await;
    let before = process_usage::resident(pid)?;

    let mut listening = JoinSet::new();
    for number in 0..streams {
        let era = if number % 2 == 0 { Era::Legacy } else { Era::Modern };
        let mut client = ReplayClient::connect(&endpoint, era, number as u64).await?;
        client.open_change_stream().await?;
        listening.spawn(listen(client));
    }
    sleep(Duration::from_millis(500)).await;
    let with_streams = process_usage::resident(pid)?;

    let cpu = process_usage::cpu(pid)?;
    let summary: StormSummary = {
        let mut control = HttpConnection::open(testbed.backend).await?;
        let changes = RATE * seconds;
        let request = format!(
            "POST /storm?changes={changes}&rate={RATE} HTTP/1.1\r\nhost: backend\r\ncontent-length: 0\r\n\r\n"
        );
        serde_json::from_slice(control.exchange(request.as_bytes()).await?.body)?
    };
    let mut streams = Vec::new();
    while let Some(stream) = listening.join_next().await {
        streams.push(stream??);
    }
    let current = format!("version {}:", summary.version);
    let started = Instant::now();
    let mut client = ReplayClient::connect(&endpoint, Era::Modern, 0).await?;
    while !String::from_utf8_lossy(&client.request_result(methods::TOOLS_LIST, "{}").await?)
        .contains(&current)
    {
        ensure!(started.elapsed() < CHANGE_TIMEOUT, "the last change never shows in tools/list");
        sleep(Duration::from_millis(20)).await;
    }
    let cpu = process_usage::cpu(pid)?.saturating_sub(cpu).as_secs_f64();
    let memory = [before, with_streams, process_usage::resident(pid)?];
    testbed.end().await?;
    Ok(StormResult { summary, streams, cpu, memory })
}

/// Reads a stream from its first notification until it has been quiet for [`QUIET_PERIOD`].
async fn listen(mut client: ReplayClient) -> Result<StreamMessages> {
    let first = tokio::time::timeout(CHANGE_TIMEOUT, client.next_change()).await;
    first.context("a stream was not notified")??;
    let mut messages = StreamMessages { count: 1, last: now() };
    while let Ok(next) = tokio::time::timeout(QUIET_PERIOD, client.next_change()).await {
        next.context("a stream was cut off")?;
        messages = StreamMessages { count: messages.count + 1, last: now() };
    }
    Ok(messages)
}
