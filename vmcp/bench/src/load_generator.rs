//! Load generator: clients that send the next request as soon as the last is answered (closed loop), at
//! several targets in turns.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::TryStreamExt as _;
use futures::stream::FuturesUnordered;
use vmcp_wire::era::Era;

use crate::report::{Report, Row, Section, Unit, format_value};
use crate::samples::Samples;
use crate::testbed::backend_counters::BackendCounters;
use crate::testbed::process_usage;
use crate::testbed::target::{BARE_PROXY, DIRECT, PER_CORE_PROXY, Target};

const WARM_UP: Duration = Duration::from_millis(50);

/// Measurements of one target over all its rounds.
#[derive(Debug, Default)]
pub(crate) struct LoadSamples {
    n: usize,
    p50: Samples,
    p99: Samples,
    rate: Samples,
    cpu: Samples,
    sleeps: Samples,
    memory: Option<f64>,
    upstream: (f64, f64),
}

/// The load on one target by clients of one era.
pub(crate) struct TargetLoad<'a, A> {
    pub(crate) target: &'a Target,
    pub(crate) era: Era,
    pub(crate) clients: Vec<A>,
    pub(crate) samples: LoadSamples,
}

/// Figure by which two loads are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ComparedFigure {
    P50,
    Cpu,
}

/// Number of rounds, and time of each.
pub(crate) type Rounds = (usize, Duration);

impl<'a, A: Workload> TargetLoad<'a, A> {
    pub(crate) fn new(target: &'a Target, era: Era, clients: Vec<A>) -> TargetLoad<'a, A> {
        TargetLoad { target, era, clients, samples: LoadSamples::default() }
    }

    /// Returns the median of a figure.
    pub(crate) fn figure(&self, by: ComparedFigure) -> f64 {
        match by {
            ComparedFigure::P50 => self.samples.p50.p50(),
            ComparedFigure::Cpu => self.samples.cpu.p50(),
        }
    }

    /// Returns the CPU of a call as a multiple of that of another load, the median of the rounds.
    pub(crate) fn cpu_ratio(&self, other: &Self) -> f64 {
        self.samples.cpu.paired_ratio(&other.samples.cpu)
    }
}

/// Runs the loads in turns, round after round, so that a machine whose speed drifts affects all alike. A
/// warm-up of 50 ms comes first and is not counted.
pub(crate) async fn run_interleaved<A: Workload>(
    loads: &mut [TargetLoad<'_, A>],
    (rounds, time): Rounds,
    counters: &mut BackendCounters,
) -> Result<()> {
    for load in &mut *loads {
        let about = || format!("{}, {} client", load.target.name, load.era.as_str());
        LoadSamples::default().round(&mut load.clients, WARM_UP, None, counters).await.with_context(about)?;
    }
    for _ in 0..rounds {
        for load in &mut *loads {
            load.samples.round(&mut load.clients, time, load.target.pid, counters).await?;
        }
        // Rotated, so that no load always runs after the slowest.
        loads.rotate_left(1);
    }
    loads.sort_by_key(|load| (load.era == Era::Modern, load.target.rank));
    Ok(())
}

/// Ratios of a load to the two floors; `None` where a floor was not measured, and for the floors themselves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ratios {
    /// Ratio to the pooled bare proxy.
    pub(crate) pooled: Option<f64>,
    /// Ratio to the bare proxy of one thread a core.
    pub(crate) per_core: Option<f64>,
}

/// Adds one row for each load. The bare proxies are compared with the backend itself, all other targets with
/// the bare proxies. Returns the ratios, in the order of the loads.
pub(crate) fn report_rows<A: Workload>(
    report: &mut Report,
    section: Section,
    loads: &[TargetLoad<'_, A>],
    what: &str,
    by: ComparedFigure,
) -> Vec<Ratios> {
    let mut ratios = Vec::new();
    for load in loads {
        let mut row = load.samples.to_row(format!("{what}, {}: {}", load.era.as_str(), load.target.name));
        let name = load.target.name.as_str();
        // CPU time of the backend, and of a gateway whose process is unknown, is not measured; p50 is
        // compared instead.
        let by = if load.target.pid.is_none() { ComparedFigure::P50 } else { by };
        let compare = |peer: &str, by: ComparedFigure| {
            let is_peer = |other: &&TargetLoad<'_, A>| other.era == load.era && other.target.name == peer;
            let other = loads.iter().find(is_peer).filter(|_| name != peer)?.figure(by);
            Some((format_value(other, Unit::Seconds), load.figure(by) / other))
        };
        if [DIRECT, BARE_PROXY].contains(&name) {
            row.compared = compare(DIRECT, ComparedFigure::P50);
            row.yardstick = row.compared.as_ref().map(|_| format!("{DIRECT}, p50")).unwrap_or_default();
        } else {
            row.compared = compare(BARE_PROXY, by);
            row.yardstick =
                row.compared.as_ref().map(|_| format!("{BARE_PROXY}, {}", by.word())).unwrap_or_default();
        }
        if name != DIRECT {
            row.per_core = compare(PER_CORE_PROXY, by);
        }
        let ratio = |compared: &Option<(String, f64)>| compared.as_ref().map(|(_, ratio)| *ratio);
        ratios.push(Ratios { pooled: ratio(&row.compared), per_core: ratio(&row.per_core) });
        report.add(section, row);
    }
    ratios
}

impl ComparedFigure {
    /// Word of the figure in tables and targets.
    pub(crate) fn word(self) -> &'static str {
        match self {
            ComparedFigure::P50 => "p50",
            ComparedFigure::Cpu => "CPU",
        }
    }
}

/// Work that a client repeats, with a check of the answer.
pub(crate) trait Workload {
    /// Sends one request and checks the answer; this is what is timed.
    async fn run_once(&mut self) -> Result<()>;
}

impl LoadSamples {
    /// Runs all clients at once for `time`. `gateway` is the process between them and the backend.
    async fn round<A: Workload>(
        &mut self,
        clients: &mut [A],
        time: Duration,
        gateway: Option<u32>,
        counters: &mut BackendCounters,
    ) -> Result<()> {
        let before = counters.read().await?;
        let cpu = || gateway.map(process_usage::cpu).transpose();
        let sleeps = || gateway.map(process_usage::sleeps).transpose();
        let sleeps_before = sleeps()?;
        let (cpu_before, started) = (cpu()?, Instant::now());
        let until = started + time;
        let asking: FuturesUnordered<_> = clients.iter_mut().map(|client| run_until(client, until)).collect();
        let took: Samples = asking.try_collect::<Vec<_>>().await?.into_iter().flatten().collect();
        let elapsed = started.elapsed();
        let cpu_after = cpu()?;
        let sleeps_after = sleeps()?;
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
        self.sleeps.extend(
            sleeps_after.zip(sleeps_before).map(|(after, before)| after.saturating_sub(before) as f64 / n),
        );
        self.memory = gateway.map(process_usage::resident).transpose()?;
        self.upstream.0 += (after.requests - before.requests) as f64;
        self.upstream.1 += (after.connections - before.connections) as f64;
        Ok(())
    }

    /// Returns the row without a comparison: medians over the rounds.
    fn to_row(&self, what: String) -> Row {
        let n = self.n as f64;
        Row {
            what,
            n: self.n,
            p50: format_value(self.p50.p50(), Unit::Seconds),
            p99: format_value(self.p99.p50(), Unit::Seconds),
            rate: Some(self.rate.p50()),
            cpu: (self.cpu.len() > 0).then(|| self.cpu.p50()),
            sleeps: (self.sleeps.len() > 0).then(|| self.sleeps.p50()),
            memory: self.memory,
            upstream: Some((self.upstream.0 / n, self.upstream.1 / n)),
            ..Row::default()
        }
    }

    /// Returns the number of measured requests.
    pub(crate) fn count(&self) -> usize {
        self.n
    }

    /// Returns the requests that reached the backend for each request of a client.
    pub(crate) fn upstream(&self) -> f64 {
        self.upstream.0 / self.n as f64
    }
}

async fn run_until(client: &mut impl Workload, until: Instant) -> Result<Vec<f64>> {
    let mut took = Vec::new();
    let mut before = Instant::now();
    while before < until || took.is_empty() {
        client.run_once().await.context("asking")?;
        let after = Instant::now();
        took.push((after - before).as_secs_f64());
        before = after;
    }
    Ok(took)
}
