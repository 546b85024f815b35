//! One node on which pods really run: a whole cluster inside one network namespace, from which nothing leaves.
//!
//! It outlives the process that brings it up; its folder tells everything that takes it down again.

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

/// The node's address, of a range kept for documentation.
const ADDRESS: &str = "198.51.100.1";
const DNS: &str = "10.96.0.10";

/// A node under a name; several can be up at a time.
#[derive(Debug, Clone)]
pub struct Node {
    name: String,
    folder: PathBuf,
}

impl Node {
    /// The node of this name, up or down.
    pub fn named(name: &str) -> Self {
        Self { name: format!("vmcp-{name}"), folder: cache().join("kubernetes/nodes").join(name) }
    }

    /// Whether it was brought up and not taken down.
    pub fn is_up(&self) -> bool {
        self.folder.exists()
    }

    /// The administrator's kubeconfig; it is of use inside the network only.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("admin.kubeconfig")
    }

    /// The file that a process enters the cluster's network by.
    pub fn network(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }

    /// Makes the network, the first step of [`Node::start`].
    pub async fn lay_network(&self) {
        assert!(!self.is_up(), "{} is up already; take it down first", self.name);
        std::fs::create_dir_all(&self.folder).expect("a folder for the node");
        network::create(&self.name).await;
    }

    /// Starts everything and waits until the node is ready. The caller is inside the network, and inside a mount namespace
    /// of its own.
    pub async fn start(&self) -> Cluster {
        let folder = self.folder.as_path();
        let programs = tokio::task::spawn_blocking(Programs::built).await.expect("building");
        isolation::isolate(folder).await;
        network::configure().await;
        let mut processes = Processes::lasting(folder);
        // The containers' daemon starts while the control plane does.
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

    /// Ends every process and removes every trace, also after a start that failed half-way.
    pub async fn down(&self) {
        down::down(&self.name, &self.network(), &self.folder).await;
    }
}
