//! Commands for a running server: status, logs, calls, metrics, diagnosis.

pub(super) mod audit;
pub(super) mod doctor;
pub(super) mod follow;
pub(super) mod metrics;
pub(super) mod running;
pub(super) mod sessions;
