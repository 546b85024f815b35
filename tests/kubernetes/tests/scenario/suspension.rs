//! Suspension, restart and web console of a VirtualMCPServer on a real API server.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use vmcp_crds::virtual_mcp_server::{Phase, RESTARTED_AT};
use vmcp_crds::{MCPServer, VirtualMCPServer};
use vmcp_kubernetes_tests::Namespace;

use super::backends::{apply, assert_writes_nothing, await_condition, deployment, place};

/// Annotation of the Deployment with the number of pods to come back to.
const KEPT: &str = "toolhive.stacklok.com/replicas-before-suspension";

/// Waits until the Deployment asks for this number of pods, and keeps that one.
async fn await_replicas(place: &Namespace, replicas: i32, kept: Option<&str>) {
    place
        .eventually(&format!("{replicas} pods, and {kept:?} kept"), async || {
            let found = place.get::<Deployment>("x").await?;
            let is_kept = found.annotations().get(KEPT).map(String::as_str) == kept;
            (is_kept && found.spec?.replicas == Some(replicas)).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_suspended_server_loses_its_pods_alone_and_gets_as_many_back() {
    let (place, operator) = place("suspended").await;
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    deployment(&place, "x").await;
    // As an autoscaler or `kubectl scale` does.
    place.edit::<Deployment>("x", json!({ "spec": { "replicas": 3 } })).await;
    let uids = async || {
        Some([
            place.get::<Deployment>("x").await?.uid()?,
            place.get::<Service>("vmcp-x").await?.uid()?,
            place.get::<ConfigMap>("x-vmcp-config").await?.uid()?,
            place.get::<Secret>("x-vmcp-secrets").await?.uid()?,
        ])
    };
    let before = place.eventually("all objects", async || uids().await).await;
    // The operator has seen the number by then.
    assert_writes_nothing::<VirtualMCPServer>(&place, &operator, "x").await;

    place.edit::<VirtualMCPServer>("x", json!({ "spec": { "suspend": true } })).await;
    await_replicas(&place, 0, Some("3")).await;
    let message = await_condition::<VirtualMCPServer>(&place, "x", "Ready", "False", "Suspended").await;
    assert!(message.contains("vmcp start --kubernetes x"), "{message}");
    let status = place.get::<VirtualMCPServer>("x").await.and_then(|server| server.status);
    assert_eq!(status.and_then(|status| status.phase), Some(Phase::Suspended));
    assert_writes_nothing::<VirtualMCPServer>(&place, &operator, "x").await;
    await_replicas(&place, 0, Some("3")).await;

    place.edit::<VirtualMCPServer>("x", json!({ "spec": { "suspend": false } })).await;
    await_replicas(&place, 3, None).await;
    assert_writes_nothing::<VirtualMCPServer>(&place, &operator, "x").await;
    await_replicas(&place, 3, None).await;
    assert_eq!(uids().await, Some(before), "nothing was deleted");

    // The number is left to others again.
    place.edit::<Deployment>("x", json!({ "spec": { "replicas": 5 } })).await;
    let restart = "2026-01-02T03:04:05Z";
    place
        .edit::<VirtualMCPServer>("x", json!({ "metadata": { "annotations": { RESTARTED_AT: restart } } }))
        .await;
    place
        .eventually("the restart in the pod template", async || {
            let template = place.get::<Deployment>("x").await?.spec?.template;
            (template.metadata?.annotations?.get(RESTARTED_AT)? == restart).then_some(())
        })
        .await;
    place
        .eventually("the restart in the status", async || {
            let told = place.get::<VirtualMCPServer>("x").await?.status?.restarted_at?;
            (told == restart).then_some(())
        })
        .await;
    await_replicas(&place, 5, None).await;
    place.remove().await;
}

#[tokio::test]
async fn the_console_is_reached_by_a_service_only_where_the_resource_asks_for_it() {
    let (place, operator) = place("console").await;
    let manifest = |console: &str| {
        format!(
            "{{apiVersion: toolhive.stacklok.com/v1alpha1, kind: VirtualMCPServer, metadata: {{name: x}}, \
             spec: {{console: {console}}}}}"
        )
    };
    for (console, says) in [
        ("{access: oidc}", "give console.signIn"),
        ("{access: tokens}", "give console.operatorTokenSecretRefs or console.viewerTokenSecretRefs"),
        ("{viewerTokens: [inline]}", "viewerTokens"),
    ] {
        let refused = place.try_apply(&manifest(console)).await.unwrap_err().to_string();
        assert!(refused.contains(says), "{console}: {refused}");
    }
    place.apply(&manifest("{access: tokens, viewerTokenSecretRefs: [{name: viewers, key: first}]}")).await;
    await_condition::<VirtualMCPServer>(&place, "x", "ConfigValid", "False", "SecretNotFound").await;
    place
        .apply(
            "{apiVersion: v1, kind: Secret, metadata: {name: viewers}, \
             stringData: {first: 'rJ2yk7Qm-viewer-token'}}",
        )
        .await;
    await_condition::<VirtualMCPServer>(&place, "x", "ConfigValid", "True", "Valid").await;
    let text = async || place.get::<ConfigMap>("x-vmcp-config").await?.data?.remove("vmcp.yaml");
    let mounted = place.eventually("the configuration", async || text().await).await;
    assert!(mounted.contains("console: tokens"), "{mounted}");
    assert!(mounted.contains("${file:/etc/vmcp/secrets/viewers_first}"), "{mounted}");
    assert!(!mounted.contains("rJ2yk7Qm"), "no value is in the ConfigMap: {mounted}");
    let service = place.eventually("the Service", async || place.get::<Service>("x-console").await).await;
    let spec = service.spec.expect("a spec");
    assert_eq!(
        (spec.type_.as_deref(), spec.session_affinity.as_deref()),
        (Some("ClusterIP"), Some("ClientIP"))
    );
    assert_eq!(spec.ports.expect("ports")[0].port, 9090);
    assert_writes_nothing::<VirtualMCPServer>(&place, &operator, "x").await;

    place.edit::<VirtualMCPServer>("x", json!({ "spec": { "console": { "access": "loopback" } } })).await;
    place
        .eventually("no Service", async || place.get::<Service>("x-console").await.is_none().then_some(()))
        .await;
    place
        .eventually("the console on loopback", async || {
            text().await.filter(|text| text.contains("console: loopback")).map(drop)
        })
        .await;
    place.remove().await;
}

#[tokio::test]
async fn a_paused_resource_is_left_alone_until_it_goes_on() {
    let (place, _operator) = place("paused").await;
    apply(&place, "MCPServer", "time", "{image: 'x:1', command: [run]}").await;
    deployment(&place, "mcp-time").await;
    place.eventually("its Service", async || place.get::<Service>("mcp-time").await).await;
    let paused =
        |value: Value| json!({ "metadata": { "annotations": { "toolhive.stacklok.com/paused": value } } });
    place.edit::<MCPServer>("time", paused(json!("true"))).await;
    let message = await_condition::<MCPServer>(&place, "time", "Paused", "True", "Paused").await;
    assert!(message.contains("remove the annotation"), "{message}");
    place.edit::<MCPServer>("time", json!({ "spec": { "image": "x:2" } })).await;
    place.delete::<Service>("mcp-time").await;
    // A server beside it is reconciled meanwhile.
    apply(&place, "MCPServer", "other", "{image: 'x:1', command: [run]}").await;
    deployment(&place, "mcp-other").await;
    let image = async || {
        let mut pod = place.get::<Deployment>("mcp-time").await?.spec?.template.spec?;
        pod.containers.swap_remove(0).image
    };
    assert_eq!(image().await.as_deref(), Some("x:1"));
    assert!(place.get::<Service>("mcp-time").await.is_none());

    place.edit::<MCPServer>("time", paused(json!(null))).await;
    place.eventually("its Service again", async || place.get::<Service>("mcp-time").await).await;
    let edited = async || (image().await.as_deref() == Some("x:2")).then_some(());
    place.eventually("the edit", edited).await;
    let goes_on = async || place.condition("mcpserver/time", "Paused").await.is_null().then_some(());
    place.eventually("the condition to go", goes_on).await;
    place.remove().await;
}
