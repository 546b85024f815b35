//! The pause before attempt n + 1 (GOB-18): 1, 2, 4, 8, 16 s and no longer, each up to a tenth longer by chance, so
//! that many gateways do not return to a restarted server at the same moment.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const CAP: Duration = Duration::from_secs(16);

/// `failures` so far, at least one.
pub(crate) fn delay(failures: u32) -> Duration {
    base(failures).mul_f64(1.0 + 0.1 * chance())
}

fn base(failures: u32) -> Duration {
    Duration::from_secs(1u64 << failures.saturating_sub(1).min(4)).min(CAP)
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
        let seconds: Vec<u64> = (1..=7).map(|n| base(n).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 16, 16]);
    }

    #[test]
    fn jitter_adds_at_most_a_tenth() {
        for failures in (1..=40).chain([u32::MAX]) {
            let (base, delay) = (base(failures), delay(failures));
            assert!(delay >= base && delay <= base.mul_f64(1.1), "{delay:?}");
        }
    }
}
