//! Clients that ask as fast as they are answered, through several targets in turns.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::TryStreamExt as _;
use futures::stream::FuturesUnordered;
use vmcp_wire::era::Era;

use crate::client::http_connection::Connection;
use crate::report::{Part, Report, Row, Unit, show};
use crate::roles::backend::Counts;
use crate::samples::Samples;
use crate::testbed::Target;
use crate::testbed::process_usage;

/// The name of the backend itself, and of the proxy that is the yardstick of cost.
pub(crate) const DIRECT: &str = "direct";
pub(crate) const BARE: &str = "bare hyper proxy";
const WARM_UP: Duration = Duration::from_millis(50);

/// What one target did in all its rounds.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    n: usize,
    p50: Samples,
    p99: Samples,
    rate: Samples,
    cpu: Samples,
    memory: Option<f64>,
    upstream: (f64, f64),
}

/// A way to the backend, for clients of one era.
pub(crate) struct Lane<'a, A> {
    pub(crate) target: &'a Target,
    pub(crate) era: Era,
    pub(crate) clients: Vec<A>,
    pub(crate) tally: Tally,
}

/// By which figure two lanes are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    P50,
    Cpu,
}

/// How often, and for how long.
pub(crate) type Rounds = (usize, Duration);

impl<'a, A: Ask> Lane<'a, A> {
    pub(crate) fn new(target: &'a Target, era: Era, clients: Vec<A>) -> Lane<'a, A> {
        Lane { target, era, clients, tally: Tally::default() }
    }

    fn figure(&self, by: By) -> f64 {
        match by {
            By::P50 => self.tally.p50.p50(),
            By::Cpu => self.tally.cpu.p50(),
        }
    }
}

/// Lets the lanes ask in turns, round after round, so that what else the machine does befalls all alike.
pub(crate) async fn in_turns<A: Ask>(
    lanes: &mut [Lane<'_, A>],
    (rounds, time): Rounds,
    counters: &mut Counters,
) -> Result<()> {
    for lane in &mut *lanes {
        let about = || format!("{}, {} client", lane.target.name, lane.era.as_str());
        Tally::default().round(&mut lane.clients, WARM_UP, None, counters).await.with_context(about)?;
    }
    for _ in 0..rounds {
        for lane in &mut *lanes {
            lane.tally.round(&mut lane.clients, time, lane.target.pid, counters).await?;
        }
        // Whoever comes after the slowest is not always the same.
        lanes.rotate_left(1);
    }
    lanes.sort_by_key(|lane| (lane.era == Era::Modern, lane.target.rank));
    Ok(())
}

/// Rows of what has been measured, each but the first compared with the bare proxy, and that with the backend itself.
/// Returns the ratios.
pub(crate) fn rows<A: Ask>(
    report: &mut Report,
    part: Part,
    lanes: &[Lane<'_, A>],
    what: &str,
    by: By,
) -> Vec<Option<f64>> {
    let mut ratios = Vec::new();
    for lane in lanes {
        let mut row = lane.tally.row(format!("{what}, {}: {}", lane.era.as_str(), lane.target.name));
        // The backend's own CPU time is not asked for; neither is that of a gateway whose process is unknown.
        let (yardstick, by) = match (lane.target.pid, lane.target.name.as_str()) {
            (_, BARE | DIRECT) => (DIRECT, By::P50),
            (None, _) => (BARE, By::P50),
            (Some(_), _) => (BARE, by),
        };
        let peer = |other: &&Lane<'_, A>| other.era == lane.era && other.target.name == yardstick;
        let other = lanes.iter().find(peer).filter(|_| lane.target.name != yardstick);
        if let Some(other) = other {
            let word = if by == By::P50 { "p50" } else { "CPU" };
            row.yardstick = format!("{yardstick}, {word}");
            row.compared = Some((show(other.figure(by), Unit::Seconds), lane.figure(by) / other.figure(by)));
        }
        ratios.push(other.map(|other| lane.figure(by) / other.figure(by)));
        report.add(part, row);
    }
    ratios
}

/// Someone who asks once and checks the answer.
pub(crate) trait Ask {
    /// Asks. What is timed.
    async fn ask(&mut self) -> Result<()>;
}

/// The backend's counters, over a connection of their own.
pub(crate) struct Counters(pub(crate) Connection);

impl Counters {
    pub(crate) async fn read(&mut self) -> Result<Counts> {
        let received = self.0.exchange(b"GET /counts HTTP/1.1\r\nhost: backend\r\n\r\n").await?;
        Ok(serde_json::from_slice(received.body)?)
    }
}

impl Tally {
    /// Lets the clients ask for so long, all at once. `gateway` is the process between them and the backend.
    async fn round<A: Ask>(
        &mut self,
        clients: &mut [A],
        time: Duration,
        gateway: Option<u32>,
        counters: &mut Counters,
    ) -> Result<()> {
        let before = counters.read().await?;
        let cpu = || gateway.map(process_usage::cpu).transpose();
        let (cpu_before, started) = (cpu()?, Instant::now());
        let until = started + time;
        let asking: FuturesUnordered<_> = clients.iter_mut().map(|client| ask_until(client, until)).collect();
        let took: Samples = asking.try_collect::<Vec<_>>().await?.into_iter().flatten().collect();
        let elapsed = started.elapsed();
        let cpu_after = cpu()?;
        let after = counters.read().await?;
        let n = took.len() as f64;
        self.n += took.len();
        let [p50, p99] = took.quantiles([0.5, 0.99]);
        self.p50.extend([p50]);
        self.p99.extend([p99]);
        self.rate.extend([n / elapsed.as_secs_f64()]);
        self.cpu.extend(
            cpu_after.zip(cpu_before).map(|(after, before)| after.saturating_sub(before).as_secs_f64() / n),
        );
        self.memory = gateway.map(process_usage::resident).transpose()?;
        self.upstream.0 += (after.requests - before.requests) as f64;
        self.upstream.1 += (after.connections - before.connections) as f64;
        Ok(())
    }

    /// The row without a comparison.
    fn row(&self, what: String) -> Row {
        let n = self.n as f64;
        Row {
            what,
            n: self.n,
            p50: show(self.p50.p50(), Unit::Seconds),
            p99: show(self.p99.p50(), Unit::Seconds),
            rate: Some(self.rate.p50()),
            cpu: (self.cpu.len() > 0).then(|| self.cpu.p50()),
            memory: self.memory,
            upstream: Some((self.upstream.0 / n, self.upstream.1 / n)),
            ..Row::default()
        }
    }

    /// Requests to the backend for each that was asked.
    pub(crate) fn upstream(&self) -> f64 {
        self.upstream.0 / self.n as f64
    }
}

async fn ask_until(client: &mut impl Ask, until: Instant) -> Result<Vec<f64>> {
    let mut took = Vec::new();
    let mut before = Instant::now();
    while before < until || took.is_empty() {
        client.ask().await.context("asking")?;
        let after = Instant::now();
        took.push((after - before).as_secs_f64());
        before = after;
    }
    Ok(took)
}
