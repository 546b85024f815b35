//! Repeated measurements, taken in turns.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Result;

/// Values of one quantity: seconds or bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// Adds a duration.
    pub(crate) fn push(&mut self, took: Duration) {
        self.0.push(took.as_secs_f64());
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them together.
    pub(crate) fn sum(&self) -> f64 {
        self.0.iter().sum()
    }

    /// The median.
    pub(crate) fn p50(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The value that 99 of 100 do not exceed; of fewer than 100, the largest.
    pub(crate) fn p99(&self) -> f64 {
        self.quantile(0.99)
    }

    /// The nearest rank: the smallest value that so large a share does not exceed.
    fn quantile(&self, share: f64) -> f64 {
        let [quantile] = self.quantiles([share]);
        quantile
    }

    /// Several of them.
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

/// Runs one and the other in turns, so that what else the machine does befalls both alike. Each gets the number of the
/// repetition. The first turn of each is not counted.
pub(crate) async fn interleaved<A, B>(
    runs: usize,
    mut one: impl AsyncFnMut(usize) -> Result<A>,
    mut other: impl AsyncFnMut(usize) -> Result<B>,
) -> Result<(Samples, Samples)> {
    let (mut of_one, mut of_other) = (Samples::default(), Samples::default());
    for run in 0..=runs {
        let first = timed(&mut one, run).await?;
        let second = timed(&mut other, run).await?;
        if run > 0 {
            of_one.push(first);
            of_other.push(second);
        }
    }
    Ok((of_one, of_other))
}

/// How long one run takes; dropping its result does not count.
async fn timed<T>(work: &mut impl AsyncFnMut(usize) -> Result<T>, run: usize) -> Result<Duration> {
    let started = Instant::now();
    let result = black_box(work(run).await?);
    let took = started.elapsed();
    drop(result);
    Ok(took)
}
