//! A backend that changes a hundred times a second, before a thousand clients that listen.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use vmcp_wire::era::Era;
use vmcp_wire::methods;

use crate::client::http_connection::Connection;
use crate::client::replay_client::{Caller, Endpoint};
use crate::options::Options;
use crate::progress::progress;
use crate::report::{Part, Report, Row, Unit, show};
use crate::roles::backend::{Calm, now};
use crate::roles::served_content;
use crate::samples::Samples;
use crate::testbed::process_usage;
use crate::testbed::{ANY, Bed};

/// Changes a second, and for how many seconds.
const RATE: u32 = 100;
const SECONDS: u32 = 5;
const QUICK_SECONDS: u32 = 2;
/// Half of them GET streams of legacy sessions, half `subscriptions/listen`.
const STREAMS: usize = 1_000;
/// A stream that is told nothing for so long will be told nothing more.
const QUIET: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(15);

/// What a stream was told.
#[derive(Clone, Copy)]
struct Told {
    times: usize,
    /// Nanoseconds since 1970.
    last: u128,
}

/// What one storm brought.
struct Storm {
    calm: Calm,
    told: Vec<Told>,
    /// Seconds of CPU from the first change until all was quiet again.
    cpu: f64,
    /// Bytes before the streams, with them, and after the storm.
    memory: [f64; 3],
}

/// The rows.
pub(crate) async fn measure(report: &mut Report, options: &Options) -> Result<()> {
    process_usage::raise_open_files()?;
    let seconds = if options.quick { QUICK_SECONDS } else { SECONDS };
    progress("storm: nobody listens");
    let alone = storm(0, seconds).await?;
    progress("storm: 1,000 streams listen");
    let crowd = storm(STREAMS, seconds).await?;

    let changes = f64::from(RATE * seconds);
    let times: Samples = crowd.told.iter().map(|told| told.times as f64).collect();
    let unaware = crowd.told.iter().filter(|told| told.last < crowd.calm.last_change).count();
    if unaware > 0 {
        report.remark(&format!("storm: {unaware} of {STREAMS} streams were not told of the last change"));
    }
    let late = |told: &Told| told.last.saturating_sub(crowd.calm.last_change) as f64 * 1e-9;
    let late: Samples = crowd.told.iter().map(late).collect();
    let [worst] = late.quantiles([1.0]);
    let what = format!("{RATE} changes a second for {seconds} s, 1,000 streams");
    let [before, listening, after] = crowd.memory;
    let mut row = |row: Row| report.add(Part::Storm, row);
    row(Row {
        what: format!("{what}: CPU of a change"),
        n: changes as usize,
        cpu: Some(crowd.cpu / changes),
        memory: Some(after),
        yardstick: "nobody listens".to_owned(),
        compared: Some((show(alone.cpu / changes, Unit::Seconds), crowd.cpu / alone.cpu)),
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
        p50: show(late.p50(), Unit::Seconds),
        p99: show(late.p99(), Unit::Seconds),
        yardstick: "the last stream".to_owned(),
        compared: Some((show(worst, Unit::Seconds), late.p50() / worst)),
        ..Row::default()
    });
    row(Row {
        what: "memory of each of 1,000 listening streams".to_owned(),
        n: STREAMS,
        p50: show((listening - before) / STREAMS as f64, Unit::Bytes),
        memory: Some(listening),
        yardstick: "without streams".to_owned(),
        compared: Some((show(before, Unit::Bytes), listening / before)),
        ..Row::default()
    });
    Ok(())
}

/// One storm over so many streams, through a process of its own.
async fn storm(streams: usize, seconds: u32) -> Result<Storm> {
    let mut bed = Bed::new(ANY).await?;
    let backends = [bed.entry("changing")];
    bed.start_vmcp(json!({"backends": backends, "optimizer": {"embeddings": {"provider": "none"}}}))?;
    bed.vmcp()?.complete_list(served_content::CHANGING).await?;
    let pid = bed.vmcp()?.pid()?;
    let endpoint = Endpoint { address: bed.vmcp()?.clients, path: "/mcp".to_owned() };
    sleep(Duration::from_millis(500)).await;
    let before = process_usage::resident(pid)?;

    let mut listening = JoinSet::new();
    for number in 0..streams {
        let era = if number % 2 == 0 { Era::Legacy } else { Era::Modern };
        let mut caller = Caller::connect(&endpoint, era, number as u64).await?;
        caller.follow().await?;
        listening.spawn(listen(caller));
    }
    sleep(Duration::from_millis(500)).await;
    let with_streams = process_usage::resident(pid)?;

    let cpu = process_usage::cpu(pid)?;
    let calm: Calm = {
        let mut control = Connection::open(bed.backend).await?;
        let changes = RATE * seconds;
        let request = format!(
            "POST /storm?changes={changes}&rate={RATE} HTTP/1.1\r\nhost: backend\r\ncontent-length: 0\r\n\r\n"
        );
        serde_json::from_slice(control.exchange(request.as_bytes()).await?.body)?
    };
    let mut told = Vec::new();
    while let Some(stream) = listening.join_next().await {
        told.push(stream??);
    }
    let current = format!("version {}:", calm.version);
    let started = Instant::now();
    let mut client = Caller::connect(&endpoint, Era::Modern, 0).await?;
    while !String::from_utf8_lossy(&client.result(methods::TOOLS_LIST, "{}").await?).contains(&current) {
        ensure!(started.elapsed() < PATIENCE, "the last change never shows in tools/list");
        sleep(Duration::from_millis(20)).await;
    }
    let cpu = process_usage::cpu(pid)?.saturating_sub(cpu).as_secs_f64();
    let memory = [before, with_streams, process_usage::resident(pid)?];
    bed.end().await?;
    Ok(Storm { calm, told, cpu, memory })
}

/// Reads a stream from its first message until it has been quiet for a while.
async fn listen(mut caller: Caller) -> Result<Told> {
    let first = tokio::time::timeout(PATIENCE, caller.told()).await;
    first.context("a stream was told nothing")??;
    let mut told = Told { times: 1, last: now() };
    while let Ok(next) = tokio::time::timeout(QUIET, caller.told()).await {
        next.context("a stream was cut off")?;
        told = Told { times: told.times + 1, last: now() };
    }
    Ok(told)
}
