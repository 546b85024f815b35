//! The life of the server of a configuration file: `vmcp start`, `stop`, `restart` and `status`, which are
//! also the tools of `vmcp mcp-server`. One start, stop or restart runs at a time ([`StartLock`]).
//!
//! [`StartLock`]: crate::cli::running_server::start_lock::StartLock

pub(super) mod background;
mod process_end;
mod report;
pub(super) mod restart;
mod restart_backend;
pub(super) mod start;
pub(super) mod status;
pub(super) mod stop;
