//! Guards of MCPServers, by the bridge in their pods; tokens of ServiceAccounts; and ToolHive's registry
//! server.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use vmcp_crds::{MCPOIDCConfig, MCPRegistry, MCPServer, VirtualMCPServer};
use vmcp_kubernetes_tests::{ControlPlane, Operator};

use super::backends::await_condition;

const GUARDED: &str = "
apiVersion: toolhive.stacklok.com/v1alpha1
kind: MCPServer
metadata: {name: fetch}
spec:
  image: 'x:1'
  transport: streamable-http
  mcpPort: 8080
  oidcConfigRef: {name: cluster, audience: fetch, scopes: [openid]}
  authzConfig: {type: inline, inline: {policies: ['permit(principal, action, resource);']}}
  audit: {enabled: true}
---
apiVersion: toolhive.stacklok.com/v1alpha1
kind: VirtualMCPServer
metadata: {name: x}
spec: {}";

const CLUSTER: &str = "
apiVersion: toolhive.stacklok.com/v1alpha1
kind: MCPOIDCConfig
metadata: {name: cluster}
spec: {type: kubernetesServiceAccount, kubernetesServiceAccount: {}}";

#[tokio::test]
async fn a_guarded_server_has_a_bridge_that_verifies_tokens_by_the_keys_of_the_api_server() {
    let place = ControlPlane::shared().await.namespace("guarded").await;
    let _operator = Operator::start(&place).await;
    place.apply(GUARDED).await;
    // Nothing runs open until its guards can be followed.
    let message = await_condition::<MCPServer>(&place, "fetch", "Valid", "False", "ConfigInvalid").await;
    assert!(message.contains("there is no MCPOIDCConfig cluster"), "{message}");
    assert!(place.get::<Deployment>("mcp-fetch").await.is_none());

    place.apply(CLUSTER).await;
    await_condition::<MCPOIDCConfig>(&place, "cluster", "Valid", "True", "ConfigValid").await;
    let deployment =
        place.eventually("the Deployment", async || place.get::<Deployment>("mcp-fetch").await).await;
    let pod = deployment.spec.and_then(|spec| spec.template.spec).expect("a pod");
    let names: Vec<_> = pod.containers.iter().map(|container| container.name.as_str()).collect();
    assert_eq!(names, ["mcp", "bridge"]);
    let map = place.get::<ConfigMap>("mcp-fetch-guards").await.and_then(|map| map.data).expect("guards");
    let text = &map["guards.yaml"];
    assert!(
        text.contains("jwksPath: ")
            && text.contains("/etc/vmcp/secrets/key-set-")
            && text.contains("audience: fetch"),
        "{text}"
    );
    let secret_data =
        place.get::<Secret>("mcp-fetch-admin").await.and_then(|secret| secret.data).expect("values");
    let (_, keys) = secret_data.iter().find(|(file, _)| file.starts_with("key-set-")).expect("the keys");
    let keys: Value = serde_json::from_slice(&keys.0).expect("JSON");
    assert!(keys["keys"].as_array().is_some_and(|keys| !keys.is_empty()), "{keys}");
    let selector = async || place.get::<Service>("mcp-fetch").await?.spec?.selector;
    let selector = place.eventually("a selector", selector).await;
    assert_eq!(selector["toolhive.stacklok.com/guarded"], "true");

    // A VirtualMCPServer without a token for it says so.
    let backend = place
        .eventually("the backend that needs a token", async || {
            let server = serde_json::to_value(place.get::<VirtualMCPServer>("x").await?).ok()?;
            let backend = server.pointer("/status/discoveredBackends/0")?.to_string();
            backend.contains("externalAuthConfigRef").then_some(backend)
        })
        .await;
    assert!(backend.contains("asks its callers for tokens"), "{backend}");
    place.remove().await;
}

#[tokio::test]
async fn toolhives_registry_server_runs_with_its_file() {
    let place = ControlPlane::shared().await.namespace("registry").await;
    let _operator = Operator::start(&place).await;
    let registry = |source: &str| {
        format!(
            "{{apiVersion: toolhive.stacklok.com/v1alpha1, kind: MCPRegistry, metadata: {{name: team}}, \
             spec: {{configYAML: 'sources: [{{name: a, {source}}}]'}}}}"
        )
    };
    place.apply(&registry("kubernetes: {}")).await;
    let message = await_condition::<MCPRegistry>(&place, "team", "Valid", "False", "ConfigInvalid").await;
    assert!(message.contains("spec.podTemplateSpec.spec.serviceAccountName"), "{message}");
    assert!(place.get::<Deployment>("team-api").await.is_none());
    place.apply(&registry("file: {path: /data/registry.json}")).await;
    place.eventually("the Deployment", async || place.get::<Deployment>("team-api").await).await;
    place.eventually("the Service", async || place.get::<Service>("team-api").await).await;
    let file = place.get::<ConfigMap>("team-api").await.and_then(|map| map.data).expect("the file");
    assert!(file["config.yaml"].contains("/data/registry.json"), "{file:?}");
    place.remove().await;
}

#[tokio::test]
async fn policies_in_a_config_map_guard_a_server_and_their_change_replaces_its_pods() {
    let place = ControlPlane::shared().await.namespace("policies").await;
    let _operator = Operator::start(&place).await;
    let server = "{apiVersion: toolhive.stacklok.com/v1alpha1, kind: MCPServer, metadata: {name: fetch}, spec: {image: 'x:1', \
                  transport: streamable-http, mcpPort: 8080, authzConfig: {type: configMap, configMap: {name: rules}}}}";
    place.apply(server).await;
    let message = await_condition::<MCPServer>(&place, "fetch", "Valid", "False", "ConfigInvalid").await;
    assert!(message.contains("spec.authzConfig.configMap") && message.contains("rules"), "{message}");
    assert_eq!(place.condition("mcpserver/fetch", "Ready").await["status"], "False");
    assert!(place.get::<Deployment>("mcp-fetch").await.is_none());

    let rules = |policy: &str| {
        let document = json!({ "version": "1.0", "type": "cedarv1", "cedar": { "policies": [policy] } });
        let data = json!({ "authz.json": document.to_string() });
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "rules" }, "data": data })
            .to_string()
    };
    place.apply(&rules("permit(principal, action, resource);")).await;
    let digest = async || {
        let deployment = place.get::<Deployment>("mcp-fetch").await?;
        let annotations = deployment.spec?.template.metadata?.annotations?;
        annotations.get("toolhive.stacklok.com/guards").cloned()
    };
    let before = place.eventually("the guarded Deployment", async || digest().await).await;
    place.apply(&rules("forbid(principal, action, resource);")).await;
    place
        .eventually("a rollout with the new policies", async || {
            digest().await.filter(|after| *after != before)
        })
        .await;
    let guards = place.get::<ConfigMap>("mcp-fetch-guards").await.and_then(|map| map.data).expect("guards");
    assert!(guards["guards.yaml"].contains("forbid"), "{guards:?}");

    // A policy with a mistake, and no ConfigMap at all, leave the last good one in force.
    place.apply(&rules("permit(principal action);")).await;
    await_condition::<MCPServer>(&place, "fetch", "Valid", "False", "ConfigInvalid").await;
    place.delete::<ConfigMap>("rules").await;
    place
        .eventually("the missing ConfigMap to be named", async || {
            let valid = place.condition("mcpserver/fetch", "Valid").await;
            valid["message"].as_str()?.contains("there is no text under the key").then_some(())
        })
        .await;
    let guards = place.get::<ConfigMap>("mcp-fetch-guards").await.and_then(|map| map.data).expect("guards");
    assert!(guards["guards.yaml"].contains("forbid"), "{guards:?}");
    place.remove().await;
}

/// One edit adds guards and callers. The test is the kubelet: pods are ready when it says so.
#[tokio::test]
async fn callers_of_an_edit_come_after_its_guards() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let place = ControlPlane::shared().await.namespace("callers").await;
    let operator = Operator::start(&place).await;
    let server = |more: &str| {
        format!(
            "{{apiVersion: toolhive.stacklok.com/v1alpha1, kind: MCPServer, metadata: {{name: late}}, spec: {{image: 'x:1', \
             command: [run]{more}}}}}"
        )
    };
    place.apply(&server("")).await;
    let labels = "app.kubernetes.io/instance=late,app.kubernetes.io/name=mcp-server";
    place.eventually("the first pod", async || place.list::<Pod>(labels).await.pop()).await;
    let more = ", audit: {enabled: true}, networkPolicy: {ingressFrom: [{ipBlock: {cidr: 10.0.0.0/8}}]}";
    place.apply(&server(more)).await;
    let guarded = async || {
        let pods = place.list::<Pod>(labels).await;
        pods.into_iter().find(|pod| pod.annotations().contains_key("toolhive.stacklok.com/guards"))
    };
    let new = place.eventually("a guarded pod", guarded).await;
    let callers = async || {
        let policy = place.get::<NetworkPolicy>("mcp-late").await?;
        Some(policy.spec?.ingress?.into_iter().next()?.from?.len())
    };
    assert_eq!(callers().await, Some(1), "the old pod serves every caller");
    drop(operator);
    let operator = Operator::start(&place).await;
    place
        .eventually("a look at the server", async || {
            (operator.reconciles("MCPServer").await > 0).then_some(())
        })
        .await;
    assert_eq!(callers().await, Some(1), "also after a restart");

    let condition = |kind: &str| json!({ "type": kind, "status": "True" });
    let status = json!({ "status": {
        "phase": "Running",
        "conditions": [condition("Ready"), condition("ContainersReady"), condition("PodScheduled")],
    } });
    let pods = place.api::<Pod>();
    let patched = pods.patch_status(&new.name_any(), &PatchParams::default(), &Patch::Merge(status)).await;
    drop(patched.expect("patched"));
    place.eventually("the caller that the edit added", async || (callers().await? == 2).then_some(())).await;
    // A removed caller waits for no reference.
    place.apply(&server(", oidcConfigRef: {name: none, audience: a}")).await;
    await_condition::<MCPServer>(&place, "late", "Valid", "False", "ConfigInvalid").await;
    place.eventually("the caller to go", async || (callers().await? == 1).then_some(())).await;
    place.remove().await;
}
