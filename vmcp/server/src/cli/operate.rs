//! Commands for a running server: logs and their level, calls, runs, metrics, diagnosis, what support needs.

pub(super) mod audit;
pub(super) mod console;
pub(super) mod doctor;
pub(super) mod follow;
mod forwarded_console;
pub(super) mod log_level;
pub(super) mod metrics;
pub(super) mod runs;
pub(super) mod sessions;
pub(super) mod support_bundle;
pub(super) mod top;
pub(super) mod trace;
