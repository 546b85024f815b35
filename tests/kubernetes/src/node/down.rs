//! End of a node: kills its processes, removes its cgroups, network and folder.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Command;
use vmcp_integration::eventually;

pub(super) async fn down(name: &str, network: &Path, folder: &Path) {
    // Cgroups of this node only, not of another one whose name begins with this one.
    let groups = format!("/sys/fs/cgroup -depth ( -path */{name} -o -path */{name}/* )");
    let emptied = async || {
        // Daemons and shims are in the network of the node, containers in its cgroups.
        let mut left = inside(network);
        left.extend(pids(find(&groups, "-name cgroup.procs -exec cat {} +").await.lines()));
        left.retain(|process| *process != Pid::this());
        for process in &left {
            // SIGKILL, not SIGTERM: etcd and the API server take long to end, and nothing of them is needed
            // again.
            let _gone = kill(*process, Signal::SIGKILL);
        }
        find(&groups, "-type d -exec rmdir {} ;").await;
        (left.is_empty() && find(&groups, "-type d").await.is_empty()).then_some(())
    };
    eventually("the processes of the node to end", emptied).await;
    // Mounts went with the last process that saw them.
    try_to(Command::new("ip").args(["netns", "delete", name])).await;
    try_to(Command::new("rm").arg("--recursive").arg("--force").arg(folder)).await;
}

/// Runs a command whose failure does not matter: what is gone already need not be removed.
async fn try_to(command: &mut Command) -> String {
    let output = command.kill_on_drop(true).output().await;
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

async fn find(whither: &str, what: &str) -> String {
    try_to(Command::new("find").args(whither.split(' ')).args(what.split(' '))).await
}

/// Returns the processes inside a network namespace.
fn inside(network: &Path) -> Vec<Pid> {
    let identity = |path: &Path| fs::metadata(path).ok().map(|about| (about.dev(), about.ino()));
    let Some(network) = identity(network) else { return Vec::new() };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let here = processes.filter(|process| identity(&process.path().join("ns/net")) == Some(network));
    let ids: Vec<String> = here.filter_map(|process| process.file_name().into_string().ok()).collect();
    pids(ids.iter().map(String::as_str))
}

/// Parses process ids. 0 is left out: it stands for a process that cannot be seen from here, and `kill` takes
/// it for our own group.
fn pids<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<Pid> {
    ids.filter_map(|id| id.parse().ok()).filter(|id| *id > 0).map(Pid::from_raw).collect()
}
