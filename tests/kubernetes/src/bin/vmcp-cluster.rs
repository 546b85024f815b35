//! A Kubernetes node on this machine, for tests and for use by hand.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};
use vmcp_kubernetes_tests::{Cluster, Node, Programs, images};

/// Kubernetes node on this machine, without a registry and without a way out, for tests and for use by hand
///
/// It needs root and the programs that scripts/setup-e2e.sh installs.
#[derive(Parser)]
struct Arguments {
    /// Name of the node; several can be up at a time
    #[arg(long, default_value = "dev", global = true)]
    name: String,
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Bring the node up, and give it the images of the tests
    Up,
    /// Run a command that can reach the cluster, with kubectl and helm: `vmcp-cluster exec kubectl get pods
    /// -A`
    Exec {
        /// Program and arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
    },
    /// Build the images of the tests, as `up` does, and print the paths of their archives
    Images,
    /// Build the images of the tests, push them to a registry, and print the variables that name them
    Push {
        /// Prefix of the images' names, such as `registry.example.com/team`
        registry: String,
    },
    /// Check that the cluster of KUBECONFIG can run the scenarios (with VMCP_E2E=1)
    Prepare,
    /// Remove everything that the scenarios left in the cluster of KUBECONFIG (with VMCP_E2E=1)
    Clear,
    /// Give the node the images of an archive
    Import {
        /// Archive as `docker save` writes it
        archive: PathBuf,
    },
    /// Take the node down, with everything in it
    Down,
    /// Run the part of `up` that is inside the network of the cluster
    #[command(hide = true)]
    Start {
        /// Archives of images
        images: Vec<PathBuf>,
    },
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "a command line tells its user")]
async fn main() -> ExitCode {
    let Arguments { name, command } = Arguments::parse();
    let node = Node::named(&name);
    match command {
        Action::Up => {
            // Fetching packages is impossible inside the network.
            let images = images::all().await;
            node.lay_network().await;
            let us = std::env::current_exe().unwrap_or_else(|_| "vmcp-cluster".into());
            let mut start = inside(&node, "unshare");
            // Mounts of the daemons stay in their own mount namespace.
            start.args(["--mount", "--propagation", "private"]).arg(us).args(["--name", &name, "start"]);
            return replace(start.args(images));
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
            node.tag(images::VMCP, images::NEXT_VMCP).await;
        }
        Action::Images => images::all().await.iter().for_each(|archive| println!("{}", archive.display())),
        Action::Push { registry } => {
            images::push(&registry).await.iter().for_each(|setting| println!("{setting}"));
        }
        Action::Prepare => return told(Cluster::from_environment().prepare().await),
        Action::Clear => return told(Cluster::from_environment().clear().await),
        Action::Import { archive } => node.import(&archive).await,
        Action::Down => node.down().await,
    }
    ExitCode::SUCCESS
}

#[expect(clippy::print_stderr, reason = "a command line tells its user")]
fn told(result: Result<(), String>) -> ExitCode {
    let Err(complaint) = result else { return ExitCode::SUCCESS };
    eprintln!("{complaint}");
    ExitCode::FAILURE
}

/// Returns a command that runs `program` inside the network of the cluster. Not by `ip netns exec`: that
/// hides the cgroups from the kubelet.
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
