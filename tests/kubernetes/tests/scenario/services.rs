//! EmbeddingServer and MCPTelemetryConfig on a real API server.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, ResourceQuota, Service};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use vmcp_crds::embedding_server::EmbeddingServerPhase;
use vmcp_crds::{EmbeddingServer, MCPTelemetryConfig};
use vmcp_kubernetes_tests::ControlPlane;

use super::backends::{apply, await_condition, place};

/// The pod is played by the test: it writes the status that a kubelet would.
#[tokio::test]
async fn an_embedding_server_is_a_set_a_service_and_a_volume_and_leaves_nothing() {
    let (place, _operator) = place("embedding").await;
    let spec =
        "{model: BAAI/bge-small-en-v1.5, modelCache: {size: 1Gi}, hfTokenSecretRef: {name: hf, key: token}}";
    apply(&place, "EmbeddingServer", "bge", spec).await;
    await_condition::<EmbeddingServer>(&place, "bge", "Ready", "False", "SecretNotFound").await;
    place.apply("{apiVersion: v1, kind: Secret, metadata: {name: hf}, stringData: {token: x}}").await;
    let set = place.eventually("the StatefulSet", async || place.get::<StatefulSet>("bge-tei").await).await;
    let container = set.spec.unwrap().template.spec.unwrap().containers.swap_remove(0);
    assert_eq!(container.args.unwrap()[..2], ["--model-id", "BAAI/bge-small-en-v1.5"]);
    place.eventually("the Service", async || place.get::<Service>("bge-tei").await).await;
    await_condition::<EmbeddingServer>(&place, "bge", "VolumeReady", "Unknown", "VolumeCreating").await;
    let url = format!("http://bge-tei.{}.svc.cluster.local:8080", place.name);
    let status = async || place.get::<EmbeddingServer>("bge").await.and_then(|server| server.status);
    assert_eq!(status().await.and_then(|status| status.url), Some(url));

    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let pod: Pod = place.eventually("its pod", async || place.get("bge-tei-0").await).await;
    let says = async |ready: bool| {
        let condition = json!({ "type": "Ready", "status": if ready { "True" } else { "False" } });
        let container = json!({
            "name": "embedding", "image": "tei", "imageID": "", "ready": ready, "restartCount": 0, "state": { "running": {} },
        });
        let status = json!({ "status": {
            "phase": "Running", "conditions": [condition], "containerStatuses": [container],
        } });
        let pods = place.api::<Pod>();
        let name = pod.metadata.name.as_deref().unwrap();
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    };
    says(false).await;
    let message =
        await_condition::<EmbeddingServer>(&place, "bge", "Ready", "False", "ModelDownloading").await;
    assert!(message.contains("the model BAAI/bge-small-en-v1.5 is being downloaded"), "{message}");
    says(true).await;
    await_condition::<EmbeddingServer>(&place, "bge", "Ready", "True", "PodsReady").await;
    assert_eq!(status().await.and_then(|status| status.phase), Some(EmbeddingServerPhase::Ready));

    // Without the cache, the volume is not wanted any more.
    place.edit::<EmbeddingServer>("bge", json!({ "spec": { "modelCache": null } })).await;
    place
        .eventually("the claim to be deleted", async || {
            let claim = place.api::<PersistentVolumeClaim>().get_opt("bge-tei").await.unwrap();
            claim.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some()).then_some(())
        })
        .await;
    place.delete::<EmbeddingServer>("bge").await;
    place
        .eventually("nothing to be left", async || {
            let set = place.get::<StatefulSet>("bge-tei").await.is_some();
            (!set && place.get::<Service>("bge-tei").await.is_none()).then_some(())
        })
        .await;
}

/// A StatefulSet and a kubelet report this in events only.
#[tokio::test]
async fn why_a_pod_is_not_made_or_not_started_is_told() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let (place, _operator) = place("refused").await;
    place
        .apply("{apiVersion: v1, kind: ResourceQuota, metadata: {name: none}, spec: {hard: {pods: '0'}}}")
        .await;
    let in_force = async || place.get::<ResourceQuota>("none").await?.status?.hard;
    place.eventually("the quota to be in force", in_force).await;
    apply(&place, "EmbeddingServer", "bge", "{}").await;
    let message = await_condition::<EmbeddingServer>(&place, "bge", "Ready", "False", "PodRefused").await;
    assert!(
        message.contains("exceeded quota") && message.contains("raise the namespace's quota"),
        "{message}"
    );

    place.delete::<ResourceQuota>("none").await;
    let pod: Pod = place.eventually("its pod", async || place.get("bge-tei-0").await).await;
    await_condition::<EmbeddingServer>(&place, "bge", "Ready", "False", "Starting").await;
    let scheduled =
        json!({ "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let status = json!({ "status": { "phase": "Pending", "conditions": [scheduled] } });
    place
        .api::<Pod>()
        .patch_status("bge-tei-0", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    let said = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": "of-the-kubelet" }, "type": "Warning",
        "reason": "FailedMount", "message": "MountVolume.SetUp failed for volume \"ca\" : configmap \"ca\" not found",
        "involvedObject": { "kind": "Pod", "name": "bge-tei-0", "namespace": place.name, "uid": pod.metadata.uid },
        "lastTimestamp": "2999-01-01T00:00:00Z",
    });
    place.apply(&said.to_string()).await;
    let message = await_condition::<EmbeddingServer>(&place, "bge", "Ready", "False", "VolumeMissing").await;
    assert!(message.contains("configmap \"ca\" not found; create it"), "{message}");
    place.remove().await;
}

#[tokio::test]
async fn telemetry_settings_are_judged_with_their_secrets() {
    let (place, _operator) = place("telemetry").await;
    let spec = "{openTelemetry: {enabled: true, endpoint: 'https://collector:4318', tracing: {enabled: true}, \
                sensitiveHeaders: [{name: Authorization, secretKeyRef: {name: otel, key: header}}]}}";
    apply(&place, "MCPTelemetryConfig", "otel", spec).await;
    await_condition::<MCPTelemetryConfig>(&place, "otel", "Valid", "False", "SecretNotFound").await;
    place
        .apply("{apiVersion: v1, kind: Secret, metadata: {name: otel}, stringData: {header: Bearer x}}")
        .await;
    await_condition::<MCPTelemetryConfig>(&place, "otel", "Valid", "True", "ConfigValid").await;
    let bundle = json!({ "configMapRef": { "name": "authority" } });
    place
        .edit::<MCPTelemetryConfig>("otel", json!({ "spec": { "openTelemetry": { "caBundleRef": bundle } } }))
        .await;
    let message =
        await_condition::<MCPTelemetryConfig>(&place, "otel", "Valid", "False", "CABundleInvalid").await;
    assert!(message.contains("kubectl create configmap authority"), "{message}");
    let signed = rcgen::generate_simple_self_signed(["collector".to_owned()]).expect("a certificate");
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "authority" },
        "data": { "ca.crt": signed.cert.pem() },
    });
    place.apply(&map.to_string()).await;
    await_condition::<MCPTelemetryConfig>(&place, "otel", "Valid", "True", "ConfigValid").await;
    apply(&place, "VirtualMCPServer", "x", "{telemetryConfigRef: {name: otel}}").await;
    place
        .eventually("the file of authorities", async || {
            let map = place.get::<ConfigMap>("x-vmcp-config").await?;
            map.data?.get("vmcp.yaml")?.contains("caBundlePath").then_some(())
        })
        .await;
    place
        .edit::<MCPTelemetryConfig>("otel", json!({ "spec": { "openTelemetry": { "endpoint": "ftp://c" } } }))
        .await;
    let message =
        await_condition::<MCPTelemetryConfig>(&place, "otel", "Valid", "False", "ConfigInvalid").await;
    assert!(message.starts_with("spec.openTelemetry: "), "{message}");
}
