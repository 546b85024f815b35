//! Limits on a running query: time, and growth of the process's memory.

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

/// The limits of a query that runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    deadline: Instant,
    peak: u64,
}

impl Limits {
    pub(super) fn start(timeout: Duration) -> Limits {
        Limits { deadline: Instant::now() + timeout, peak: peak() }
    }

    /// Returns the limit that is met.
    pub(super) fn met(&self) -> Option<Brake> {
        if Instant::now() >= self.deadline {
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
