//! Facts about child processes, whatever transport speaks with them: their environment, their last words,
//! their activity, the guard that ends them with this process, and the programs behind package runners.

pub(crate) mod environment;
pub(crate) mod last_words;
mod listening_ports;
pub(crate) mod orphan_guard;
pub(crate) mod package_runner;
pub(crate) mod program_activity;
