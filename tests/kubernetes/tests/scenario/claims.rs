//! Claims of the pods of a VirtualMCPServer on a real API server: the StatefulSet, what becomes of its
//! claims, and the change from one form of the workload to the other. The test plays the kubelet.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use vmcp_crds::VirtualMCPServer;
use vmcp_kubernetes_tests::{ControlPlane, Namespace};

use super::backends::{apply, await_condition, deployment, place};
use super::peers::{make_node, remove_with_node, report};

/// Labels of the pods and the claims of the server `x`.
const OF_X: &str = "app.kubernetes.io/name=vmcp,app.kubernetes.io/instance=x";

/// Returns the optimizer with a claim of this size for each pod.
fn claims_of(size: &str) -> Value {
    let volume = json!({ "persistentVolumeClaim": { "size": size } });
    json!({ "enabled": true, "embeddings": { "provider": "none" }, "storage": { "volume": volume } })
}

/// Waits for so many pods of a kind of controller, and marks them as ready, each at an address of its own.
async fn run_pods(place: &Namespace, controller: &str, count: usize) -> BTreeSet<String> {
    let made = async || {
        let mut pods = place.list::<Pod>(OF_X).await;
        pods.retain(|pod| pod.owner_references().iter().any(|owner| owner.kind == controller));
        (pods.len() == count).then_some(pods)
    };
    let pods = place.eventually(&format!("{count} pods of a {controller}"), made).await;
    let mut uids = BTreeSet::new();
    for (number, pod) in pods.iter().enumerate() {
        let address = format!("10.77.{}.{}", controller.len(), number + 1);
        let ready = json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}]}});
        let (api, patch) = (place.api::<Pod>(), Patch::Merge(ready));
        api.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await.expect("patched");
        uids.insert(pod.uid().expect("a uid"));
    }
    uids
}

/// Returns the names of the claims.
async fn claims(place: &Namespace) -> Vec<String> {
    place.list::<PersistentVolumeClaim>(OF_X).await.iter().map(kube::ResourceExt::name_any).collect()
}

async fn volumes_are(place: &Namespace, status: &str, reason: &str) -> String {
    await_condition::<VirtualMCPServer>(place, "x", "VolumesReady", status, reason).await
}

#[tokio::test]
async fn each_replica_has_a_claim_of_its_own_which_outlives_the_server() {
    let (place, operator) = place("claims").await;
    let spec = json!({ "replicas": 3, "optimizer": claims_of("1Gi") });
    apply(&place, "VirtualMCPServer", "x", &spec.to_string()).await;
    let set = place.eventually("the StatefulSet", async || place.get::<StatefulSet>("x").await).await;
    assert!(place.get::<Deployment>("x").await.is_none());
    assert_eq!(set.spec.as_ref().and_then(|spec| spec.service_name.as_deref()), Some("vmcp-x-peers"));
    // Defaults that the API server adds to claims are left as they are.
    operator.at_rest(&place, "VirtualMCPServer", 2).await;
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let three = async || (claims(&place).await.len() == 3).then_some(());
    place.eventually("three claims", three).await;
    assert_eq!(claims(&place).await, ["cache-x-0", "cache-x-1", "cache-x-2"]);
    let before = run_pods(&place, "StatefulSet", 3).await;
    volumes_are(&place, "True", "ClaimPerPod").await;
    let ready = async || {
        let status = place.get::<VirtualMCPServer>("x").await?.status?;
        (status.ready_replicas == 3).then_some(())
    };
    place.eventually("three ready pods in the status", ready).await;

    // Kubernetes cannot change the claims; the remedy of the message is followed, and no pod is replaced.
    place.edit::<VirtualMCPServer>("x", json!({ "spec": { "optimizer": claims_of("2Gi") } })).await;
    let message = volumes_are(&place, "False", "ClaimsUnchangeable").await;
    let remedy = format!("kubectl delete statefulset x -n {} --cascade=orphan", place.name);
    assert!(message.contains(&remedy), "{message}");
    let delete: Vec<&str> = remedy.split(' ').skip(1).collect();
    place.cluster().kubectl(&delete).await.expect("the command of the message");
    let renewed = async || {
        let now = place.get::<StatefulSet>("x").await?;
        let template = now.spec.as_ref()?.volume_claim_templates.as_ref()?.first()?.spec.clone()?;
        let size = template.resources?.requests?.remove("storage")?;
        (now.uid() != set.uid() && size.0 == "2Gi").then_some(())
    };
    place.eventually("a StatefulSet with the new claims", renewed).await;
    volumes_are(&place, "True", "ClaimPerPod").await;
    let adopted = run_pods(&place, "StatefulSet", 3).await;
    assert_eq!(adopted, before, "the pods are the same");

    place.delete::<VirtualMCPServer>("x").await;
    let gone = async || place.list::<Pod>(OF_X).await.is_empty().then_some(());
    place.eventually("the pods to go", gone).await;
    assert_eq!(claims(&place).await.len(), 3, "no data is lost");
    place.remove().await;
}

#[tokio::test]
async fn a_workload_changes_its_form_without_a_gap() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let (place, _operator) = place("form").await;
    apply(&place, "VirtualMCPServer", "x", "{replicas: 2}").await;
    deployment(&place, "x").await;
    run_pods(&place, "ReplicaSet", 2).await;
    let ready = async || {
        let condition = place.condition("vmcp/x", "Ready").await;
        (condition["status"] == "True").then(|| condition["lastTransitionTime"].clone())
    };
    let since = place.eventually("a server that serves", ready).await;

    place.edit::<VirtualMCPServer>("x", json!({ "spec": { "optimizer": claims_of("1Gi") } })).await;
    let message = volumes_are(&place, "Unknown", "WorkloadReplacing").await;
    assert!(message.contains("a StatefulSet replaces the Deployment"), "{message}");
    assert_eq!(place.condition("vmcp/x", "Reconciling").await["status"], "True");
    assert!(place.get::<Deployment>("x").await.is_some(), "its pods serve meanwhile");
    run_pods(&place, "StatefulSet", 2).await;
    let replaced = async || place.get::<Deployment>("x").await.is_none().then_some(());
    place.eventually("the Deployment to go", replaced).await;
    volumes_are(&place, "True", "ClaimPerPod").await;
    assert_eq!(ready().await, Some(since.clone()), "it was ready all the time");

    // And back, which leaves the claims.
    place.edit::<VirtualMCPServer>("x", json!({ "spec": { "optimizer": null } })).await;
    volumes_are(&place, "Unknown", "WorkloadReplacing").await;
    assert!(place.get::<StatefulSet>("x").await.is_some(), "its pods serve meanwhile");
    run_pods(&place, "ReplicaSet", 2).await;
    let replaced = async || place.get::<StatefulSet>("x").await.is_none().then_some(());
    place.eventually("the StatefulSet to go", replaced).await;
    assert_eq!(ready().await, Some(since), "it was ready all the time");
    assert_eq!(claims(&place).await, ["cache-x-0", "cache-x-1"]);
    place.remove().await;
}

/// Returns the UIDs of the ready pods behind the Service of `x`.
async fn serving_pods(slices: &Api<EndpointSlice>) -> BTreeSet<String> {
    let of_service = ListParams::default().labels("kubernetes.io/service-name=vmcp-x");
    let slices = slices.list(&of_service).await.expect("EndpointSlices").items;
    let ready = slices.into_iter().flat_map(|slice| slice.endpoints).filter(|endpoint| {
        endpoint.conditions.as_ref().is_some_and(|conditions| conditions.ready == Some(true))
    });
    ready.filter_map(|endpoint| endpoint.target_ref?.uid).collect()
}

/// Endpoints are of pods on nodes alone, so that the test plays a node too.
#[tokio::test]
async fn clients_reach_as_many_pods_as_before_while_the_form_changes() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let (place, _operator) = place("traffic").await;
    let node = make_node(&place).await;
    let spec = json!({ "replicas": 2, "podTemplateSpec": { "spec": { "nodeName": &node } } });
    apply(&place, "VirtualMCPServer", "x", &spec.to_string()).await;
    let old = run_pods(&place, "ReplicaSet", 2).await;
    let slices: Api<EndpointSlice> = place.api();
    let served_by = async |pods: &BTreeSet<String>| (serving_pods(&slices).await == *pods).then_some(());
    place.eventually("the pods of the Deployment to serve", async || served_by(&old).await).await;

    let fewest = Arc::new(AtomicUsize::new(usize::MAX));
    let sampler = tokio::spawn({
        let (fewest, slices, node) = (fewest.clone(), slices.clone(), node.clone());
        let nodes: Api<Node> = Api::all(place.client.clone());
        async move {
            for look in 0..10_000_u32 {
                if look.is_multiple_of(50) {
                    report(&nodes, &node).await;
                }
                fewest.fetch_min(serving_pods(&slices).await.len(), Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    });
    place.edit::<VirtualMCPServer>("x", json!({ "spec": { "optimizer": claims_of("1Gi") } })).await;
    let new = run_pods(&place, "StatefulSet", 2).await;
    let replaced = async || place.get::<Deployment>("x").await.is_none().then_some(());
    place.eventually("the Deployment to go", replaced).await;
    place.eventually("the new pods alone to serve", async || served_by(&new).await).await;
    assert!(!sampler.is_finished(), "the sampler looks until the end");
    sampler.abort();
    let fewest = fewest.load(Ordering::Relaxed);
    assert!((2..usize::MAX).contains(&fewest), "{fewest} pods served at some moment");
    remove_with_node(place, &node).await;
}

#[tokio::test]
async fn the_number_of_pods_of_an_autoscaler_is_handed_over() {
    let (place, _operator) = place("handed-over").await;
    let scaled = |optimizer: Value| json!({ "autoscaling": { "maxReplicas": 9 }, "optimizer": optimizer });
    apply(&place, "VirtualMCPServer", "x", &scaled(json!({ "enabled": false })).to_string()).await;
    deployment(&place, "x").await;
    place.edit::<Deployment>("x", json!({ "spec": { "replicas": 4 } })).await;
    apply(&place, "VirtualMCPServer", "x", &scaled(claims_of("1Gi")).to_string()).await;
    let handed_over = async || {
        let set = place.get::<StatefulSet>("x").await?;
        let ours = set.metadata.managed_fields.iter().flatten();
        let mut ours = ours.filter(|entry| entry.operation.as_deref() == Some("Apply"));
        let owns = ours.any(|entry| {
            entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer("/f:spec/f:replicas").is_some())
        });
        (!owns).then_some(set.spec?.replicas)
    };
    let replicas = place.eventually("the number to belong to the autoscaler", handed_over).await;
    assert_eq!(replicas, Some(4), "those of the Deployment");
    let follows = async || {
        let target = place.json("hpa/x-vmcp").await["spec"]["scaleTargetRef"]["kind"].take();
        (target == "StatefulSet").then_some(())
    };
    place.eventually("an autoscaler of the StatefulSet", follows).await;
    place.remove().await;
}
