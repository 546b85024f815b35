//! Many legacy sessions: what each costs while it is idle, and to open.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::json;
use tokio::time::sleep;
use vmcp_wire::era::Era;
use vmcp_wire::methods;

use crate::client::replay_client::{Caller, Endpoint};
use crate::load_generator::Counters;
use crate::progress::progress;
use crate::report::{Part, Report, Row, Unit, show};
use crate::roles::Role;
use crate::roles::role_process::Played;
use crate::samples::Samples;
use crate::testbed::process_usage;
use crate::testbed::{ANY, Bed};

/// How many are open when memory is read.
const CROWDS: [usize; 4] = [1, 100, 1_000, 10_000];
/// How many call a backend that keeps sessions itself.
const CALLING: usize = 1_000;
/// Sessions opened and forgotten first, so that what grows once has grown.
const WARM_UP: usize = 50;
/// Files that a process needs for other things.
const SPARE: u64 = 200;
/// How long a process is left alone before its memory is read.
const REST: Duration = Duration::from_millis(500);
const KIB: f64 = 1024.0;

/// What holds a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A connection of its own, which idles.
    Connected,
    /// All over one connection.
    Sealed,
    /// The same, and each has called a backend that keeps sessions.
    Calling,
}

impl Kind {
    fn words(self) -> &'static str {
        match self {
            Kind::Connected => "each with its idle connection",
            Kind::Sealed => "over one connection",
            Kind::Calling => "over one connection, each with a call to a backend that keeps sessions",
        }
    }
}

/// Memory of a process at each size of the crowd, and what opening one took.
struct Grown {
    idle: f64,
    /// Number of sessions, and bytes of memory.
    steps: Vec<(usize, f64)>,
    opening: Samples,
    /// Seconds of CPU for each.
    cpu: f64,
    /// Requests to the backend for each, and new connections.
    upstream: (f64, f64),
}

impl Grown {
    fn each(&self, count: usize) -> Option<f64> {
        let (_, memory) = self.steps.iter().find(|(step, _)| *step == count)?;
        Some((memory - self.idle) / count as f64)
    }
}

/// The rows.
pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    let files = process_usage::raise_open_files()?;
    let most = usize::try_from(files.saturating_sub(SPARE))?;
    let crowds: Vec<usize> = CROWDS.into_iter().filter(|crowd| *crowd <= most).collect();
    if crowds.len() < CROWDS.len() {
        report.remark(&format!("at most {files} files may be open here: no crowds larger than {most}"));
    }

    let mut bed = Bed::new(ANY).await?;
    progress("sessions: through the bare hyper proxy, for comparison");
    let proxy = Played::start(Role::Hyper, ANY, Some(bed.backend)).await?;
    let endpoint = Endpoint { address: proxy.address, path: "/dual/mcp".to_owned() };
    let bare = grow(&endpoint, proxy.pid()?, &mut bed.counters, Kind::Connected, &crowds).await?;
    for kind in [Kind::Connected, Kind::Sealed, Kind::Calling] {
        progress(&format!("sessions: {}", kind.words()));
        // A process each, so that nothing left behind by one is counted or reused by another.
        let backends = json!([bed.entry("dual"), bed.entry("legacy")]);
        bed.start_vmcp(json!({
            "backends": backends,
            "optimizer": {"embeddings": {"provider": "none"}},
            "server": {"maxConnections": 2 * CROWDS.iter().sum::<usize>()},
        }))?;
        bed.vmcp()?.complete_list(6).await?;
        let endpoint = Endpoint { address: bed.vmcp()?.clients, path: "/mcp".to_owned() };
        let crowds = if kind == Kind::Calling { &[1, 100, CALLING][..] } else { &crowds };
        let pid = bed.vmcp()?.pid()?;
        let grown = grow(&endpoint, pid, &mut bed.counters, kind, crowds).await?;
        show_rows(report, kind, &grown, &bare);
    }
    bed.end().await
}

fn show_rows(report: &mut Report, kind: Kind, grown: &Grown, bare: &Grown) {
    for (count, memory) in &grown.steps {
        let each = (memory - grown.idle) / *count as f64;
        let mut row = Row {
            what: format!("memory of each of {count} sessions, {}", kind.words()),
            n: *count,
            p50: show(each, Unit::Bytes),
            memory: Some(*memory),
            yardstick: "idle process".to_owned(),
            compared: Some((show(grown.idle, Unit::Bytes), memory / grown.idle)),
            ..Row::default()
        };
        if kind == Kind::Connected
            && let Some(other) = bare.each(*count)
        {
            "a connection at the bare hyper proxy".clone_into(&mut row.yardstick);
            row.compared = Some((show(other, Unit::Bytes), each / other));
        }
        if kind != Kind::Calling && *count >= 1_000 {
            report.promise(&row.what, Unit::Bytes, each, 20.0 * KIB);
        }
        report.add(Part::Sessions, row);
    }
    report.add(
        Part::Sessions,
        Row {
            what: format!("opening a session and listing its tools, {}", kind.words()),
            n: grown.opening.len(),
            p50: show(grown.opening.p50(), Unit::Seconds),
            p99: show(grown.opening.p99(), Unit::Seconds),
            cpu: Some(grown.cpu),
            upstream: Some(grown.upstream),
            yardstick: "the same through the bare hyper proxy, CPU".to_owned(),
            compared: Some((show(bare.cpu, Unit::Seconds), grown.cpu / bare.cpu)),
            ..Row::default()
        },
    );
}

/// Opens sessions until the largest crowd is there.
async fn grow(
    endpoint: &Endpoint,
    pid: u32,
    counters: &mut Counters,
    kind: Kind,
    crowds: &[usize],
) -> Result<Grown> {
    let mut single = Caller::connect(endpoint, Era::Legacy, 0).await?;
    for _ in 0..WARM_UP {
        open(&mut single, kind).await?;
    }
    sleep(REST).await;
    let (idle, counted) = (process_usage::resident(pid)?, counters.read().await?);
    let (mut steps, mut opening, mut crowd) = (Vec::new(), Samples::default(), Vec::new());
    let mut cpu = Duration::ZERO;
    for count in crowds {
        let before = process_usage::cpu(pid)?;
        while opening.len() < *count {
            let started = Instant::now();
            if kind == Kind::Connected {
                let mut caller = Caller::connect(endpoint, Era::Legacy, opening.len() as u64).await?;
                caller.result(methods::TOOLS_LIST, "{}").await?;
                crowd.push(caller);
            } else {
                open(&mut single, kind).await?;
            }
            opening.push(started.elapsed());
        }
        cpu += process_usage::cpu(pid)?.saturating_sub(before);
        sleep(REST).await;
        steps.push((*count, process_usage::resident(pid)?));
    }
    // The first and the last are still served.
    let last = crowd.len().saturating_sub(1);
    for (_, caller) in crowd.iter_mut().enumerate().filter(|(at, _)| *at == 0 || *at == last) {
        caller.result(methods::TOOLS_LIST, "{}").await.context("an old session")?;
    }
    let (n, now) = (opening.len() as f64, counters.read().await?);
    let upstream =
        ((now.requests - counted.requests) as f64 / n, (now.connections - counted.connections) as f64 / n);
    Ok(Grown { idle, steps, opening, cpu: cpu.as_secs_f64() / n, upstream })
}

/// A session that has listed its tools.
async fn open(caller: &mut Caller, kind: Kind) -> Result<()> {
    caller.open_session().await?;
    caller.result(methods::TOOLS_LIST, "{}").await?;
    if kind == Kind::Calling {
        caller.result(methods::TOOLS_CALL, r#"{"name":"legacy_result_1k","arguments":{}}"#).await?;
    }
    Ok(())
}
