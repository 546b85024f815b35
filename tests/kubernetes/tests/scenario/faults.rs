//! Faults around the operator: pods that cannot be asked, rollouts that fail, an API server that refuses
//! writes, missing rights.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use vmcp_crds::{MCPServer, VirtualMCPServer};
use vmcp_kubernetes_tests::{ControlPlane, Namespace, Operator};

use super::backends::{apply, await_condition, deployment, place, set_pod_status};
use super::stand_in::StandIn;

/// Servers whose pods do not answer: more than the reconciles that run at the same time.
const SILENT: usize = 12;

#[tokio::test]
async fn pods_that_do_not_answer_hold_nobody_up_and_are_named() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let (place, operator) = place("silent").await;
    let mut silent = Vec::new();
    for number in 0..SILENT {
        let name = format!("s{number}");
        apply(&place, "VirtualMCPServer", &name, "{}").await;
        silent.push(StandIn::silent(&place, &name).await);
    }
    for number in 0..SILENT {
        let name = format!("s{number}");
        let kind = "PodsReachable";
        let message =
            await_condition::<VirtualMCPServer>(&place, &name, kind, "False", "ConnectionTimedOut").await;
        assert!(message.contains("allow ingress to port 9090"), "{message}");
        let ready = place.condition(&format!("vmcp/{name}"), "Ready").await;
        assert_eq!(ready["status"], "True", "{ready}");
    }
    apply(&place, "VirtualMCPServer", "other", "{}").await;
    deployment(&place, "other").await;

    // A poll takes 3 s here. No reconcile waits for one, else most of them would take as long; a busy machine
    // slows some of them.
    let slow = "vmcp_operator_reconcile_duration_seconds";
    let all = operator.metric(&format!("{slow}_count"), &["VirtualMCPServer"]).await;
    let quick = operator.metric(&format!("{slow}_bucket"), &["VirtualMCPServer", "le=\"2.0\""]).await;
    assert!(quick >= all * 0.5, "{quick} of {all} reconciles took less than 2 s");
    place.remove().await;
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_not_kept() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let (place, _operator) = place("large").await;
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    let (stand_in, _) = StandIn::of(&place, "x").await;
    stand_in.set_report(json!({ "tools": 1, "padding": "x".repeat(1 << 20) }));
    let kind = "PodsReachable";
    let message = await_condition::<VirtualMCPServer>(&place, "x", kind, "False", "AnswerTooLarge").await;
    assert!(message.contains("divide the backends"), "{message}");
    place.remove().await;
}

#[tokio::test]
async fn the_report_of_many_backends_is_read() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let (place, _operator) = place("many").await;
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    let (stand_in, _) = StandIn::of(&place, "x").await;
    let error = "e".repeat(400);
    let backend = |number| json!({ "name": format!("b{number}"), "state": "failed", "lastError": error });
    let backends: Vec<_> = (0..1000).map(backend).collect();
    stand_in.set_report(json!({ "tools": 1, "backends": backends }));
    let kind = "PodsReachable";
    await_condition::<VirtualMCPServer>(&place, "x", kind, "True", "PodsReachable").await;
    place.remove().await;
}

/// Writes into the status of the newest pod of a VirtualMCPServer that its image cannot be pulled.
async fn fail_newest_pod(place: &Namespace, server: &str, image: &str) {
    let labels = format!("app.kubernetes.io/instance={server},app.kubernetes.io/name=vmcp");
    let with_image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some(image);
    let newest = async || place.list::<Pod>(&labels).await.into_iter().find(with_image);
    let pod = place.eventually("a pod with the new image", newest).await;
    let waiting = json!({ "waiting": { "reason": "ErrImagePull", "message": "not found" } });
    let status = json!({ "status": { "phase": "Pending", "containerStatuses": [
        { "name": "vmcp", "image": image, "imageID": "", "ready": false, "restartCount": 0, "state": waiting, "lastState": {} },
    ] } });
    let (pods, patch) = (place.api::<Pod>(), Patch::Merge(status));
    pods.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await.expect("patched");
}

#[tokio::test]
async fn a_rollout_that_fails_is_stalled_while_the_old_pods_serve() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let (place, _operator) = place("rollout").await;
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    let (stand_in, _) = StandIn::of(&place, "x").await;
    stand_in.set_report(json!({ "tools": 1 }));
    let is = async |kind: &str, status: &str, reason: &str| {
        await_condition::<VirtualMCPServer>(&place, "x", kind, status, reason).await
    };
    is("PodsReachable", "True", "PodsReachable").await;

    place.edit::<VirtualMCPServer>("x", json!({ "spec": { "image": "vmcp:typo" } })).await;
    fail_newest_pod(&place, "x", "vmcp:typo").await;
    let message = is("Stalled", "True", "ImagePullFailed").await;
    assert!(message.contains("cannot pull image vmcp:typo"), "{message}");
    is("Degraded", "True", "SomePodsFail").await;
    let status = place.json("vmcp/x").await["status"].take();
    assert_eq!(status["phase"], "Degraded", "{status}");
    assert_eq!(place.condition("vmcp/x", "Ready").await["status"], "True");
    assert!(status["message"].as_str().is_some_and(|message| message.contains("vmcp:typo")), "{status}");
    place.remove().await;
}

/// Returns a webhook that no Deployment of the namespace passes: it is never there.
fn broken_webhook(place: &Namespace) -> String {
    let rule = json!({ "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"] });
    let webhook = json!({
        "name": "broken.example.com", "rules": [rule], "failurePolicy": "Fail", "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "timeoutSeconds": 1,
        "clientConfig": { "url": "https://127.0.0.1:1/validate" },
        "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": place.name } },
    });
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": format!("broken-{}", place.name) }, "webhooks": [webhook],
    })
    .to_string()
}

#[tokio::test]
async fn a_fault_of_the_api_server_leaves_ready_alone() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let (place, _operator) = place("fault").await;
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    let (stand_in, _) = StandIn::of(&place, "x").await;
    stand_in.set_report(json!({ "tools": 1 }));
    let is = async |kind: &str, status: &str, reason: &str| {
        await_condition::<VirtualMCPServer>(&place, "x", kind, status, reason).await
    };
    is("Ready", "True", "Unauthenticated").await;

    place.apply(&broken_webhook(&place)).await;
    place.edit::<VirtualMCPServer>("x", json!({ "spec": { "image": "vmcp:next" } })).await;
    let message = is("Reconciled", "False", "ApiUnavailable").await;
    assert!(message.contains("broken.example.com"), "{message}");
    assert_eq!(place.condition("vmcp/x", "Ready").await["status"], "True");

    let name = format!("broken-{}", place.name);
    let delete = ["delete", "validatingwebhookconfiguration", &name];
    place.cluster().kubectl(&delete).await.expect("deleted");
    place
        .eventually("the fault to be over", async || {
            (place.condition("vmcp/x", "Reconciled").await == Value::Null).then_some(())
        })
        .await;
    place.remove().await;
}

#[tokio::test]
async fn a_refused_edit_degrades_a_server_that_serves() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let (place, _operator) = place("edit").await;
    apply(&place, "MCPServer", "time", "{image: 'x:1', transport: streamable-http, mcpPort: 3000}").await;
    set_pod_status(&place, "time", true, json!({ "state": { "running": {} } })).await;
    await_condition::<MCPServer>(&place, "time", "Ready", "True", "PodsReady").await;
    await_condition::<MCPServer>(&place, "time", "Stalled", "False", "NotStalled").await;

    let typo = json!({ "spec": { "podTemplateSpec": { "spec": { "nodeSelektor": { "a": "b" } } } } });
    place.edit::<MCPServer>("time", typo).await;
    let message = await_condition::<MCPServer>(&place, "time", "Ready", "True", "PodTemplateInvalid").await;
    assert!(message.contains("the previous version still serves"), "{message}");
    await_condition::<MCPServer>(&place, "time", "Stalled", "True", "PodTemplateInvalid").await;
    assert_eq!(place.json("mcpserver/time").await["status"]["phase"], "Degraded");
    place.remove().await;
}

#[tokio::test]
async fn an_operator_without_rights_is_never_ready_and_ends_naming_the_kind() {
    let cluster = ControlPlane::shared().await;
    let place = cluster.namespace("rights").await;
    // The node's user may read pods and little else.
    let kubeconfig = cluster.kubeconfig().with_file_name("node.kubeconfig").display().to_string();
    let variables =
        [("LEADER_ELECT", "false"), ("KUBECONFIG", kubeconfig.as_str()), ("SYNC_TIMEOUT_SECONDS", "8")];
    let mut operator = Operator::begin(&place, "powerless", &variables).await;
    let said = place
        .eventually("a word about the missing rights", async || {
            let (ready, text) = operator.readiness().await?;
            assert!(!ready, "{text}");
            text.contains("VirtualMCPServer").then_some(text)
        })
        .await;
    assert!(said.contains("forbidden") || said.contains("no answer yet"), "{said}");
    assert!(!operator.process.ended().await.success());
    let log = operator.process.output();
    assert!(log.contains("grant the rights of the chart") && log.contains("VirtualMCPServer"), "{log}");
    place.remove().await;
}

#[tokio::test]
async fn a_setting_that_is_read_at_start_replaces_the_pods_and_no_other_does() {
    let (place, operator) = place("start").await;
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    let annotation = async || {
        let spec = place.get::<Deployment>("x").await?.spec?;
        spec.template.metadata?.annotations?.remove("toolhive.stacklok.com/start-settings")
    };
    let before = place.eventually("the digest of its settings", &annotation).await;
    operator.at_rest(&place, "VirtualMCPServer", 2).await;

    let hot = json!({ "spec": { "config": { "aggregation": { "conflictResolution": "prefix" } } } });
    let edited = place.edit::<VirtualMCPServer>("x", hot).await;
    place
        .eventually("the edit to be applied", async || {
            let status = place.get::<VirtualMCPServer>("x").await?.status?;
            (status.observed_generation == edited.metadata.generation).then_some(())
        })
        .await;
    assert_eq!(annotation().await.as_ref(), Some(&before));

    let hosts = json!({ "spec": { "config": { "server": { "allowedHosts": ["tools.example.com"] } } } });
    place.edit::<VirtualMCPServer>("x", hosts).await;
    place
        .eventually("another pod template", async || {
            annotation().await.is_some_and(|now| now != before).then_some(())
        })
        .await;
    place.remove().await;
}
