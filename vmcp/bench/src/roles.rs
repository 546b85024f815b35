//! Roles in which this program starts itself again (`--role`): the backend, and two bare proxies that vmcp is
//! compared with. Each is a process of its own, so that its CPU time can be measured.

pub(crate) mod backend;
pub(crate) mod prebuilt_body;
pub(crate) mod proxies;
pub(crate) mod role_process;
pub(crate) mod served_content;

use std::net::SocketAddr;

use anyhow::Result;
use clap::ValueEnum;

/// Role of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// MCP servers that answer from memory.
    Backend,
    /// Reverse proxy of axum and reqwest.
    Axum,
    /// Reverse proxy of hyper and hyper-util.
    Hyper,
}

/// Runs a role until killed. A proxy forwards to `upstream`.
pub(crate) fn run(role: Role, listen: SocketAddr, upstream: Option<SocketAddr>) -> Result<()> {
    match (role, upstream) {
        (Role::Backend, _) => backend::run(listen),
        (Role::Axum, Some(upstream)) => proxies::axum(listen, upstream),
        (Role::Hyper, Some(upstream)) => proxies::hyper(listen, upstream),
        (Role::Axum | Role::Hyper, None) => anyhow::bail!("--upstream is missing"),
    }
}
