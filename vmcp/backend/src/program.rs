//! Facts about child processes, whatever transport speaks with them: their last words, their activity, and
//! the guard that ends them with this process.

pub(crate) mod last_words;
mod listening_ports;
pub(crate) mod orphan_guard;
pub(crate) mod program_activity;
