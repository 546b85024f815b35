//! The life of a server: `vmcp start`, `stop`, `restart` and `status`, which are also the tools of
//! `vmcp mcp-server`, and `vmcp update`, for the programs of backends. Two drivers: the process of a
//! configuration file, of which one start, stop or restart runs at a time ([`StartLock`]), and [`cluster`], a
//! VirtualMCPServer.
//!
//! [`StartLock`]: crate::cli::running_server::start_lock::StartLock

pub(super) mod background;
mod cluster;
pub(super) mod process_end;
mod report;
pub(super) mod restart;
mod restart_backend;
pub(super) mod start;
pub(super) mod status;
pub(super) mod stop;
pub(super) mod update;
