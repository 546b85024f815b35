//! Faults as running pods suffer them: a rollout that fails while the old pod serves, pods that the operator
//! cannot ask, a tenant who tries to borrow the operator's rights.

use std::fs;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tokio::process::Command;
use vmcp_crds::VirtualMCPServer;
use vmcp_kubernetes_tests::{Cluster, Namespace, WEB, skipped};

use super::deputies::{TENANT, attempts, client_as, refusal, refused};
use super::{client, ready};

/// An image that no registry has.
const NO_IMAGE: &str = "localhost/vmcp-tests/none:1";

/// Waits until a condition of a VirtualMCPServer has this status, and returns its message.
async fn condition(place: &Namespace, name: &str, kind: &str, status: &str) -> String {
    let object = format!("virtualmcpserver/{name}");
    place
        .eventually(&format!("{kind}={status} of {name}"), async || {
            let condition = place.condition(&object, kind).await;
            let message = condition["message"].as_str().unwrap_or_default().to_owned();
            (condition["status"] == status).then_some(message)
        })
        .await
}

async fn server(place: &Namespace, name: &str) {
    let server = format!(
        "{{apiVersion: toolhive.stacklok.com/v1alpha1, kind: VirtualMCPServer, metadata: {{name: {name}}}, spec: {{}}}}"
    );
    place.apply(WEB).await;
    place.apply(&server).await;
    ready(place, name).await;
}

#[tokio::test]
async fn a_rollout_that_fails_is_stalled_and_the_old_pod_serves_on() {
    let cluster = Cluster::from_environment();
    let place = cluster.served("rollout").await;
    server(&place, "steady").await;
    let (_way, client) = client(&place, "steady").await;
    let serves = async || client.tools().await.contains_key("web_echo").then_some(());
    place.eventually("web_echo", serves).await;

    place.edit::<VirtualMCPServer>("steady", json!({"spec": {"image": NO_IMAGE}})).await;
    let message = condition(&place, "steady", "Stalled", "True").await;
    assert!(message.contains(NO_IMAGE), "{message}");
    condition(&place, "steady", "Degraded", "True").await;
    assert_eq!(place.condition("virtualmcpserver/steady", "Ready").await["status"], "True");
    assert!(serves().await.is_some(), "the old pod serves");

    place.edit::<VirtualMCPServer>("steady", json!({"spec": {"image": null}})).await;
    condition(&place, "steady", "Stalled", "False").await;
    condition(&place, "steady", "Degraded", "False").await;
    assert!(serves().await.is_some(), "the old pod serves");
    place.remove().await;
}

/// Makes an address unreachable from the pods of the operator, and from nowhere else; or reachable again.
async fn route_from_operator(place: &Namespace, verb: &str, address: &str) {
    let running = "jsonpath={.items[*].status.containerStatuses[*].containerID}";
    let operator = "app.kubernetes.io/name=vmcp-operator";
    let namespace = place.of_operator();
    let pods = ["get", "pods", "--namespace", namespace, "--selector", operator, "--output", running];
    let containers = place.cluster().kubectl(&pods).await.expect("the pods of the operator");
    let ids: Vec<_> = containers.split_whitespace().filter_map(|id| id.rsplit('/').next()).collect();
    assert!(!ids.is_empty(), "the operator runs");
    for id in ids {
        let processes = fs::read_dir("/proc").expect("processes").flatten().map(|entry| entry.path());
        let process = processes
            .filter(|path| path.join("cgroup").is_file())
            .find(|path| fs::read_to_string(path.join("cgroup")).is_ok_and(|groups| groups.contains(id)))
            .expect("a process of the operator");
        let network = format!("--net={}", process.join("ns/net").display());
        let route = [network.as_str(), "--", "ip", "route", verb, "unreachable", address];
        let routed = Command::new("nsenter").args(route).output().await.expect("nsenter");
        assert!(routed.status.success(), "{}", String::from_utf8_lossy(&routed.stderr));
    }
}

#[tokio::test]
async fn a_pod_that_the_operator_cannot_ask_is_named_and_serves_on() {
    let cluster = Cluster::from_environment();
    if std::env::var_os("VMCP_E2E_DIRECT").is_none() {
        skipped("the network of the operator's pods can be changed on the tests' own node only");
        return;
    }
    let place = cluster.served("unreachable").await;
    server(&place, "cut").await;
    condition(&place, "cut", "PodsReachable", "True").await;
    let (_way, client) = client(&place, "cut").await;
    let serves = async || client.tools().await.contains_key("web_echo").then_some(());
    place.eventually("web_echo", serves).await;
    let pod = place.list::<Pod>("app.kubernetes.io/name=vmcp,app.kubernetes.io/instance=cut").await.remove(0);
    let address = pod.status.and_then(|status| status.pod_ip).expect("an address");

    route_from_operator(&place, "add", &address).await;
    // Nothing waits for the answer of the pod: the edit is mounted, and the pod takes it up.
    let hide =
        json!({"spec": {"config": {"aggregation": {"tools": [{"workload": "web", "filter": ["add"]}]}}}});
    place.edit::<VirtualMCPServer>("cut", hide).await;
    let message = condition(&place, "cut", "PodsReachable", "False").await;
    assert!(message.contains("9090"), "{message}");
    assert_eq!(place.condition("virtualmcpserver/cut", "Ready").await["status"], "True");
    place.eventually("web_echo to be hidden", async || serves().await.is_none().then_some(())).await;

    route_from_operator(&place, "delete", &address).await;
    condition(&place, "cut", "PodsReachable", "True").await;
    place.remove().await;
}

#[tokio::test]
async fn a_tenant_gets_servers_and_nothing_that_the_tenant_may_not_make() {
    let cluster = Cluster::from_environment();
    let place = cluster.served("tenant").await;
    place.apply(TENANT).await;
    let tenant = client_as(&cluster, "tenant").await;
    for attempt in attempts() {
        refused(&place, &attempt).await;
    }
    // With the right to create Services, yet without the word that anybody may come in.
    let exposed = json!({"serviceType": "LoadBalancer"});
    assert_eq!(refusal(&tenant, &place, "VirtualMCPServer", "own", &exposed).await, None);
    ready(&place, "own").await;
    condition(&place, "own", "ExposureAllowed", "False").await;
    assert_eq!(place.json("service/vmcp-own").await["spec"]["type"], "ClusterIP");
    let pods = place.list::<Pod>("app.kubernetes.io/name=vmcp,app.kubernetes.io/instance=own").await;
    let token = pods[0].spec.as_ref().and_then(|spec| spec.automount_service_account_token);
    assert_eq!(token, Some(false), "no token for the tenant's image");
    place.remove().await;
}
