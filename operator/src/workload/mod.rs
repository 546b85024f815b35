//! What the workloads have in common, whatever runs in them.

pub mod health;
pub mod trouble;
