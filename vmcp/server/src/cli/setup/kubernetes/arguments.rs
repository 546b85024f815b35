//! Options of commands that change a server in a Kubernetes cluster.

use clap::Args;
use vmcp_config::Secret;

use crate::cli::kubernetes::kubectl::Kubectl;

/// The cluster that a command changes.
#[derive(Debug, Args)]
#[command(next_help_heading = "In a Kubernetes cluster")]
pub(in crate::cli) struct ClusterArguments {
    /// Change a cluster instead of the configuration file, by your `kubectl` and with your rights
    #[arg(long)]
    pub(in crate::cli) kubernetes: bool,
    /// Namespace of the server [default: that of kubectl's context]
    #[arg(long, value_name = "NAMESPACE", requires = "kubernetes")]
    pub(super) namespace: Option<String>,
    /// Context of the kubeconfig [default: kubectl's current one]
    #[arg(long, value_name = "CONTEXT", requires = "kubernetes")]
    context: Option<String>,
}

/// A server that is added to a cluster.
#[derive(Debug, Args)]
#[command(next_help_heading = "In a Kubernetes cluster")]
pub(in crate::cli) struct AddToCluster {
    /// Image in which the program runs; without a program, the image's own entrypoint
    #[arg(long, value_name = "IMAGE", requires = "kubernetes", conflicts_with = "address")]
    pub(super) image: Option<String>,
    /// MCPGroup of the server [default: none; a VirtualMCPServer without a group serves all]
    #[arg(long, value_name = "GROUP", requires = "kubernetes")]
    pub(super) group: Option<String>,
    /// Print the manifests, without the values, and change nothing
    #[arg(long, requires = "kubernetes")]
    pub(super) dry_run: bool,
}

impl ClusterArguments {
    /// Returns the `kubectl` of the cluster; `secrets` are masked in its output.
    pub(super) fn kubectl<'a>(&'a self, secrets: impl Iterator<Item = &'a Secret>) -> Kubectl<'a> {
        Kubectl::new(self.context.as_deref(), self.namespace.as_deref(), secrets)
    }
}
