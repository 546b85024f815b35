//! Secrets of others: the operator holds none of their values.

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use vmcp_crds::MCPGroup;
use vmcp_kubernetes_tests::{ControlPlane, Operator};

use super::backends::{apply, await_condition};

/// Secrets, as many as some Helm releases leave behind.
const SECRETS: usize = 300;
/// The size of each in bytes.
const SECRET_BYTES: usize = 500_000;
/// The most memory of the operator in MiB. The values of the Secrets alone would take 143.
const MAX_MIB: u64 = 100;

#[tokio::test]
async fn large_secrets_of_others_cost_no_memory() {
    // A control plane of its own, so that other scenarios do not read these Secrets.
    let cluster = ControlPlane::start_without_controllers().await;
    let place = cluster.namespace("secrets").await;
    let secrets: Api<Secret> = place.api();
    let value = "x".repeat(SECRET_BYTES);
    let create = |number: usize| {
        let secret = json!({ "metadata": { "name": format!("release-{number}") }, "stringData": { "release": value } });
        let secret: Secret = serde_json::from_value(secret).expect("a Secret");
        let secrets = secrets.clone();
        async move { drop(secrets.create(&PostParams::default(), &secret).await.expect("created")) }
    };
    stream::iter((0..SECRETS).map(create)).buffer_unordered(8).collect::<()>().await;

    let operator = Operator::start(&place).await;
    apply(&place, "MCPGroup", "tools", "{}").await;
    await_condition::<MCPGroup>(&place, "tools", "Ready", "True", "Empty").await;
    let memory = operator.process.resident_mib();
    eprintln!("operator beside {SECRETS} Secrets of {SECRET_BYTES} bytes: {memory} MiB");
    assert!(memory < MAX_MIB, "{memory} MiB");
}
