//! This program, started again in a role.

use std::env;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum as _;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

use super::Role;
use crate::built_binaries::counted_binary;
use crate::counted::AllocationReader;

/// Loopback with a free port.
pub(crate) const ANY_LOCAL_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A process in a role; killed when dropped.
pub(crate) struct RoleProcess {
    child: Child,
    /// Address on which it listens.
    pub(crate) address: SocketAddr,
}

impl RoleProcess {
    /// Starts the process and waits until it prints its address.
    pub(crate) async fn start(
        role: Role,
        listen: SocketAddr,
        upstream: Option<SocketAddr>,
    ) -> Result<RoleProcess> {
        RoleProcess::spawn(Command::new(env::current_exe()?), role, listen, upstream).await
    }

    /// Starts a proxy likewise, in a process that serves the counts of its allocations at `counts`.
    pub(crate) async fn start_counted(
        role: Role,
        upstream: SocketAddr,
        counts: SocketAddr,
    ) -> Result<RoleProcess> {
        let mut command = Command::new(counted_binary()?);
        command.envs([AllocationReader::setting(counts)]);
        RoleProcess::spawn(command, role, ANY_LOCAL_PORT, Some(upstream)).await
    }

    async fn spawn(
        mut command: Command,
        role: Role,
        listen: SocketAddr,
        upstream: Option<SocketAddr>,
    ) -> Result<RoleProcess> {
        let name = role.to_possible_value().context("a role")?;
        command.arg("--role").arg(name.get_name()).arg("--listen").arg(listen.to_string());
        if let Some(upstream) = upstream {
            command.arg("--upstream").arg(upstream.to_string());
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("its output")?).lines();
        let Some(address) = lines.next_line().await? else { bail!("the {} ended", name.get_name()) };
        Ok(RoleProcess { child, address: address.parse()? })
    }

    /// Returns the id of the process.
    pub(crate) fn pid(&self) -> Result<u32> {
        self.child.id().context("the process has ended")
    }
}

/// Prints the address of a listener, for the process that started this one.
pub(crate) fn announce(listener: TcpListener) -> Result<TcpListener> {
    announce_address(listener.local_addr()?)?;
    Ok(listener)
}

/// Prints the address on which this process listens.
pub(crate) fn announce_address(address: SocketAddr) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{address}")?)
}
