//! Circuit breaker (GOB-20): after N failures in a row calls fail at once, then a single one is let through to see.
//!
//! A pure state machine; the time is passed in.

use std::time::{Duration, Instant};

pub use vmcp_config::status::BreakerPosition as Position;

/// When the breaker opens and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Failures in a row that open it; 0 switches the breaker off.
    pub failure_threshold: u32,
    /// How long it stays open.
    pub reset_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { failure_threshold: 5, reset_timeout: Duration::from_secs(30) }
    }
}

/// How an admitted call ended, as far as the breaker cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The backend answered; a JSON-RPC error is an answer.
    Healthy,
    /// Transport failure or timeout.
    Failed,
    /// Says nothing about the backend: the caller cancelled.
    Unknown,
}

#[derive(Debug)]
enum Circuit {
    Closed { failures: u32 },
    Open { until: Instant },
    HalfOpen { probing: bool },
}

#[derive(Debug)]
pub(crate) struct Breaker {
    settings: Settings,
    circuit: Circuit,
}

impl Breaker {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, circuit: Circuit::Closed { failures: 0 } }
    }

    /// Lets a call through, whose end must be reported with `record`; or says when to come again.
    pub(crate) fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        match &mut self.circuit {
            Circuit::Closed { .. } => Ok(()),
            Circuit::Open { until } if *until > now => Err(until.duration_since(now)),
            Circuit::Open { .. } => {
                self.circuit = Circuit::HalfOpen { probing: true };
                Ok(())
            }
            // How long the probe takes is unknown; a second is when to look again.
            Circuit::HalfOpen { probing: true } => Err(Duration::from_secs(1)),
            Circuit::HalfOpen { probing } => {
                *probing = true;
                Ok(())
            }
        }
    }

    pub(crate) fn record(&mut self, verdict: Verdict, now: Instant) {
        match (&mut self.circuit, verdict) {
            // A call admitted before the breaker opened ends while it is open: old news.
            (Circuit::Open { .. }, _) | (Circuit::Closed { .. }, Verdict::Unknown) => {}
            (Circuit::HalfOpen { probing }, Verdict::Unknown) => *probing = false,
            (_, Verdict::Healthy) => self.circuit = Circuit::Closed { failures: 0 },
            (Circuit::HalfOpen { .. }, Verdict::Failed) => self.open(now),
            (Circuit::Closed { failures }, Verdict::Failed) => {
                *failures += 1;
                if *failures == self.settings.failure_threshold {
                    self.open(now);
                }
            }
        }
    }

    /// A new connection was made: the next call may try at once.
    pub(crate) fn reconnected(&mut self) {
        if let Circuit::Open { .. } = self.circuit {
            self.circuit = Circuit::HalfOpen { probing: false };
        }
    }

    pub(crate) fn position(&self, now: Instant) -> Position {
        match self.circuit {
            Circuit::Closed { .. } => Position::Closed,
            Circuit::Open { until } if until > now => Position::Open,
            Circuit::Open { .. } | Circuit::HalfOpen { .. } => Position::HalfOpen,
        }
    }

    fn open(&mut self, now: Instant) {
        self.circuit = Circuit::Open { until: now + self.settings.reset_timeout };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn opened(now: Instant) -> Breaker {
        let mut breaker = Breaker::new(Settings::default());
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
        assert_eq!(breaker.position(now + 29 * SECOND), Position::Open);
        assert_eq!(breaker.position(now + 30 * SECOND), Position::HalfOpen);
    }

    #[test]
    fn an_answer_between_failures_starts_the_count_anew() {
        let now = Instant::now();
        let mut breaker = Breaker::new(Settings::default());
        for verdict in [Verdict::Failed; 4].into_iter().chain([Verdict::Healthy]).chain([Verdict::Failed; 4])
        {
            breaker.record(verdict, now);
        }
        assert_eq!(breaker.position(now), Position::Closed);
        breaker.record(Verdict::Failed, now);
        assert_eq!(breaker.position(now), Position::Open);
    }

    #[test]
    fn half_open_lets_one_probe_through_and_its_success_closes() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let later = now + 31 * SECOND;
        assert_eq!(breaker.admit(later), Ok(()));
        assert_eq!(breaker.admit(later), Err(SECOND));
        breaker.record(Verdict::Healthy, later);
        assert_eq!(breaker.position(later), Position::Closed);
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
    fn a_new_connection_may_be_tried_at_once() {
        let now = Instant::now();
        let mut breaker = opened(now);
        breaker.reconnected();
        assert_eq!(breaker.admit(now), Ok(()));
    }

    #[test]
    fn threshold_zero_never_opens() {
        let now = Instant::now();
        let mut breaker = Breaker::new(Settings { failure_threshold: 0, ..Settings::default() });
        (0..100).for_each(|_| breaker.record(Verdict::Failed, now));
        assert_eq!(breaker.position(now), Position::Closed);
    }
}
