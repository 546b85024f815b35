//! Taking a node down.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::process::Command;

use super::containers::socket;

pub(super) async fn down(name: &str, folder: &Path) {
    // Killed, not asked: etcd and the API server take long to end, and nothing of them is needed again.
    if let Some(group) = fs::read_to_string(folder.join("group")).ok().and_then(|group| group.parse().ok()) {
        let group = Pid::from_raw(group);
        vmcp_integration::eventually("the processes of the node to end", async || {
            killpg(group, Signal::SIGKILL).err().map(drop)
        })
        .await;
    }
    // A container's first process is a child of its shim, and takes all others of the container along.
    for shim in shims(&socket(folder)) {
        for container in children(shim) {
            let _gone = kill(container, Signal::SIGKILL);
        }
        let _gone = kill(shim, Signal::SIGKILL);
    }
    for mount in mounts(folder) {
        try_to(Command::new("umount").arg("--lazy").arg(mount)).await;
    }
    try_to(Command::new("ip").args(["netns", "delete", name])).await;
    let groups = format!("find /sys/fs/cgroup -depth -type d -path '*/{name}*' -exec rmdir {{}} ';'");
    try_to(Command::new("sh").args(["-c", &groups])).await;
    try_to(Command::new("rm").arg("--recursive").arg("--force").arg(folder)).await;
}

/// What has gone already need not be removed.
async fn try_to(command: &mut Command) {
    drop(command.kill_on_drop(true).output().await);
}

/// The processes that hold containers for the daemon with this socket.
fn shims(socket: &Path) -> Vec<Pid> {
    let socket = socket.display().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|process| process.file_name().into_string().ok());
    let is_shim = |id: &String| {
        let line = fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
        line.contains("containerd-shim") && line.split('\0').any(|argument| argument == socket)
    };
    pids(ids.filter(is_shim))
}

fn children(process: Pid) -> Vec<Pid> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    pids(lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()))
}

fn pids(ids: impl Iterator<Item = String>) -> Vec<Pid> {
    ids.filter_map(|id| id.parse().ok()).map(Pid::from_raw).collect()
}

/// The mounts under a folder, the innermost first.
fn mounts(folder: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let points = table.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
    let mut mounts: Vec<PathBuf> = points.filter(|point| point.starts_with(folder)).collect();
    mounts.reverse();
    mounts
}
