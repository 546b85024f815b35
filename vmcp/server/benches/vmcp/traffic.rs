//! Clients that ask as fast as they are answered, through several targets in turns.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::TryStreamExt as _;
use futures::stream::FuturesUnordered;

use crate::samples::Samples;
use crate::stand::backend::Counts;
use crate::stand::connection::Connection;
use crate::stand::usage;
use crate::table::{Row, Unit, show};

/// What one target did in all its rounds.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) n: usize,
    pub(crate) p50: Samples,
    pub(crate) p99: Samples,
    pub(crate) rate: Samples,
    pub(crate) cpu: Samples,
    memory: Option<f64>,
    upstream: (f64, f64),
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
    pub(crate) async fn round<A: Ask>(
        &mut self,
        clients: &mut [A],
        time: Duration,
        gateway: Option<u32>,
        counters: &mut Counters,
    ) -> Result<()> {
        let before = counters.read().await?;
        let cpu = || gateway.map(usage::cpu).transpose();
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
        self.memory = gateway.map(usage::resident).transpose()?;
        self.upstream.0 += (after.requests - before.requests) as f64;
        self.upstream.1 += (after.connections - before.connections) as f64;
        Ok(())
    }

    /// The row without a comparison.
    pub(crate) fn row(&self, what: String) -> Row {
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
