//! Two hundred servers at once: all are applied, then nothing is written any more, within the memory that the
//! chart allows.

use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use serde_json::json;
use tokio::time::sleep;
use vmcp_kubernetes_tests::{ControlPlane, Operator};

const CROWD: usize = 200;

#[tokio::test]
async fn two_hundred_servers_are_applied_and_then_left_alone() {
    let place = ControlPlane::shared().await.namespace("crowd").await;
    let operator = Operator::start(&place).await;
    let began = Instant::now();
    let server = |number| {
        let metadata = json!({"name": format!("server-{number}")});
        json!({"apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": "VirtualMCPServer", "metadata": metadata, "spec": {}})
    };
    let crowd: Vec<_> = (0..CROWD).map(server).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": crowd}).to_string();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), list).unwrap();
    let path = file.path().to_string_lossy();
    place
        .cluster()
        .kubectl(&["apply", "--server-side", "--namespace", &place.name, "--filename", &path])
        .await
        .unwrap();
    let accepted = began.elapsed();
    let applied = async || {
        // A list of two hundred whole objects is a second of work on a busy machine.
        sleep(Duration::from_secs(1)).await;
        let ours = ListParams::default().labels("app.kubernetes.io/name=vmcp");
        let deployments = place.api::<Deployment>().list_metadata(&ours).await.expect("a list");
        (deployments.items.len() == CROWD).then_some(())
    };
    // Two cores that run all suites at once took more than ten minutes.
    place.eventually_within(Duration::from_mins(30), "a Deployment for each", applied).await;
    let applied = began.elapsed();

    // At rest: as many reconciles as there are servers, and not one write in them.
    let written = operator.at_rest(&place, "VirtualMCPServer", CROWD as u64).await;
    let memory = operator.process.resident_mib();
    eprintln!(
        "{CROWD} VirtualMCPServers: accepted in {accepted:.1?}, applied in {applied:.1?}, {written} writes and none at rest, \
         operator {memory} MiB"
    );
    assert!(written >= CROWD as u64, "{written} writes for {CROWD} servers");
    assert!(memory < 256, "{memory} MiB: the chart's limit is 256");
    place.remove().await;
}
