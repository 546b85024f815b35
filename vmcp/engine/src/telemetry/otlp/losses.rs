//! Counters of telemetry that reached no collector. They are of the process, because exporters start before
//! its metrics exist.

use std::sync::atomic::{AtomicU64, Ordering};

/// Signals of OpenTelemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Metrics.
    Metrics,
    /// Log records.
    Logs,
}

/// All signals, in the order of the counters.
pub const SIGNALS: [Signal; 3] = [Signal::Traces, Signal::Metrics, Signal::Logs];

static LOST: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

impl Signal {
    /// Returns the label `signal`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }

    /// Returns the number of spans or log records that were lost, or of exports of metrics that failed.
    pub fn lost(self) -> u64 {
        self.counter().load(Ordering::Relaxed)
    }

    /// Counts losses.
    pub(in crate::telemetry) fn lose(self, count: usize) {
        self.counter().fetch_add(count as u64, Ordering::Relaxed);
    }

    fn counter(self) -> &'static AtomicU64 {
        let [traces, metrics, logs] = &LOST;
        match self {
            Self::Traces => traces,
            Self::Metrics => metrics,
            Self::Logs => logs,
        }
    }
}
