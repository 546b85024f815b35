//! Endpoints of the headless Service, by which replicas and Prometheus find each pod. The test plays the
//! node.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use vmcp_kubernetes_tests::{ControlPlane, Namespace};

use super::backends::{apply, place};

/// Labels of the pods.
const PODS: &str = "app.kubernetes.io/name=vmcp,app.kubernetes.io/instance=x";

/// Returns the ready addresses behind the headless Service.
async fn addresses(place: &Namespace) -> BTreeSet<String> {
    let slices = place.list::<EndpointSlice>("kubernetes.io/service-name=vmcp-x-peers").await;
    let endpoints = slices.into_iter().flat_map(|slice| slice.endpoints);
    let ready = endpoints
        .filter(|endpoint| endpoint.conditions.as_ref().is_some_and(|state| state.ready == Some(true)));
    ready.flat_map(|endpoint| endpoint.addresses).collect()
}

/// Reports that a node runs, as its kubelet would: pods of a silent node are left out of the endpoints.
pub(super) async fn report(nodes: &Api<Node>, node: &str) {
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
        "lastHeartbeatTime": Timestamp::now().to_string(), "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = Patch::Merge(json!({ "status": { "conditions": [ready] } }));
    nodes.patch_status(node, &PatchParams::default(), &status).await.expect("patched");
}

/// Makes the node of a namespace, which no kubelet looks after, and returns its name.
pub(super) async fn make_node(place: &Namespace) -> String {
    let node = format!("node-of-{}", place.name);
    place
        .apply(&json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": &node } }).to_string())
        .await;
    report(&Api::all(place.client.clone()), &node).await;
    node
}

/// Deletes the server, the node and the namespace, and ends the pods in place of a kubelet.
pub(super) async fn remove_with_node(place: Namespace, node: &str) {
    place.delete::<vmcp_crds::VirtualMCPServer>("x").await;
    let nodes: Api<Node> = Api::all(place.client.clone());
    nodes.delete(node, &DeleteParams::default()).await.expect("deleted");
    let force = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    let gone = async || {
        let left = place.api::<Pod>().list(&kube::api::ListParams::default().labels(PODS)).await.ok()?.items;
        for pod in &left {
            drop(place.api::<Pod>().delete(&pod.name_any(), &force).await);
        }
        left.is_empty().then_some(())
    };
    place.eventually("the pods to go", gone).await;
    place.remove().await;
}

#[tokio::test]
async fn the_headless_service_has_an_endpoint_for_each_replica() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let (place, _operator) = place("peers").await;
    let node = make_node(&place).await;
    let nodes: Api<Node> = Api::all(place.client.clone());
    let spec = json!({ "replicas": 3, "podTemplateSpec": { "spec": { "nodeName": &node } } });
    apply(&place, "VirtualMCPServer", "x", &spec.to_string()).await;
    let three = async || Some(place.list::<Pod>(PODS).await).filter(|pods| pods.len() == 3);
    let pods = place.eventually("three pods", three).await;
    let mut expected = BTreeSet::new();
    for (number, pod) in pods.iter().enumerate() {
        let address = format!("10.78.0.{}", number + 1);
        let status = json!({ "status": {
            "phase": "Running", "podIP": &address, "podIPs": [{ "ip": &address }],
            "conditions": [{ "type": "Ready", "status": "True" }],
        } });
        let (api, patch) = (place.api::<Pod>(), Patch::Merge(status));
        api.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await.expect("patched");
        expected.insert(address);
    }
    let mut looks = 0_u32;
    let found = async || {
        // Every five seconds at most: a node that is silent for 40 is taken for lost.
        if looks.is_multiple_of(20) {
            report(&nodes, &node).await;
        }
        looks += 1;
        (addresses(&place).await == expected).then_some(())
    };
    place.eventually("three endpoints of the headless Service", found).await;

    let affinity = place.json("service/vmcp-x").await["spec"]["sessionAffinity"].take();
    assert_eq!(affinity, "ClientIP");
    remove_with_node(place, &node).await;
}
