//! Commands that run servers: vmcp, in front, as a service or shared by clients; a program behind a bridge;
//! one server on trial.

pub(super) mod bridge;
pub(super) mod exec_worker;
pub(super) mod mcp_server;
pub(super) mod serve;
pub(super) mod service;
pub(super) mod try_server;
