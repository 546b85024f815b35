//! A Kubernetes node on this machine, for tests and for a look by hand.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};
use vmcp_kubernetes_tests::{Node, Programs, images};

/// A Kubernetes node on this machine, without a registry and without a way out: for tests, and for a look by hand.
///
/// It needs root, and what scripts/setup-e2e.sh installs.
#[derive(Parser)]
struct Arguments {
    /// Which node; several can be up at a time.
    #[arg(long, default_value = "dev", global = true)]
    name: String,
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Bring the node up, and give it the images of the tests.
    Up,
    /// Run a command where the cluster can be reached, with kubectl and helm: `vmcp-cluster exec kubectl get pods -A`.
    Exec {
        /// The command.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
    },
    /// Build the images of the tests, which `up` does as well.
    Images,
    /// Give the node the images of an archive.
    Import {
        /// A file as `docker save` writes it.
        archive: PathBuf,
    },
    /// Take the node down, with all that is in it.
    Down,
    /// The part of `up` that runs inside the cluster's network.
    #[command(hide = true)]
    Start {
        /// Archives of images.
        images: Vec<PathBuf>,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let Arguments { name, command } = Arguments::parse();
    let node = Node::named(&name);
    match command {
        Action::Up => {
            // What fetches packages cannot be done inside the network.
            let images = all_images().await;
            node.lay_network().await;
            let us = std::env::current_exe().unwrap_or_else(|_| "vmcp-cluster".into());
            return replace(inside(&node, us).args(["--name", &name, "start"]).args(images));
        }
        Action::Exec { command } => {
            let Some((program, arguments)) = command.split_first() else { return ExitCode::FAILURE };
            return replace(inside(&node, program).args(arguments));
        }
        Action::Start { images } => {
            drop(node.start().await);
            for image in images {
                node.import(&image).await;
            }
        }
        Action::Images => drop(all_images().await),
        Action::Import { archive } => node.import(&archive).await,
        Action::Down => node.down().await,
    }
    ExitCode::SUCCESS
}

async fn all_images() -> Vec<PathBuf> {
    let mut images = images::ours().await;
    images.push(images::servers().await);
    images
}

/// `program` inside the cluster's network. Not by `ip netns exec`: that hides the cgroups from the kubelet.
fn inside(node: &Node, program: impl Into<OsString>) -> Command {
    let tools = Programs::built().folder().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(tools).chain(std::env::split_paths(&path)));
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", node.network().display())).arg("--").arg(program.into());
    command
        .env("KUBECONFIG", node.kubeconfig())
        .env("VMCP_E2E", "1")
        .env("VMCP_E2E_DIRECT", "1")
        .env("PATH", path.unwrap_or_default());
    command
}

#[expect(clippy::print_stderr, reason = "a command line tells its user")]
fn replace(command: &mut Command) -> ExitCode {
    let error = command.exec();
    eprintln!("nsenter: {error}");
    ExitCode::FAILURE
}
