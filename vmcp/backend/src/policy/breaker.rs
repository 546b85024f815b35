//! Circuit breaker: after a number of failures in a row calls fail at once, without being sent; after a while
//! a single call, the probe, is let through to see whether the backend has recovered.
//!
//! ```text
//!          failure_threshold failures              reset_timeout, or a new connection
//! closed ─────────────────────────────► open ────────────────────────────────────────► half-open
//!    ▲                                    ▲                                                │
//!    │                                    └───────────────────── the probe fails ──────────┤
//!    └────────────────────────────────────────────────────── the probe is answered ────────┘
//! ```
//!
//! A pure state machine: the caller passes the time in.
//!
//! ```
//! use std::time::{Duration, Instant};
//!
//! use vmcp_backend::breaker::{Breaker, BreakerSettings, Verdict};
//!
//! let now = Instant::now();
//! let mut breaker = Breaker::new(BreakerSettings { failure_threshold: 2, ..BreakerSettings::default() });
//! for _ in 0..2 {
//!     assert_eq!(breaker.admit(now), Ok(()));
//!     breaker.record(Verdict::Failed, now);
//! }
//! assert_eq!(breaker.admit(now), Err(Duration::from_secs(30)), "open: refused, and for how long");
//!
//! let later = now + Duration::from_secs(30);
//! assert_eq!(breaker.admit(later), Ok(()), "half-open: one probe");
//! assert!(breaker.admit(later).is_err(), "and no second one beside it");
//! breaker.record(Verdict::Healthy, later);
//! assert_eq!(breaker.admit(later), Ok(()), "closed again");
//! ```

use std::time::{Duration, Instant};

use vmcp_config::status::BreakerPosition;

/// Time after which a probe without an end lets another call through: a slow tool is no reason to keep out
/// all others.
const PROBE_EXPIRY: Duration = Duration::from_secs(10);

/// Limits of a [`Breaker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Failures in a row that open it; 0 switches the breaker off.
    pub failure_threshold: u32,
    /// Time it stays open before a probe is let through.
    pub reset_timeout: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failure_threshold: 5, reset_timeout: Duration::from_secs(30) }
    }
}

/// The end of an admitted call, as far as the breaker is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The backend answered; a JSON-RPC error is an answer.
    Healthy,
    /// The backend could not be reached, died, said that it is broken, or was silent for its own deadline.
    Failed,
    /// Says nothing about the backend, such as a call that its caller cancelled, or a refused request.
    Unknown,
}

#[derive(Debug)]
enum Circuit {
    Closed { failures: u32 },
    Open { until: Instant },
    HalfOpen { probe: Option<Instant> },
}

/// The breaker of one backend.
#[derive(Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    circuit: Circuit,
}

impl Breaker {
    /// A closed breaker.
    #[must_use]
    pub fn new(settings: BreakerSettings) -> Self {
        Self { settings, circuit: Circuit::Closed { failures: 0 } }
    }

    /// Takes other limits. A circuit that is open stays so for the time that it had; without a threshold it
    /// closes.
    pub fn reconfigure(&mut self, settings: BreakerSettings) {
        self.settings = settings;
        let is_due = |failures| settings.failure_threshold > 0 && failures >= settings.failure_threshold;
        match self.circuit {
            _ if settings.failure_threshold == 0 => self.circuit = Circuit::Closed { failures: 0 },
            // The next failure opens it: equality counts.
            Circuit::Closed { failures } if is_due(failures) => {
                self.circuit = Circuit::Closed { failures: settings.failure_threshold - 1 };
            }
            Circuit::Closed { .. } | Circuit::Open { .. } | Circuit::HalfOpen { .. } => {}
        }
    }

    /// Admits a call, whose end must be reported with [`Breaker::record`].
    ///
    /// # Errors
    ///
    /// The time after which to try again, if the breaker is open or its probe is under way.
    pub fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        match &mut self.circuit {
            Circuit::Closed { .. } => Ok(()),
            Circuit::Open { until } if *until > now => Err(until.duration_since(now)),
            Circuit::Open { .. } => {
                self.circuit = Circuit::HalfOpen { probe: Some(now) };
                Ok(())
            }
            // The probe's end is unknown; a second is a guess at when to look again.
            Circuit::HalfOpen { probe: Some(since) } if now.duration_since(*since) < PROBE_EXPIRY => {
                Err(Duration::from_secs(1))
            }
            Circuit::HalfOpen { probe } => {
                *probe = Some(now);
                Ok(())
            }
        }
    }

    /// Records the end of an admitted call.
    pub fn record(&mut self, verdict: Verdict, now: Instant) {
        match (&mut self.circuit, verdict) {
            // A call admitted before the breaker opened ends while it is open: old news, even if it was
            // answered.
            (Circuit::Open { .. }, _) | (Circuit::Closed { .. }, Verdict::Unknown) => {}
            // A cancelled probe has told nothing: the next call probes.
            (Circuit::HalfOpen { probe }, Verdict::Unknown) => *probe = None,
            (_, Verdict::Healthy) => self.circuit = Circuit::Closed { failures: 0 },
            (Circuit::HalfOpen { .. }, Verdict::Failed) => self.open(now),
            (Circuit::Closed { failures }, Verdict::Failed) => {
                *failures += 1;
                // Equality, not `>=`: a threshold of 0 is never met.
                if *failures == self.settings.failure_threshold {
                    self.open(now);
                }
            }
        }
    }

    /// Lets the next call probe at once: a new connection was made, so the backend is not what it was.
    pub fn reconnected(&mut self) {
        if let Circuit::Open { .. } = self.circuit {
            self.circuit = Circuit::HalfOpen { probe: None };
        }
    }

    /// The position for `/admin/status`.
    #[must_use]
    pub fn position(&self, now: Instant) -> BreakerPosition {
        match self.circuit {
            Circuit::Closed { .. } => BreakerPosition::Closed,
            Circuit::Open { until } if until > now => BreakerPosition::Open,
            Circuit::Open { .. } | Circuit::HalfOpen { .. } => BreakerPosition::HalfOpen,
        }
    }

    fn open(&mut self, now: Instant) {
        self.circuit = Circuit::Open { until: now + self.settings.reset_timeout };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_change_in_place() {
        let now = Instant::now();
        let limits = |failure_threshold| BreakerSettings { failure_threshold, ..BreakerSettings::default() };
        let mut breaker = Breaker::new(limits(5));
        for _ in 0..4 {
            breaker.record(Verdict::Failed, now);
        }
        breaker.reconfigure(limits(2));
        assert_eq!(breaker.admit(now), Ok(()), "still closed");
        breaker.record(Verdict::Failed, now);
        assert!(breaker.admit(now).is_err(), "and open at the next failure");
        breaker.reconfigure(limits(0));
        assert_eq!(breaker.admit(now), Ok(()), "switched off");
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn opened(now: Instant) -> Breaker {
        let mut breaker = Breaker::new(BreakerSettings::default());
        for _ in 0..5 {
            breaker.admit(now).unwrap();
            breaker.record(Verdict::Failed, now);
        }
        breaker
    }

    #[test]
    fn opens_after_five_failures_in_a_row_and_says_for_how_long() {
        let now = Instant::now();
        let mut breaker = opened(now);
        assert_eq!(breaker.admit(now + 10 * SECOND), Err(20 * SECOND));
        assert_eq!(breaker.position(now + 29 * SECOND), BreakerPosition::Open);
        assert_eq!(breaker.position(now + 30 * SECOND), BreakerPosition::HalfOpen);
    }

    #[test]
    fn an_answer_between_failures_starts_the_count_anew() {
        let now = Instant::now();
        let mut breaker = Breaker::new(BreakerSettings::default());
        for verdict in [Verdict::Failed; 4].into_iter().chain([Verdict::Healthy]).chain([Verdict::Failed; 4])
        {
            breaker.record(verdict, now);
        }
        assert_eq!(breaker.position(now), BreakerPosition::Closed);
        breaker.record(Verdict::Failed, now);
        assert_eq!(breaker.position(now), BreakerPosition::Open);
    }

    #[test]
    fn half_open_lets_one_probe_through_and_its_success_closes() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let later = now + 31 * SECOND;
        assert_eq!(breaker.admit(later), Ok(()));
        assert_eq!(breaker.admit(later), Err(SECOND));
        breaker.record(Verdict::Healthy, later);
        assert_eq!(breaker.position(later), BreakerPosition::Closed);
    }

    #[test]
    fn a_failed_probe_opens_for_the_whole_time_again() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let later = now + 31 * SECOND;
        breaker.admit(later).unwrap();
        breaker.record(Verdict::Failed, later);
        assert_eq!(breaker.admit(later + 29 * SECOND), Err(SECOND));
    }

    #[test]
    fn a_cancelled_probe_lets_the_next_call_probe() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let later = now + 31 * SECOND;
        breaker.admit(later).unwrap();
        breaker.record(Verdict::Unknown, later);
        assert_eq!(breaker.admit(later), Ok(()));
    }

    #[test]
    fn a_probe_that_does_not_end_lets_another_through() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let later = now + 31 * SECOND;
        breaker.admit(later).unwrap();
        assert_eq!(breaker.admit(later + 9 * SECOND), Err(SECOND));
        assert_eq!(breaker.admit(later + 10 * SECOND), Ok(()));
        assert_eq!(breaker.admit(later + 11 * SECOND), Err(SECOND), "one at a time");
        breaker.record(Verdict::Healthy, later + 12 * SECOND);
        assert_eq!(breaker.position(later + 12 * SECOND), BreakerPosition::Closed);
    }

    #[test]
    fn a_new_connection_may_be_tried_at_once() {
        let now = Instant::now();
        let mut breaker = opened(now);
        breaker.reconnected();
        assert_eq!(breaker.admit(now), Ok(()));
    }

    #[test]
    fn threshold_zero_never_opens() {
        let now = Instant::now();
        let mut breaker =
            Breaker::new(BreakerSettings { failure_threshold: 0, ..BreakerSettings::default() });
        (0..100).for_each(|_| breaker.record(Verdict::Failed, now));
        assert_eq!(breaker.position(now), BreakerPosition::Closed);
    }
}
