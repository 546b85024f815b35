//! The harness itself: strict server-side apply, controllers, an end with its owner, an operator beside the
//! test.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::json;
use vmcp_crds::MCPGroup;
use vmcp_integration::PrometheusPrograms;
use vmcp_kubernetes_tests::{ControlPlane, Operator, skipped};

use super::backends::{apply, await_condition};

#[tokio::test]
async fn what_is_applied_is_merged_by_the_server_and_validated_strictly() {
    let place = ControlPlane::shared().await.namespace("apply").await;
    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {a: '1'}}";
    place.apply(map).await;
    place.edit::<ConfigMap>("one", json!({"data": {"b": "2"}})).await;
    place.apply(map).await;
    let data = place.get::<ConfigMap>("one").await.and_then(|map| map.data).unwrap();
    assert_eq!(data.into_iter().collect::<Vec<_>>(), [("a".into(), "1".into()), ("b".into(), "2".into())]);

    let misspelt = "{apiVersion: v1, kind: ConfigMap, metadata: {name: two}, dada: {a: '1'}}";
    let refused = place.try_apply(misspelt).await.unwrap_err().to_string();
    assert!(refused.contains("dada"), "{refused}");
}

#[tokio::test]
async fn a_deployment_makes_pods_and_takes_them_along() {
    let cluster = ControlPlane::shared().await;
    if cluster.skips_without_controllers() {
        return;
    }
    let place = cluster.namespace("collect").await;
    place
        .apply(
            "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}",
        )
        .await;
    place
        .eventually("two pods", async || (place.list::<Pod>("app=web").await.len() == 2).then_some(()))
        .await;
    place.delete::<Deployment>("web").await;
    place.eventually("no pods", async || place.list::<Pod>("app=web").await.is_empty().then_some(())).await;
    place.remove().await;
}

/// A killed test leaves no control plane behind: its processes end when a pipe closes that only the test's
/// process holds.
#[tokio::test]
async fn a_control_plane_ends_with_its_owner() {
    let cluster = ControlPlane::start().await;
    let kubeconfig = cluster.kubeconfig().to_owned();
    assert!(kubeconfig.exists());
    drop(cluster);
    vmcp_integration::eventually("its folder to be removed", async || (!kubeconfig.exists()).then_some(()))
        .await;
}

#[tokio::test]
async fn an_operator_runs_beside_the_test() {
    let place = ControlPlane::shared().await.namespace("operator").await;
    let mut operator = Operator::start(&place).await;
    match PrometheusPrograms::find().await {
        Ok(programs) => assert_eq!(programs.complaints(&operator.metrics().await).await, ""),
        Err(reason) => skipped(&reason),
    }
    apply(&place, "MCPGroup", "tools", "{}").await;
    await_condition::<MCPGroup>(&place, "tools", "Ready", "True", "Empty").await;
    operator.process.signal("TERM").await;
    assert!(operator.process.ended().await.success());
}
