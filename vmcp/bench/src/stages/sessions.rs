//! Stages about many sessions at a time.

pub(crate) mod idle_sessions;
pub(crate) mod open_sessions;
