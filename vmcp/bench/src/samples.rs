//! Repeated measurements: quantiles, and two operations measured in turns.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;

/// Measured values of one quantity: seconds or bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// Adds a duration.
    pub(crate) fn push(&mut self, took: Duration) {
        self.0.push(took.as_secs_f64());
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the sum of the values.
    pub(crate) fn sum(&self) -> f64 {
        self.0.iter().sum()
    }

    /// Returns the median of the ratios of values that were measured in the same turns.
    pub(crate) fn paired_ratio(&self, other: &Samples) -> f64 {
        self.0.iter().zip(&other.0).map(|(own, other)| own / other).collect::<Samples>().p50()
    }

    /// Returns the median.
    pub(crate) fn p50(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Returns the 99th percentile; of fewer than 100 values, the largest.
    pub(crate) fn p99(&self) -> f64 {
        self.quantile(0.99)
    }

    /// Returns a quantile by nearest rank: the smallest value that this share of values does not exceed.
    fn quantile(&self, share: f64) -> f64 {
        let [quantile] = self.quantiles([share]);
        quantile
    }

    /// Returns several quantiles, sorting once.
    pub(crate) fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [f64; N] {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        shares.map(|share| {
            let rank = (share * sorted.len() as f64).ceil() as usize;
            sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
        })
    }
}

impl Extend<f64> for Samples {
    fn extend<I: IntoIterator<Item = f64>>(&mut self, values: I) {
        self.0.extend(values);
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Samples {
        Samples(values.into_iter().collect())
    }
}

/// Measures two operations in turns, so that a machine whose speed drifts affects both alike. Each gets the
/// number of the repetition. The first turn warms up and is not counted.
pub(crate) async fn interleaved<A, B>(
    runs: usize,
    one: impl AsyncFnMut(usize) -> Result<A>,
    other: impl AsyncFnMut(usize) -> Result<B>,
) -> Result<(Samples, Samples)> {
    interleaved_after(Duration::ZERO, runs, one, other).await
}

/// Measures two operations in turns as [`interleaved`] does, each turn after a pause that is not counted.
pub(crate) async fn interleaved_after<A, B>(
    pause: Duration,
    runs: usize,
    mut one: impl AsyncFnMut(usize) -> Result<A>,
    mut other: impl AsyncFnMut(usize) -> Result<B>,
) -> Result<(Samples, Samples)> {
    let (mut of_one, mut of_other) = (Samples::default(), Samples::default());
    for run in 0..=runs {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let first = timed(&mut one, run).await?;
        let second = timed(&mut other, run).await?;
        if run > 0 {
            of_one.push(first);
            of_other.push(second);
        }
    }
    Ok((of_one, of_other))
}

/// Times one run. Dropping its result is not part of the time.
async fn timed<T>(work: &mut impl AsyncFnMut(usize) -> Result<T>, run: usize) -> Result<Duration> {
    let started = Instant::now();
    let result = black_box(work(run).await?);
    let took = started.elapsed();
    drop(result);
    Ok(took)
}
