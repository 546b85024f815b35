//! The kubelet, and beside it the scheduler, kube-proxy and CoreDNS.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::containers::socket;
use super::{ADDRESS, DNS};
use crate::Programs;
use crate::control_plane::Processes;

pub(super) fn start(name: &str, folder: &Path, programs: &Programs, processes: &mut Processes) {
    let file = |name: &str| folder.join(name).display().to_string();
    let admin = file("admin.kubeconfig");
    fs::write(folder.join("resolv.conf"), "").expect("an empty file");
    make_cgroups(name);
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": format!("unix://{}", socket(folder).display()),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{name}"),
        "failSwapOn": false,
        "podLogsDir": folder.join("logs"),
        // A full disk is the business of this machine: no pod is evicted for it, and no image removed.
        "evictionHard": {
            "memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
            "imagefs.available": "0%", "imagefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "maxPods": 250,
        "syncFrequency": "5s",
        "configMapAndSecretChangeDetectionStrategy": "Watch",
        "resolvConf": folder.join("resolv.conf"),
        "clusterDNS": [DNS],
        "clusterDomain": "cluster.local",
    });
    fs::write(folder.join("kubelet.json"), config.to_string()).expect("the kubelet's configuration");
    let dns = format!(
        ".:53 {{\n  errors\n  kubernetes cluster.local {{\n    kubeconfig {admin}\n    ttl 2\n  }}\n}}\n"
    );
    fs::write(folder.join("Corefile"), dns).expect("CoreDNS's configuration");

    let flags = format!("--kubeconfig {admin} --leader-elect=false --secure-port 0");
    processes.start("kube-scheduler", &programs.path("kube-scheduler"), &[&flags]);
    processes.start(
        "kubelet",
        &programs.path("kubelet"),
        &[
            &format!("--config {} --kubeconfig {}", file("kubelet.json"), file("node.kubeconfig")),
            &format!("--root-dir {} --cert-dir {}", file("kubelet"), file("kubelet-certificates")),
            &format!("--hostname-override node1 --node-ip {ADDRESS}"),
        ],
    );
    // Without masquerading, the answer of a pod to another one on the same bridge would bypass the address
    // translation.
    let flags =
        format!("--kubeconfig {admin} --hostname-override node1 --proxy-mode nftables --masquerade-all");
    processes.start("kube-proxy", &programs.path("kube-proxy"), &[&flags, "--conntrack-max-per-core 0"]);
    processes.start("coredns", &programs.path("coredns"), &[&format!("-conf {}", file("Corefile"))]);
}

/// Makes the root cgroup of the pods. A kubelet kills every process that it does not know there, so two must
/// not share one.
fn make_cgroups(name: &str) {
    let root = Path::new("/sys/fs/cgroup");
    let available = fs::read_to_string(root.join("cgroup.controllers"));
    let hierarchies = match available {
        Ok(controllers) => {
            for controller in controllers.split_whitespace() {
                // Most controllers are enabled already; the kubelet names the others.
                drop(fs::write(root.join("cgroup.subtree_control"), format!("+{controller}")));
            }
            vec![root.to_owned()]
        }
        Err(_) => fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path()).collect(),
    };
    for hierarchy in hierarchies.into_iter().filter(|path| path.is_dir() && !path.is_symlink()) {
        let made = fs::create_dir(hierarchy.join(name));
        assert!(
            made.is_ok() || hierarchy.join(name).exists(),
            "no cgroup can be made in {}: {made:?}",
            hierarchy.display()
        );
    }
}
