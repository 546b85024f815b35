//! Commands for a running server: logs, calls, runs, metrics, diagnosis.

pub(super) mod audit;
pub(super) mod doctor;
pub(super) mod follow;
pub(super) mod metrics;
pub(super) mod runs;
pub(super) mod sessions;
