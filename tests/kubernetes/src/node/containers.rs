//! containerd with a root, a state and a socket of its own.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tokio::process::Command;

use crate::Programs;
use crate::control_plane::Processes;
use crate::images::{Build, Context, digest_of};

const PAUSE: &str = "localhost/pause:1";

/// Returns the socket on which containerd serves the kubelet and `ctr`.
pub(super) fn socket(folder: &Path) -> PathBuf {
    folder.join("containerd.sock")
}

pub(super) fn start(folder: &Path, processes: &mut Processes) {
    let networks = folder.join("networks");
    fs::create_dir_all(&networks).expect("a folder");
    let network = json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge", "bridge": "pods", "isGateway": true, "hairpinMode": true,
                "ipam": {
                    "type": "host-local", "dataDir": folder.join("addresses"),
                    "ranges": [[{"subnet": "10.244.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    });
    fs::write(networks.join("10-pods.conflist"), network.to_string()).expect("the pods' network");

    // `restrict_oom_score_adj`: without CAP_SYS_RESOURCE no sandbox could start otherwise. `nri`: newer
    // versions would listen for plugins on the socket of the containerd of the machine.
    let config = format!(
        "version = 2
root = '{root}/containerd'
state = '{root}/containerd-state'
[grpc]
  address = '{socket}'
[plugins.'io.containerd.internal.v1.opt']
  path = '{root}/containerd-opt'
[plugins.'io.containerd.grpc.v1.cri']
  sandbox_image = '{PAUSE}'
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins.'io.containerd.grpc.v1.cri'.cni]
    bin_dir = '{plugins}'
    conf_dir = '{networks}'
  [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.nri.v1.nri']
  disable = true
",
        root = folder.display(),
        socket = socket(folder).display(),
        plugins = ["/usr/lib/cni", "/opt/cni/bin"]
            .into_iter()
            .find(|path| Path::new(path).join("bridge").exists())
            .expect("the CNI plugins: run scripts/setup-e2e.sh"),
        networks = networks.display(),
    );
    let file = folder.join("containerd.toml");
    fs::write(&file, config).expect("the configuration of containerd");
    processes.start("containerd", Path::new("containerd"), &[&format!("--config {}", file.display())]);
}

/// Waits until containerd answers.
pub(super) async fn wait(folder: &Path) {
    vmcp_integration::eventually("containerd", async || {
        let asked = ctr(folder).arg("version").output().await;
        asked.is_ok_and(|answer| answer.status.success()).then_some(())
    })
    .await;
}

/// Returns a command of `ctr`, the client of containerd, in the namespace of Kubernetes.
pub(super) fn ctr(folder: &Path) -> Command {
    let mut command = Command::new("ctr");
    command.arg("--address").arg(socket(folder)).args(["--namespace", "k8s.io"]);
    command
}

/// Builds the image of the pause container, which holds a pod together, and returns its archive: no registry
/// can be reached.
pub(super) async fn pause(programs: &Programs) -> PathBuf {
    let context = Context::new("FROM scratch\nCOPY pause /pause\nENTRYPOINT [\"/pause\"]\n");
    let program = programs.path("pause");
    context.copy(&program, "pause").await;
    Build::new(PAUSE).archive(&digest_of(&program), context.path()).await
}
