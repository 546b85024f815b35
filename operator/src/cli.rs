//! The command line.

use std::io::Write as _;
use std::net::SocketAddr;

use clap::{Parser, Subcommand, ValueEnum};

/// Turns VirtualMCPServer, MCPServer and EmbeddingServer resources into running pods, and keeps them so.
///
/// Every option can be given as an environment variable. Several replicas may run; one of them leads.
#[derive(Debug, Parser)]
#[command(name = "vmcp-operator", version, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operator (the default).
    Run,
    /// Print the definitions of all resources, for `kubectl apply --server-side -f -`.
    Crds,
}

/// How to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// The image that holds `vmcp`, for VirtualMCPServers that name none.
    #[arg(long, env = "VMCP_IMAGE", default_value = "ghcr.io/stackloklabs/vmcp:latest", global = true)]
    pub vmcp_image: String,
    /// The image whose `vmcp` is copied into pods with a stdio server. By default the same image.
    #[arg(long, env = "VMCP_BRIDGE_IMAGE", global = true)]
    pub bridge_image: Option<String>,
    /// The namespace to look after. Empty: all of them.
    #[arg(long, env = "WATCH_NAMESPACE", default_value = "", hide_default_value = true, global = true)]
    pub watch_namespace: String,
    /// The DNS domain of the cluster, for addresses of Services.
    #[arg(long, env = "CLUSTER_DOMAIN", default_value = "cluster.local", global = true)]
    pub cluster_domain: String,
    /// Whether replicas agree by a Lease who leads. `false` only where there is never more than one.
    #[arg(long, env = "LEADER_ELECT", default_value_t = true, action = clap::ArgAction::Set, global = true)]
    pub leader_elect: bool,
    /// The namespace of the Lease. By default the operator's own.
    #[arg(long, env = "POD_NAMESPACE", global = true)]
    pub lease_namespace: Option<String>,
    /// The name of this replica. By default the host's.
    #[arg(long, env = "POD_NAME", global = true)]
    pub identity: Option<String>,
    /// Where `/metrics` is served.
    #[arg(long, env = "METRICS_LISTEN", default_value = "0.0.0.0:8080", global = true)]
    pub metrics_listen: SocketAddr,
    /// Where `/healthz` and `/readyz` are served.
    #[arg(long, env = "HEALTH_LISTEN", default_value = "0.0.0.0:8081", global = true)]
    pub health_listen: SocketAddr,
    /// How log lines are written. What is written is decided by `RUST_LOG`, as in `info,vmcp_operator=debug`.
    #[arg(long, env = "LOG_FORMAT", default_value = "json", global = true)]
    pub log_format: LogFormat,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

impl Cli {
    /// Does what was asked for.
    pub async fn execute(self) -> Result<(), crate::run::RunError> {
        match self.command {
            Some(Command::Crds) => {
                print_definitions();
                Ok(())
            }
            None | Some(Command::Run) => crate::run::run(self.options).await,
        }
    }
}

fn print_definitions() {
    let mut out = std::io::stdout().lock();
    for definition in vmcp_crds::definitions::all() {
        let (_, yaml) = vmcp_crds::definitions::yaml_file(&definition);
        // Whoever reads may stop reading.
        if write!(out, "---\n{yaml}").is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }
}
