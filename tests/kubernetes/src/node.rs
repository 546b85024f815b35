//! [`Node`]: a whole cluster with one node on which pods really run, inside one network namespace that
//! nothing leaves.
//!
//! It outlives the process that brings it up; its folder holds everything needed to take it down.

mod containers;
mod down;
mod isolation;
mod kubelet;
mod network;
mod objects;

use std::path::{Path, PathBuf};

use crate::control_plane::{Plan, Processes};
use crate::images::run;
use crate::{Cluster, Programs, cache};

/// Address of the node, of a range reserved for documentation.
const ADDRESS: &str = "198.51.100.1";
const DNS: &str = "10.96.0.10";

/// A node, up or down, by name; several can be up at a time.
#[derive(Debug, Clone)]
pub struct Node {
    name: String,
    folder: PathBuf,
}

impl Node {
    /// Returns the node of this name, up or down.
    pub fn named(name: &str) -> Self {
        Self { name: format!("vmcp-{name}"), folder: cache().join("kubernetes/nodes").join(name) }
    }

    /// Returns true if it was brought up and not taken down.
    pub fn is_up(&self) -> bool {
        self.folder.exists()
    }

    /// Returns the path of the kubeconfig of the administrator; it works inside the network only.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("admin.kubeconfig")
    }

    /// Returns the file by which a process enters the network of the cluster.
    pub fn network(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }

    /// Makes the network; the first step of a start.
    pub async fn lay_network(&self) {
        assert!(!self.is_up(), "{} is up already; take it down first", self.name);
        std::fs::create_dir_all(&self.folder).expect("a folder for the node");
        network::create(&self.name).await;
    }

    /// Starts everything and waits until the node is ready. The caller is inside the network, and in a mount
    /// namespace of its own.
    pub async fn start(&self) -> Cluster {
        let folder = self.folder.as_path();
        let programs = tokio::task::spawn_blocking(Programs::built).await.expect("building");
        isolation::isolate(folder).await;
        network::configure().await;
        let mut processes = Processes::lasting(folder);
        // containerd starts while the control plane does.
        containers::start(folder, &mut processes);
        let plan = Plan { folder, address: ADDRESS, ports: [6443, 2379, 2380], flags: "" };
        let cluster = plan.start(&programs, &mut processes).await;
        kubelet::start(&self.name, folder, &programs, &mut processes);
        self.import(&containers::pause(&programs).await).await;
        objects::create(&cluster, folder).await;
        objects::ready(&cluster, &mut processes).await;
        cluster
    }

    /// Gives the node the images of an archive, as `docker save` and `buildah push docker-archive:` write it.
    pub async fn import(&self, archive: &Path) {
        containers::wait(&self.folder).await;
        let mut import = containers::ctr(&self.folder);
        run("ctr", import.args(["images", "import"]).arg(archive)).await;
    }

    /// Gives an image of the node another name besides.
    pub async fn tag(&self, image: &str, name: &str) {
        let mut tag = containers::ctr(&self.folder);
        run("ctr", tag.args(["images", "tag", "--force", image, name])).await;
    }

    /// Kills every process and removes every trace, also after a start that failed half-way.
    pub async fn down(&self) {
        down::down(&self.name, &self.network(), &self.folder).await;
    }
}
