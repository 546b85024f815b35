//! VirtualMCPServer on a real API server: objects made, repaired, left alone, and the status.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::DeleteParams;
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::json;
use vmcp_crds::{MCPServerEntry, VirtualMCPServer};
use vmcp_kubernetes_tests::{ControlPlane, Namespace, Operator, Stopwatch};

use super::backends::{accept_everything, apply, place, set_pod_status};
use super::stand_in::{StandIn, admin_token};

/// Manifest of the RFC, whose group does not exist.
const RFC: &str = "apiVersion: toolhive.stacklok.com/v1alpha1
kind: VirtualMCPServer
metadata: {name: vmcp-with-optimizer}
spec:
  groupRef: {name: engineering-team}
  optimizer:
    enabled: true
    storage: {type: sqlite}
    embeddings:
      provider: tei
      tei: {endpoint: 'http://tei-service:8080', model: BAAI/bge-small-en-v1.5}";

/// Manifest of a server without settings.
const PLAIN: &str =
    "{apiVersion: toolhive.stacklok.com/v1alpha1, kind: VirtualMCPServer, metadata: {name: x}, spec: {}}";

async fn condition(place: &Namespace, server: &str, kind: &str) -> Option<(String, String, String)> {
    let status = place.get::<VirtualMCPServer>(server).await?.status?;
    let found = status.conditions.into_iter().find(|condition| condition.type_ == kind)?;
    Some((found.status, found.reason, found.message))
}

/// Waits for a condition and returns its message.
async fn await_condition(place: &Namespace, server: &str, kind: &str, status: &str, reason: &str) -> String {
    place
        .eventually(&format!("{kind}={status} ({reason})"), async || {
            let (is, because, message) = condition(place, server, kind).await?;
            (is == status && because == reason).then_some(message)
        })
        .await
}

/// The kind that [`Operator::at_rest`] looks at here.
const KIND: &str = "VirtualMCPServer";

/// Waits until two reconciles in a row wrote nothing.
async fn at_rest(place: &Namespace, operator: &Operator) {
    operator.at_rest(place, KIND, 2).await;
}

/// Adds the resource versions of all objects of a kind that the operator made here.
async fn collect_versions<K>(place: &Namespace, versions: &mut BTreeMap<String, String>)
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    for object in place.list::<K>("app.kubernetes.io/managed-by=vmcp-operator").await {
        let owner = &object.owner_references()[0];
        assert_eq!((owner.kind.as_str(), owner.controller), ("VirtualMCPServer", Some(true)));
        let name = format!("{}/{}", K::kind(&()), object.name_any());
        versions.insert(name, object.resource_version().expect("a version"));
    }
}

/// Returns the resource versions of all objects that the operator made here.
async fn versions(place: &Namespace) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    collect_versions::<ServiceAccount>(place, &mut versions).await;
    collect_versions::<ConfigMap>(place, &mut versions).await;
    collect_versions::<Secret>(place, &mut versions).await;
    collect_versions::<Service>(place, &mut versions).await;
    collect_versions::<Deployment>(place, &mut versions).await;
    versions
}

/// Returns the time at which the last of the objects was made that the operator made here.
async fn last_creation(place: &Namespace) -> Time {
    let managed = "app.kubernetes.io/managed-by=vmcp-operator";
    let mut made = Vec::new();
    made.extend(place.list::<ServiceAccount>(managed).await.into_iter().map(|object| object.metadata));
    made.extend(place.list::<ConfigMap>(managed).await.into_iter().map(|object| object.metadata));
    made.extend(place.list::<Secret>(managed).await.into_iter().map(|object| object.metadata));
    made.extend(place.list::<Service>(managed).await.into_iter().map(|object| object.metadata));
    made.extend(place.list::<Deployment>(managed).await.into_iter().map(|object| object.metadata));
    made.into_iter()
        .filter_map(|metadata| metadata.creation_timestamp)
        .max_by_key(|at| at.0)
        .expect("objects")
}

#[tokio::test]
async fn the_rfcs_manifest_makes_everything_once_and_nothing_twice() {
    let (place, operator) = place("rfc").await;
    let watch = Stopwatch::start(&place).await;
    place.apply(RFC).await;
    await_condition(&place, "vmcp-with-optimizer", "GroupRefValidated", "False", "GroupRefNotFound").await;
    at_rest(&place, &operator).await;

    let before = versions(&place).await;
    let names: Vec<_> = before.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "ConfigMap/vmcp-with-optimizer-vmcp-config",
            "Deployment/vmcp-with-optimizer",
            "Secret/vmcp-with-optimizer-vmcp-secrets",
            "Service/vmcp-vmcp-with-optimizer",
            "Service/vmcp-vmcp-with-optimizer-peers",
            "ServiceAccount/vmcp-with-optimizer-vmcp",
        ]
    );
    watch.assert_within(Duration::from_secs(30), "everything is made", &last_creation(&place).await);
    let (written, reconciled) = (operator.writes().await, operator.reconciles(KIND).await);
    let touched = json!({"metadata": {"annotations": {"touched": "1"}}});
    place.edit::<VirtualMCPServer>("vmcp-with-optimizer", touched).await;
    place
        .eventually("another reconcile", async || {
            (operator.reconciles(KIND).await > reconciled).then_some(())
        })
        .await;
    assert_eq!(operator.writes().await, written, "not even a patch that changes nothing");
    assert_eq!(versions(&place).await, before);

    // A restarted operator, which remembers nothing, writes nothing either.
    drop(operator);
    let again = Operator::with(&place, "again", &[("LEADER_ELECT", "false")]).await;
    at_rest(&place, &again).await;
    assert_eq!(again.writes().await, 0);

    let status = place.get::<VirtualMCPServer>("vmcp-with-optimizer").await.unwrap().status.unwrap();
    assert_eq!(
        status.url.unwrap(),
        format!("http://vmcp-vmcp-with-optimizer.{}.svc.cluster.local:4483/mcp", place.name)
    );
    place.remove().await;
}

#[tokio::test]
async fn what_is_deleted_or_edited_by_hand_is_repaired() {
    let (place, operator) = place("repair").await;
    place.apply(PLAIN).await;
    place.eventually("the Deployment", async || place.get::<Deployment>("x").await).await;
    at_rest(&place, &operator).await;
    let secret = place.get::<Secret>("x-vmcp-secrets").await.unwrap().data;

    let watch = Stopwatch::start(&place).await;
    place.delete::<Deployment>("x").await;
    let again = place.eventually("the Deployment again", async || place.get::<Deployment>("x").await).await;
    let made = again.metadata.creation_timestamp.expect("a time");
    watch.assert_within(Duration::from_secs(10), "a deleted Deployment is made again", &made);

    place.edit::<ConfigMap>("x-vmcp-config", json!({"data": {"vmcp.yaml": "gone"}})).await;
    place.edit::<Service>("vmcp-x", json!({"spec": {"sessionAffinity": "None"}})).await;
    place
        .eventually("the text and the affinity as they were", async || {
            let text = place.get::<ConfigMap>("x-vmcp-config").await?.data?.remove("vmcp.yaml")?;
            let affinity = place.get::<Service>("vmcp-x").await?.spec?.session_affinity?;
            (text != "gone" && affinity == "ClientIP").then_some(())
        })
        .await;

    // Fields of others stay: a restart by hand, the number of pods of an autoscaler.
    let others = json!({"spec": {"replicas": 3, "template": {"metadata": {"annotations": {
        "kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}}}}});
    place.edit::<Deployment>("x", others).await;
    at_rest(&place, &operator).await;
    let spec = place.get::<Deployment>("x").await.unwrap().spec.unwrap();
    assert_eq!(spec.replicas, Some(3));
    assert!(
        spec.template
            .metadata
            .unwrap()
            .annotations
            .unwrap()
            .contains_key("kubectl.kubernetes.io/restartedAt")
    );
    assert_eq!(place.get::<Secret>("x-vmcp-secrets").await.unwrap().data, secret, "made up once, and kept");
    place.remove().await;
}

#[tokio::test]
async fn what_is_not_wanted_any_more_goes_and_deletion_leaves_nothing() {
    let cluster = ControlPlane::shared().await;
    let (place, operator) = place("deletion").await;
    place.apply(&PLAIN.replace("spec: {}", "spec: {networkPolicy: {enabled: true}}")).await;
    place.eventually("the policy", async || place.get::<NetworkPolicy>("x-vmcp").await).await;
    place.edit::<VirtualMCPServer>("x", json!({"spec": {"networkPolicy": null}})).await;
    place
        .eventually("no policy", async || place.get::<NetworkPolicy>("x-vmcp").await.is_none().then_some(()))
        .await;
    at_rest(&place, &operator).await;

    place.delete::<VirtualMCPServer>("x").await;
    if !cluster.skips_without_controllers() {
        place.eventually("nothing", async || versions(&place).await.is_empty().then_some(())).await;
    }
    place.remove().await;
}

#[tokio::test]
async fn an_invalid_configuration_leaves_the_last_good_one_alone() {
    let (place, operator) = place("invalid").await;
    place.apply(PLAIN).await;
    await_condition(&place, "x", "ConfigValid", "True", "Valid").await;
    at_rest(&place, &operator).await;
    let good = place.get::<ConfigMap>("x-vmcp-config").await.unwrap().data;

    let needs_secret = json!({"spec": {"optimizer": {"enabled": true, "embeddings": {"provider": "openai", "openai": {
        "endpoint": "https://embeddings.example.com", "model": "m", "apiKeySecretRef": {"name": "key", "key": "k"}}}}}});
    // A Secret of the embeddings that is missing takes away the embeddings alone.
    place.edit::<VirtualMCPServer>("x", needs_secret).await;
    let message = await_condition(&place, "x", "EmbeddingsReady", "False", "SecretNotFound").await;
    assert!(message.contains("kubectl create secret generic key"), "a remedy: {message}");
    await_condition(&place, "x", "ConfigValid", "True", "Valid").await;
    assert_ne!(place.get::<ConfigMap>("x-vmcp-config").await.unwrap().data, good, "the rest is in force");

    place.apply("{apiVersion: v1, kind: Secret, metadata: {name: key}, stringData: {k: very-secret}}").await;
    let text = place
        .eventually("the embeddings in the configuration", async || {
            let text = place.get::<ConfigMap>("x-vmcp-config").await?.data?.remove("vmcp.yaml")?;
            text.contains("embeddings.example.com").then_some(text)
        })
        .await;
    assert!(!text.contains("very-secret"), "{text}");
    // Written after the configuration.
    place
        .eventually("the value in the Secret", async || {
            let values = place.get::<Secret>("x-vmcp-secrets").await?.data?;
            values.values().any(|value| value.0 == b"very-secret").then_some(())
        })
        .await;

    // The last good configuration comes back, and everything that does not depend on the mistake follows.
    let good = place.get::<ConfigMap>("x-vmcp-config").await.unwrap().data;
    let prefix = json!({"conflictResolutionConfig": {"prefixFormat": "{nobody}_"}});
    let bad = json!({"spec": {"config": {"aggregation": prefix}}});
    place.edit::<VirtualMCPServer>("x", bad).await;
    await_condition(&place, "x", "ConfigValid", "False", "InvalidConfiguration").await;
    at_rest(&place, &operator).await;
    place.delete::<Deployment>("x").await;
    place.delete::<ConfigMap>("x-vmcp-config").await;
    place.delete::<Secret>("x-vmcp-secrets").await;
    place.edit::<VirtualMCPServer>("x", json!({"spec": {"replicas": 2}})).await;
    place
        .eventually("everything as it was, and two pods", async || {
            let text = place.get::<ConfigMap>("x-vmcp-config").await?.data;
            let values = place.get::<Secret>("x-vmcp-secrets").await?.data?;
            let replicas = place.get::<Deployment>("x").await?.spec?.replicas;
            let known = values.values().any(|value| value.0 == b"very-secret");
            (text == good && known && values.contains_key("admin-token") && replicas == Some(2)).then_some(())
        })
        .await;
    place.edit::<VirtualMCPServer>("x", json!({"spec": {"config": null}})).await;
    await_condition(&place, "x", "ConfigValid", "True", "Valid").await;

    let template =
        json!({"spec": {"podTemplateSpec": {"spec": {"containers": [{"name": "vmcp", "imagee": "y"}]}}}});
    place.edit::<VirtualMCPServer>("x", template).await;
    let message =
        await_condition(&place, "x", "PodTemplateSpecValid", "False", "InvalidPodTemplateSpec").await;
    assert!(message.contains("spec.podTemplateSpec.spec.containers[0].imagee"), "{message}");
    place.remove().await;
}

#[tokio::test]
async fn what_belongs_to_somebody_else_is_left_alone() {
    let (place, _operator) = place("taken").await;
    place
        .apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: x-vmcp-config}, data: {mine: '1'}}")
        .await;
    place.apply(PLAIN).await;
    let message = await_condition(&place, "x", "Ready", "False", "NameTaken").await;
    assert!(message.contains("x-vmcp-config"), "{message}");
    let mine = place.get::<ConfigMap>("x-vmcp-config").await.unwrap();
    assert!(mine.owner_references().is_empty() && mine.data.unwrap().len() == 1);

    place.delete::<ConfigMap>("x-vmcp-config").await;
    await_condition(&place, "x", "Ready", "False", "Starting").await;
    place.remove().await;
}

#[tokio::test]
async fn a_malformed_object_stops_nobody_else() {
    let cluster = ControlPlane::start_without_controllers().await;
    let place = cluster.namespace("malformed").await;
    let _operator = Operator::start(&place).await;
    accept_everything(&cluster, "virtualmcpservers").await;
    let bad = PLAIN.replace("name: x}, spec: {}", "name: bad}, spec: {replicas: many}");
    place.eventually("the schema to be open", async || place.try_apply(&bad).await.ok()).await;
    let status = place
        .eventually("a word about it", async || {
            let status = place.json("vmcp/bad").await["status"].take();
            status.is_object().then_some(status)
        })
        .await;
    assert_eq!(status["conditions"][0]["reason"], "Malformed");
    assert!(status["conditions"][0]["message"].as_str().unwrap().contains("spec.replicas"), "{status}");

    place.apply(PLAIN).await;
    place.eventually("the other's Deployment", async || place.get::<Deployment>("x").await).await;
}

#[tokio::test]
async fn the_status_is_what_the_pods_say() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let (place, operator) = place("status").await;
    place.apply(PLAIN).await;
    place
        .apply("{apiVersion: toolhive.stacklok.com/v1alpha1, kind: MCPServerEntry, metadata: {name: docs}, spec: {remoteUrl: 'https://docs.example.com/mcp'}}")
        .await;
    let text = place
        .eventually("the backend in the configuration", async || {
            let text = place.get::<ConfigMap>("x-vmcp-config").await?.data?.remove("vmcp.yaml")?;
            text.contains("docs.example.com").then_some(text)
        })
        .await;
    let (stand_in, pod) = StandIn::of(&place, "x").await;
    let pods: Api<Pod> = place.api();
    stand_in.set_report(json!({"tools": 4, "configuration": {"digest": "old"}, "backends": [
        {"name": "docs", "state": "connected", "revision": "2026-07-28", "tools": 4}]}));

    // The pod says that it has another text, so the operator touches it to make the kubelet look.
    place
        .eventually("the touched annotation", async || {
            let pod = pods.get(&pod.name_any()).await.ok()?;
            pod.annotations().contains_key("toolhive.stacklok.com/configuration").then_some(())
        })
        .await;
    let digest = vmcp_config::status::digest(&text);
    stand_in.set_report(json!({"tools": 4, "configuration": {"digest": digest}, "backends": [
        {"name": "docs", "state": "connected", "revision": "2026-07-28", "tools": 4}]}));
    let status = place
        .eventually("a server that is ready", async || {
            let status = place.get::<VirtualMCPServer>("x").await?.status?;
            (status.config_digest.as_ref() == Some(&digest) && status.tool_count == Some(4)).then_some(status)
        })
        .await;
    assert_eq!(format!("{:?}", status.phase), "Some(Ready)");
    assert_eq!((status.backend_count, status.ready_replicas), (Some(1), 1));
    assert_eq!(status.discovered_backends[0].mcp_revision.as_deref(), Some("2026-07-28"));
    at_rest(&place, &operator).await;

    stand_in.set_report(json!({"tools": 0, "configuration": {"digest": digest}, "backends": [
        {"name": "docs", "state": "failed", "lastError": "connection refused"}]}));
    let message = await_condition(&place, "x", "Degraded", "True", "BackendsUnavailable").await;
    assert!(message.contains("docs") && message.contains("connection refused"), "{message}");

    // A deleted backend leaves the configuration and the status; the pod stays.
    place.delete::<MCPServerEntry>("docs").await;
    place
        .eventually("no backend", async || {
            let status = place.get::<VirtualMCPServer>("x").await?.status?;
            status.discovered_backends.is_empty().then_some(())
        })
        .await;
    assert_eq!(pods.get(&pod.name_any()).await.unwrap().uid(), pod.uid());
    place.remove().await;
}

#[tokio::test]
async fn a_backend_that_does_not_run_is_explained_by_what_is_wrong_with_it() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let (place, _operator) = place("backend").await;
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    apply(&place, "MCPServer", "broken", "{image: 'x:1', transport: streamable-http, mcpPort: 3000}").await;
    let pull = json!({ "state": { "waiting": { "reason": "ErrImagePull", "message": "x:1: not found" } } });
    set_pod_status(&place, "broken", false, pull).await;
    let (stand_in, _) = StandIn::of(&place, "x").await;
    stand_in.set_report(
        json!({"backends": [{"name": "broken", "state": "failed", "lastError": "connection refused"}]}),
    );

    let explained = async || {
        let (.., message) = condition(&place, "x", "Degraded").await?;
        message.contains("MCPServer broken is Failed").then_some(message)
    };
    let message = place.eventually("the reason", explained).await;
    assert!(message.contains("cannot pull image x:1: x:1: not found"), "{message}");
    assert!(message.contains("see `kubectl describe mcpserver broken"), "{message}");
    let status = place.get::<VirtualMCPServer>("x").await.unwrap().status.unwrap();
    assert!(message.contains(status.discovered_backends[0].message.as_ref().unwrap()), "{status:?}");

    set_pod_status(&place, "broken", true, json!({ "state": { "running": {} } })).await;
    let recovered = async || {
        let status = place.get::<VirtualMCPServer>("x").await?.status?;
        (status.discovered_backends[0].message.as_deref() == Some("connection refused")).then_some(())
    };
    place.eventually("the reason to go with the trouble", recovered).await;
    place.remove().await;
}

/// Until the kubelet brings the new token to the pod, the pod wants the old one.
#[tokio::test]
async fn a_new_token_is_seamless() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let (place, _operator) = place("token").await;
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    let before = admin_token(&place, "x").await;
    let (stand_in, _) = StandIn::of(&place, "x").await;
    let says = async |tools: i32| {
        stand_in.set_report(json!({"tools": tools}));
        place
            .eventually(&format!("{tools} tools"), async || {
                let status = place.get::<VirtualMCPServer>("x").await?.status?;
                (status.tool_count == Some(tools)).then_some(())
            })
            .await;
    };
    says(1).await;
    let token = place
        .eventually("a new token", async || {
            let token = admin_token(&place, "x").await;
            if token == before {
                // A reconcile under way may put the old token back: then the Secret is deleted once more.
                let secrets: Api<Secret> = place.api();
                drop(secrets.delete("x-vmcp-secrets", &DeleteParams::default()).await);
                return None;
            }
            Some(token)
        })
        .await;
    says(2).await;
    stand_in.set_token(&token);
    says(3).await;
    place.remove().await;
}
