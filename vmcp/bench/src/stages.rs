//! Stages of the benchmark, one module each; `make bench STAGES="…"` chooses from them.

pub(crate) mod allocations;
pub(crate) mod attacks;
pub(crate) mod calls;
pub(crate) mod catalog;
pub(crate) mod change_storm;
pub(crate) mod embedding;
pub(crate) mod find_tool;
pub(crate) mod lists;
pub(crate) mod memory;
pub(crate) mod policies;
pub(crate) mod sessions;
pub(crate) mod start;
pub(crate) mod streaming;
