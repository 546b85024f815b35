//! What stands around the gateway: a backend that answers from memory, two bare proxies to compare with, each a process
//! of its own (this program started again with `--role`), and clients that cost little.

pub(crate) mod answer;
pub(crate) mod backend;
pub(crate) mod caller;
pub(crate) mod connection;
pub(crate) mod process;
pub(crate) mod proxy;
pub(crate) mod served;
pub(crate) mod usage;

use std::net::SocketAddr;

use anyhow::Result;
use clap::ValueEnum;

/// What this program is when it is no benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// The backend.
    Backend,
    /// A reverse proxy of axum and reqwest.
    Axum,
    /// A reverse proxy of hyper and hyper-util.
    Hyper,
}

/// Plays a role until killed. A proxy forwards to `upstream`.
pub(crate) fn play(role: Role, listen: SocketAddr, upstream: Option<SocketAddr>) -> Result<()> {
    match (role, upstream) {
        (Role::Backend, _) => backend::run(listen),
        (Role::Axum, Some(upstream)) => proxy::axum(listen, upstream),
        (Role::Hyper, Some(upstream)) => proxy::hyper(listen, upstream),
        (Role::Axum | Role::Hyper, None) => anyhow::bail!("--upstream is missing"),
    }
}
