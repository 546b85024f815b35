//! Stage `sessions`, second part: memory of each idle legacy session, and the cost of opening one.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::json;
use tokio::time::sleep;
use vmcp_wire::era::Era;
use vmcp_wire::methods;

use crate::client::replay_client::{Endpoint, ReplayClient};
use crate::progress::progress;
use crate::report::{Report, Row, Section, Unit, format_value};
use crate::roles::Role;
use crate::roles::role_process::RoleProcess;
use crate::roles::served_content::TOOL_COUNT;
use crate::samples::Samples;
use crate::testbed::backend_counters::BackendCounters;
use crate::testbed::process_usage;
use crate::testbed::{ANY_LOCAL_PORT, Testbed};

/// Numbers of open sessions at which memory is read.
const SESSION_COUNTS: [usize; 4] = [1, 100, 1_000, 10_000];
/// Number of sessions that call a backend which keeps sessions itself.
const CALLING_SESSIONS: usize = 1_000;
/// Sessions opened first and not counted, so that buffers and pools have grown.
const WARM_UP_SESSIONS: usize = 50;
/// Open files that are left for everything else.
const RESERVED_FILES: u64 = 200;
/// Time that a process rests before its memory is read.
const SETTLE_TIME: Duration = Duration::from_millis(500);
const KIB: f64 = 1024.0;

/// Kind of an idle session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SessionKind {
    /// Each session has a connection of its own, which idles.
    Connected,
    /// All sessions share one connection.
    Sealed,
    /// All sessions share one connection, and each has called a backend that keeps sessions.
    Calling,
}

impl SessionKind {
    fn words(self) -> &'static str {
        match self {
            SessionKind::Connected => "each with its idle connection",
            SessionKind::Sealed => "over one connection",
            SessionKind::Calling => "over one connection, each with a call to a backend that keeps sessions",
        }
    }
}

/// Memory of a process while sessions are opened, and the cost of opening them.
struct SessionGrowth {
    idle: f64,
    /// Number of sessions, and resident bytes.
    steps: Vec<(usize, f64)>,
    opening: Samples,
    /// Seconds of CPU for each session.
    cpu: f64,
    /// Requests to the backend, and new connections, for each session.
    upstream: (f64, f64),
}

impl SessionGrowth {
    fn each(&self, count: usize) -> Option<f64> {
        let (_, memory) = self.steps.iter().find(|(step, _)| *step == count)?;
        Some((memory - self.idle) / count as f64)
    }
}

/// Measures each kind of session, and adds the rows.
pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    let files = process_usage::raise_open_files()?;
    let most = usize::try_from(files.saturating_sub(RESERVED_FILES))?;
    let counts: Vec<usize> = SESSION_COUNTS.into_iter().filter(|crowd| *crowd <= most).collect();
    if counts.len() < SESSION_COUNTS.len() {
        report.note(&format!("at most {files} files may be open here: not more than {most} sessions"));
    }

    let mut testbed = Testbed::new(ANY_LOCAL_PORT).await?;
    progress("sessions: through the bare hyper proxy, for comparison");
    let proxy = RoleProcess::start(Role::Hyper, ANY_LOCAL_PORT, Some(testbed.backend)).await?;
    let endpoint = Endpoint { address: proxy.address, path: "/dual/mcp".to_owned() };
    let bare = grow(&endpoint, proxy.pid()?, &mut testbed.counters, SessionKind::Connected, &counts).await?;
    for kind in [SessionKind::Connected, SessionKind::Sealed, SessionKind::Calling] {
        progress(&format!("sessions: {}", kind.words()));
        // A process for each kind, so that nothing a kind leaves behind is counted or reused by the next.
        let backends = json!([testbed.entry("dual"), testbed.entry("legacy")]);
        testbed.start_vmcp(json!({
            "backends": backends,
            "optimizer": {"embeddings": {"provider": "none"}},
            "server": {"maxConnections": 2 * SESSION_COUNTS.iter().sum::<usize>()},
        }))?;
        testbed.vmcp()?.complete_list(2 * TOOL_COUNT).await?;
        let endpoint = Endpoint { address: testbed.vmcp()?.clients, path: "/mcp".to_owned() };
        let counts = if kind == SessionKind::Calling { &[1, 100, CALLING_SESSIONS][..] } else { &counts };
        let pid = testbed.vmcp()?.pid()?;
        let grown = grow(&endpoint, pid, &mut testbed.counters, kind, counts).await?;
        report_rows(report, kind, &grown, &bare);
    }
    testbed.end().await
}

fn report_rows(report: &mut Report, kind: SessionKind, grown: &SessionGrowth, bare: &SessionGrowth) {
    for (count, memory) in &grown.steps {
        let each = (memory - grown.idle) / *count as f64;
        let mut row = Row {
            what: format!("memory of each of {count} sessions, {}", kind.words()),
            n: *count,
            p50: format_value(each, Unit::Bytes),
            memory: Some(*memory),
            yardstick: "idle process".to_owned(),
            compared: Some((format_value(grown.idle, Unit::Bytes), memory / grown.idle)),
            ..Row::default()
        };
        if kind == SessionKind::Connected
            && let Some(other) = bare.each(*count)
        {
            "a connection at the bare hyper proxy".clone_into(&mut row.yardstick);
            row.compared = Some((format_value(other, Unit::Bytes), each / other));
        }
        if kind != SessionKind::Calling && *count >= 1_000 {
            report.check_target(&row.what, Unit::Bytes, each, 20.0 * KIB);
        }
        report.add(Section::Sessions, row);
    }
    report.add(
        Section::Sessions,
        Row {
            what: format!("opening a session and listing its tools, {}", kind.words()),
            n: grown.opening.len(),
            p50: format_value(grown.opening.p50(), Unit::Seconds),
            p99: format_value(grown.opening.p99(), Unit::Seconds),
            cpu: Some(grown.cpu),
            upstream: Some(grown.upstream),
            yardstick: "the same through the bare hyper proxy, CPU".to_owned(),
            compared: Some((format_value(bare.cpu, Unit::Seconds), grown.cpu / bare.cpu)),
            ..Row::default()
        },
    );
}

/// Opens sessions up to the largest count, and reads memory at each count.
async fn grow(
    endpoint: &Endpoint,
    pid: u32,
    counters: &mut BackendCounters,
    kind: SessionKind,
    counts: &[usize],
) -> Result<SessionGrowth> {
    let mut single = ReplayClient::connect(endpoint, Era::Legacy, 0).await?;
    for _ in 0..WARM_UP_SESSIONS {
        open(&mut single, kind).await?;
    }
    sleep(SETTLE_TIME).await;
    let (idle, counted) = (process_usage::resident(pid)?, counters.read().await?);
    let (mut steps, mut opening, mut crowd) = (Vec::new(), Samples::default(), Vec::new());
    let mut cpu = Duration::ZERO;
    for count in counts {
        let before = process_usage::cpu(pid)?;
        while opening.len() < *count {
            let started = Instant::now();
            if kind == SessionKind::Connected {
                let mut client = ReplayClient::connect(endpoint, Era::Legacy, opening.len() as u64).await?;
                client.request_result(methods::TOOLS_LIST, "{}").await?;
                crowd.push(client);
            } else {
                open(&mut single, kind).await?;
            }
            opening.push(started.elapsed());
        }
        cpu += process_usage::cpu(pid)?.saturating_sub(before);
        sleep(SETTLE_TIME).await;
        steps.push((*count, process_usage::resident(pid)?));
    }
    // The oldest and the newest session must still be served.
    let last = crowd.len().saturating_sub(1);
    for (_, client) in crowd.iter_mut().enumerate().filter(|(at, _)| *at == 0 || *at == last) {
        client.request_result(methods::TOOLS_LIST, "{}").await.context("an old session")?;
    }
    let (n, now) = (opening.len() as f64, counters.read().await?);
    let upstream =
        ((now.requests - counted.requests) as f64 / n, (now.connections - counted.connections) as f64 / n);
    Ok(SessionGrowth { idle, steps, opening, cpu: cpu.as_secs_f64() / n, upstream })
}

/// Opens a session that lists its tools and, if it is of that kind, calls a tool.
async fn open(client: &mut ReplayClient, kind: SessionKind) -> Result<()> {
    client.open_session().await?;
    client.request_result(methods::TOOLS_LIST, "{}").await?;
    if kind == SessionKind::Calling {
        client.request_result(methods::TOOLS_CALL, r#"{"name":"legacy_result_1k","arguments":{}}"#).await?;
    }
    Ok(())
}
