//! A restore of etcd under a running operator: everything in the cluster is older than what it has seen.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use serde_json::json;
use vmcp_crds::{MCPServer, VirtualMCPServer};
use vmcp_kubernetes_tests::{ControlPlane, Namespace, Operator};

use super::backends::{apply, deployment};

/// Writes after the backup: so many that the restored cluster does not get to the same version within the
/// test.
const LATER_WRITES: usize = 1000;

async fn replicas(place: &Namespace, name: &str) -> Option<i32> {
    place.get::<Deployment>(name).await?.spec?.replicas
}

async fn await_replicas(place: &Namespace, name: &str, wanted: i32) {
    let what = format!("{wanted} replicas of {name}");
    place.eventually(&what, async || (replicas(place, name).await == Some(wanted)).then_some(())).await;
}

#[tokio::test]
async fn drift_is_repaired_after_a_restore_of_etcd_without_a_restart() {
    let mut cluster = ControlPlane::start().await;
    let place = cluster.namespace("restore").await;
    // Nothing is written while etcd is down: a renewed lease would be lost, and the operator start again.
    let mut operator = Operator::start(&place).await;
    apply(&place, "VirtualMCPServer", "x", "{replicas: 2}").await;
    await_replicas(&place, "x", 2).await;
    // It is deleted after the restore, so that it has to be in the backup.
    place.eventually("the Service", async || place.get::<Service>("vmcp-x").await).await;
    cluster.back_up().await;

    // Everything after the backup is lost, but the operator has seen it.
    place.edit::<VirtualMCPServer>("x", json!({ "spec": { "replicas": 3 } })).await;
    await_replicas(&place, "x", 3).await;
    apply(&place, "MCPServer", "late", "{image: 'x:1', transport: sse}").await;
    deployment(&place, "mcp-late").await;
    place.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: counter}}").await;
    for number in 0..LATER_WRITES {
        place.edit::<ConfigMap>("counter", json!({ "data": { "n": number.to_string() } })).await;
    }
    cluster.restore().await;
    // Only users write these: no reconcile under way changes them.
    let spec = place.get::<VirtualMCPServer>("x").await.expect("a server of the backup").spec;
    assert_eq!(spec.replicas, Some(2), "the backup is in force");
    assert!(place.get::<MCPServer>("late").await.is_none(), "the backup is in force");
    assert!(place.get::<ConfigMap>("counter").await.is_none(), "the backup is in force");
    // A reconcile of the state before the restore may still write 3.
    await_replicas(&place, "x", 2).await;

    // Drift of every sort is noticed again: a deleted child, a changed one, a new resource.
    place.delete::<Service>("vmcp-x").await;
    place.edit::<Deployment>("x", json!({ "spec": { "replicas": 9 } })).await;
    apply(&place, "MCPServer", "new", "{image: 'x:1', transport: sse}").await;
    place.eventually("the Service", async || place.get::<Service>("vmcp-x").await).await;
    await_replicas(&place, "x", 2).await;
    deployment(&place, "mcp-new").await;
    operator.process.assert_running();
    operator.process.line_after("the history of the API server went back").await;
}
