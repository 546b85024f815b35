//! The pause before attempt n + 1 (GOB-18): 1, 2, 4, 8, 16 times the first one and no longer, each up to a tenth longer
//! by chance, so that many gateways do not return to a restarted server at the same moment.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// `failures` so far, at least one.
pub(crate) fn delay(first: Duration, failures: u32) -> Duration {
    (first * factor(failures)).mul_f64(1.0 + 0.1 * chance())
}

fn factor(failures: u32) -> u32 {
    1 << failures.saturating_sub(1).min(4)
}

/// Uniform in 0..1. Good enough to spread attempts, and needs no crate.
fn chance() -> f64 {
    RandomState::new().hash_one(0) as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_cap() {
        let factors: Vec<u32> = (1..=7).map(factor).collect();
        assert_eq!(factors, [1, 2, 4, 8, 16, 16, 16]);
    }

    #[test]
    fn jitter_adds_at_most_a_tenth() {
        for failures in (1..=40).chain([u32::MAX]) {
            let delay = delay(Duration::from_secs(1), failures).as_secs_f64() / f64::from(factor(failures));
            assert!((1.0..=1.1).contains(&delay), "{delay:?}");
        }
    }
}
