//! Objects that a cluster needs besides its processes: the Service of DNS, and volumes to claim.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::Api;
use tokio::time::{Instant, sleep};

use super::{ADDRESS, DNS};
use crate::control_plane::Processes;
use crate::{CLUSTER_WAIT_TIMEOUT, Cluster};

/// Number of volumes; no provisioner makes more.
const VOLUMES: usize = 16;

pub(super) async fn create(cluster: &Cluster, folder: &Path) {
    let mut objects = format!(
        "apiVersion: v1
kind: Service
metadata: {{name: kube-dns, namespace: kube-system}}
spec:
  clusterIP: {DNS}
  ports: [{{name: dns, port: 53, protocol: UDP}}, {{name: dns-tcp, port: 53, protocol: TCP}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: kube-dns, namespace: kube-system, labels: {{kubernetes.io/service-name: kube-dns}}}}
addressType: IPv4
endpoints: [{{addresses: [{ADDRESS}], conditions: {{ready: true}}}}]
ports: [{{name: dns, port: 53, protocol: UDP}}, {{name: dns-tcp, port: 53, protocol: TCP}}]
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: standard, annotations: {{storageclass.kubernetes.io/is-default-class: 'true'}}}}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
"
    );
    for number in 0..VOLUMES {
        let path = folder.join(format!("volumes/{number}"));
        fs::create_dir_all(&path).expect("a folder for a volume");
        // A hostPath volume is not given to the group of the pod, so every pod may write.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("access for every pod");
        write!(
            objects,
            "---
apiVersion: v1
kind: PersistentVolume
metadata: {{name: local-{number}}}
spec:
  storageClassName: standard
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  capacity: {{storage: 20Gi}}
  hostPath: {{path: {}}}
",
            path.display()
        )
        .expect("writing to a string");
    }
    cluster.apply(&objects, "kube-system").await.expect("the objects of the cluster");
}

/// Waits until pods can be made.
pub(super) async fn ready(cluster: &Cluster, processes: &mut Processes) {
    let client = cluster.client().await;
    let (nodes, accounts) =
        (Api::<Node>::all(client.clone()), Api::<ServiceAccount>::namespaced(client, "default"));
    let deadline = Instant::now() + CLUSTER_WAIT_TIMEOUT;
    loop {
        processes.assert_running();
        let node = nodes.get_opt("node1").await.ok().flatten();
        let conditions = node.and_then(|node| node.status?.conditions).unwrap_or_default();
        let ready =
            conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
        if ready && accounts.get("default").await.is_ok() {
            return;
        }
        let said = conditions.iter().filter_map(|condition| condition.message.as_deref()).collect::<Vec<_>>();
        assert!(Instant::now() < deadline, "waited {CLUSTER_WAIT_TIMEOUT:?} in vain for the node: {said:?}");
        sleep(Duration::from_millis(100)).await;
    }
}
