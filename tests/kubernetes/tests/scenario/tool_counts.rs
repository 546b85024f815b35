//! Counts of calls: they outlive the process on the pod's own volume, and the pod on a claim.

use std::fs;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tokio::time::sleep;
use vmcp_kubernetes_tests::{Cluster, Namespace, WEB, skipped};

use super::{client, ready};

/// Calls that are counted.
const CALLS: u64 = 7;
/// Time after which a call is on the disk, whatever happens to the process.
const COMMITTED: Duration = Duration::from_secs(1);

const CLAIM: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: counts}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}";

/// Returns the manifest of a server whose counts can be asked for, with this storage and this pod.
fn server(storage: &str, pod: &str) -> String {
    format!(
        "apiVersion: toolhive.stacklok.com/v1alpha1
kind: VirtualMCPServer
metadata: {{name: x}}
spec:
  optimizer:
    enabled: true
    exposure: All
    tools: [find_tool, call_tool, get_tool_metrics]
    embeddings: {{provider: none}}
    storage: {storage}
  podTemplateSpec: {{spec: {pod}}}"
    )
}

/// Starts a server, and calls a tool through it [`CALLS`] times.
async fn called(place: &Namespace, server: &str) {
    place.apply(WEB).await;
    place.apply(server).await;
    ready(place, "x").await;
    let (_way, client) = client(place, "x").await;
    let listed = async || client.tools().await.contains_key("web_echo").then_some(());
    place.eventually("web_echo", listed).await;
    for _ in 0..CALLS {
        let said = client.call_tool("web_echo", json!({"message": "count me"})).await;
        assert!(said.content_text().contains("count me"), "{}", said.text);
    }
    await_counts(place).await;
    sleep(COMMITTED).await;
}

/// Waits until the server tells that the tool was called [`CALLS`] times.
async fn await_counts(place: &Namespace) {
    let (_way, client) = client(place, "x").await;
    let counted = async || {
        let told = client.call_tool("optim_get_tool_metrics", json!({"server": "web"})).await;
        let tools = told.structured()["tools"].as_array()?;
        let calls: u64 = tools.iter().filter_map(|tool| tool["call_count"].as_u64()).sum();
        assert!(calls <= CALLS, "{}", told.text);
        (calls == CALLS).then_some(())
    };
    place.eventually(&format!("{CALLS} calls to be told"), counted).await;
}

/// Returns the only pod of the server, and the state of its container.
async fn pod(place: &Namespace) -> Option<(String, ContainerStatus)> {
    let mut pods = place.list::<Pod>("app.kubernetes.io/name=vmcp,app.kubernetes.io/instance=x").await;
    let (pod, None) = (pods.pop()?, pods.pop()) else { return None };
    let states = pod.status?.container_statuses?;
    Some((pod.metadata.name?, states.into_iter().find(|state| state.name == "vmcp")?))
}

/// Kills the first process of a container on this machine, as the kernel does where memory runs out.
fn kill_first_process(container: &str) {
    let is_first = |process: &Path| {
        let text = |file: &str| fs::read_to_string(process.join(file)).unwrap_or_default();
        let status = text("status");
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
        text("cgroup").contains(container) && ids.split_whitespace().last() == Some("1")
    };
    let mut processes = fs::read_dir("/proc").expect("processes").flatten().map(|entry| entry.path());
    let first = processes.find(|process| is_first(process)).expect("the process of the container");
    let id = first.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a process id");
    kill(Pid::from_raw(id), Signal::SIGKILL).expect("killed");
}

#[tokio::test]
async fn counts_outlive_a_pod_whose_cache_is_on_a_claim() {
    let cluster = Cluster::from_environment();
    let place = cluster.served("claim").await;
    place.apply(CLAIM).await;
    let volume = "{name: cache, persistentVolumeClaim: {claimName: counts}}";
    // A volume of a provisioner belongs to root until the group of the pod gets it.
    let template = format!("{{securityContext: {{fsGroup: 65532}}, volumes: [{volume}]}}");
    called(&place, &server("{}", &template)).await;

    let (before, _) = pod(&place).await.expect("a pod");
    place.delete::<Pod>(&before).await;
    let replaced = async || pod(&place).await.filter(|(name, state)| *name != before && state.ready);
    let (_, state) = place.eventually("another pod", replaced).await;
    assert_eq!(state.restart_count, 0);
    await_counts(&place).await;
    place.remove().await;
}

#[tokio::test]
async fn counts_outlive_a_pod_that_has_a_claim_of_its_own() {
    let cluster = Cluster::from_environment();
    if !cluster.has_volumes().await {
        skipped("the cluster has no default StorageClass, and the cache wants a volume");
        return;
    }
    let place = cluster.served("own-claim").await;
    called(&place, &server("{volume: {persistentVolumeClaim: {size: 1Gi}}}", "{}")).await;

    let (before, first) = pod(&place).await.expect("a pod");
    assert_eq!(before, "x-0", "a pod of a StatefulSet");
    place.delete::<Pod>(&before).await;
    let replaced = async || {
        pod(&place).await.filter(|(_, state)| state.container_id != first.container_id && state.ready)
    };
    let (name, state) = place.eventually("another pod", replaced).await;
    assert_eq!((name.as_str(), state.restart_count), ("x-0", 0));
    await_counts(&place).await;
    place.remove().await;
}

#[tokio::test]
async fn counts_outlive_a_process_that_is_killed() {
    let cluster = Cluster::from_environment();
    if std::env::var_os("VMCP_E2E_DIRECT").is_none() {
        skipped("a process of a pod can be killed on the tests' own node only");
        return;
    }
    let place = cluster.served("killed").await;
    called(&place, &server("{}", "{}")).await;

    let (before, state) = pod(&place).await.expect("a pod");
    let id = state.container_id.expect("a container");
    kill_first_process(id.rsplit('/').next().expect("its id"));
    let again = async || pod(&place).await.filter(|(_, state)| state.restart_count == 1 && state.ready);
    let (after, state) = place.eventually("the container to run again", again).await;
    assert_eq!(after, before, "the same pod");
    let ended = state.last_state.and_then(|last| last.terminated).map(|end| end.exit_code);
    assert_eq!(ended, Some(137), "it was killed");
    await_counts(&place).await;
    place.remove().await;
}
