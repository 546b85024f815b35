//! Roles in which this program starts itself again (`--role`): the backend, and three bare proxies that vmcp
//! is compared with. Each is a process of its own, so that its CPU time can be measured.

pub(crate) mod backend;
pub(crate) mod per_core_proxy;
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
    /// Reverse proxy of hyper and hyper-util's pooled client.
    Hyper,
    /// Reverse proxy of hyper, one thread a core.
    PerCore,
}

/// Runs a role until killed. A proxy forwards to `upstream`.
pub(crate) fn run(role: Role, listen: SocketAddr, upstream: Option<SocketAddr>) -> Result<()> {
    match (role, upstream) {
        (Role::Backend, _) => backend::run(listen),
        (Role::Axum, Some(upstream)) => proxies::axum(listen, upstream),
        (Role::Hyper, Some(upstream)) => proxies::hyper(listen, upstream),
        (Role::PerCore, Some(upstream)) => per_core_proxy::run(listen, upstream),
        (Role::Axum | Role::Hyper | Role::PerCore, None) => anyhow::bail!("--upstream is missing"),
    }
}
