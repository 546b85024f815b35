//! What stands around the gateway: a backend that answers from memory, two bare proxies to compare with, each a process
//! of its own (this program started again with `--role`), and clients that cost little.

pub(crate) mod backend;
pub(crate) mod prebuilt_body;
pub(crate) mod proxies;
pub(crate) mod role_process;
pub(crate) mod served_content;

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
pub(crate) fn run(role: Role, listen: SocketAddr, upstream: Option<SocketAddr>) -> Result<()> {
    match (role, upstream) {
        (Role::Backend, _) => backend::run(listen),
        (Role::Axum, Some(upstream)) => proxies::axum(listen, upstream),
        (Role::Hyper, Some(upstream)) => proxies::hyper(listen, upstream),
        (Role::Axum | Role::Hyper, None) => anyhow::bail!("--upstream is missing"),
    }
}
