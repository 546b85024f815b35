//! Exponential backoff with jitter: the pause before the next attempt is 1, 2, 4, 8, then always 16 times the
//! first one, each longer by a random part of at most a tenth, so that many gateways do not return to a
//! restarted server at the same moment.
//!
//! ```
//! use std::time::Duration;
//!
//! use vmcp_backend::backoff;
//!
//! let third = backoff::delay(Duration::from_secs(1), 3);
//! assert!((Duration::from_secs(4)..=Duration::from_millis(4400)).contains(&third));
//! let hundredth = backoff::delay(Duration::from_secs(1), 100);
//! assert!((Duration::from_secs(16)..=Duration::from_millis(17_600)).contains(&hundredth));
//! ```

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The pause after `failures` failures in a row (at least one), of which the first is followed by `first`.
#[must_use]
pub fn delay(first: Duration, failures: u32) -> Duration {
    (first * factor(failures)).mul_f64(1.0 + 0.1 * random())
}

/// The pause after `failures` failures in a row, doubled with each up to `most`.
pub(crate) fn delay_up_to(first: Duration, failures: u32, most: Duration) -> Duration {
    let doubled = first.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(most).mul_f64(1.0 + 0.1 * random())
}

fn factor(failures: u32) -> u32 {
    1 << failures.saturating_sub(1).min(4)
}

/// A number in 0..1: each `RandomState` has a key of its own. Good enough to spread attempts, and needs no
/// crate.
fn random() -> f64 {
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
