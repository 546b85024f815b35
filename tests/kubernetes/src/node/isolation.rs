//! Isolation of the daemons of a node from the machine, by a mount namespace of their own.

use std::fs;
use std::path::Path;

use tokio::process::Command;

use crate::images::run;

/// Folder in which the shims of containerd and runc keep their state, whatever the configuration says.
const CONTAINERS: &str = "/run/containerd";

/// Kernel settings that the kubelet changes for the whole machine.
const TUNABLES: [&str; 6] = [
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
];

/// Covers, in the present mount namespace, everything that the daemons must not share with the machine; the
/// kubelet gets a copy of each setting. All mounts go with the last process in the namespace.
pub(super) async fn isolate(folder: &Path) {
    fs::create_dir_all(CONTAINERS).expect("a folder for what containers leave");
    mount(&["-t", "tmpfs", "containers", CONTAINERS]).await;
    let copies = folder.join("tunables");
    for tunable in TUNABLES {
        let (original, copy) = (Path::new("/proc/sys").join(tunable), copies.join(tunable));
        let Ok(value) = fs::read(&original) else { continue };
        fs::create_dir_all(copy.parent().unwrap_or(&copies)).expect("a folder for tunables");
        fs::write(&copy, value).expect("the copy of a tunable");
        mount(&["--bind", &copy.display().to_string(), &original.display().to_string()]).await;
    }
}

async fn mount(arguments: &[&str]) {
    run("mount", Command::new("mount").args(arguments)).await;
}
