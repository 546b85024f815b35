//! Limits on an operation: time, and growth of the process's memory.

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};

/// Most bytes by which one query may raise the peak of the process's memory: 256 MiB. SQLite has no limit of
/// its own for one connection: its heap limit would also end the queries of the caches.
pub(super) const MAX_GROWTH_BYTES: u64 = 256 << 20;

/// Unit of `ru_maxrss`, in bytes.
const PEAK_UNIT: u64 = if cfg!(target_os = "macos") { 1 } else { 1024 };

/// Reason for which a query is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Brake {
    /// Its time is over.
    Time,
    /// It took too much memory.
    Memory,
}

/// End of the time of an operation: of reading its rows, loading them and the query.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    at: Instant,
    /// Time from the start to the end.
    pub(super) timeout: Duration,
}

impl Deadline {
    pub(super) fn after(timeout: Duration) -> Deadline {
        Deadline { at: Instant::now() + timeout, timeout }
    }

    pub(super) fn is_over(self) -> bool {
        Instant::now() >= self.at
    }
}

/// The limits of a query that runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    deadline: Deadline,
    peak: u64,
}

impl Limits {
    pub(super) fn start(deadline: Deadline) -> Limits {
        Limits { deadline, peak: peak() }
    }

    /// Returns the limit that is met.
    pub(super) fn met(&self) -> Option<Brake> {
        if self.deadline.is_over() {
            return Some(Brake::Time);
        }
        (peak() > self.peak.saturating_add(MAX_GROWTH_BYTES)).then_some(Brake::Memory)
    }
}

/// Returns the most bytes that the process has had in memory; 0 if that is unknown.
fn peak() -> u64 {
    let peak = getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| usage.max_rss());
    u64::try_from(peak).unwrap_or_default() * PEAK_UNIT
}
