//! Counters of telemetry that reached no collector, and the log lines about it. The counters are of the
//! process, because exporters start before its metrics exist.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::TARGET;

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

    /// Returns the word for its items in log lines.
    fn items(self) -> &'static str {
        match self {
            Self::Traces => "spans",
            Self::Metrics => "metrics",
            Self::Logs => "log lines",
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

/// Availability of the collector to one exporter; a change is logged once.
#[derive(Debug)]
pub(in crate::telemetry) struct CollectorState {
    signal: Signal,
    is_taken: AtomicBool,
}

impl CollectorState {
    /// Begins with a collector that takes exports.
    pub(in crate::telemetry) fn new(signal: Signal) -> CollectorState {
        CollectorState { signal, is_taken: AtomicBool::new(true) }
    }

    /// Notes the outcome of an export; a failed one loses `count` items.
    pub(in crate::telemetry) fn note<E: Display>(&self, exported: &Result<(), E>, count: usize) {
        let was_taken = self.is_taken.swap(exported.is_ok(), Ordering::Relaxed);
        let (items, section) = (self.signal.items(), self.signal.label());
        match exported {
            Err(error) => {
                self.signal.lose(count);
                if was_taken {
                    tracing::warn!(
                        target: TARGET,
                        %error,
                        "{items} are not exported; see telemetry.{section} and telemetry.endpoint"
                    );
                }
            }
            Ok(()) if !was_taken => tracing::info!(target: TARGET, "{items} are exported again"),
            Ok(()) => {}
        }
    }
}
