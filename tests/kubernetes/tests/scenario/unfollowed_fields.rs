//! Fields of ToolHive that nothing follows: they refuse a resource, an annotation ignores them, and no
//! annotation ignores a guard.

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;
use vmcp_crds::{MCPRemoteProxy, MCPServer, VirtualMCPServer};
use vmcp_kubernetes_tests::{ControlPlane, Namespace, Operator};

use super::backends::{apply, await_condition};

/// Annotation that ignores such fields.
const ANNOTATION: &str = "toolhive.stacklok.com/unfollowed-fields";

/// Sets the annotation.
async fn ignore(place: &Namespace, name: &str) {
    let change = json!({ "metadata": { "annotations": { ANNOTATION: "ignore" } } });
    place.edit::<MCPServer>(name, change).await;
}

/// Creates a resource that has the annotation from the start.
async fn apply_ignoring(place: &Namespace, kind: &str, name: &str, spec: &str) {
    let manifest = format!(
        "{{apiVersion: toolhive.stacklok.com/v1alpha1, kind: {kind}, metadata: {{name: {name}, annotations: \
         {{{ANNOTATION}: ignore}}}}, spec: {spec}}}"
    );
    place.apply(&manifest).await;
}

#[tokio::test]
async fn a_field_without_an_effect_is_refused_until_an_annotation_ignores_it() {
    let place = ControlPlane::shared().await.namespace("unfollowed").await;
    let _operator = Operator::start(&place).await;
    let spec = "{image: 'x:1', transport: streamable-http, mcpPort: 3000, endpointPrefix: /a}";
    apply(&place, "MCPServer", "time", spec).await;
    let message = await_condition::<MCPServer>(&place, "time", "Valid", "False", "ConfigInvalid").await;
    assert!(message.contains("spec.endpointPrefix: nothing follows this field"), "{message}");
    assert!(place.list::<Deployment>("").await.is_empty());

    ignore(&place, "time").await;
    await_condition::<MCPServer>(&place, "time", "Valid", "True", "ConfigValid").await;
    let kind = "FieldsPending";
    let message = await_condition::<MCPServer>(&place, "time", kind, "True", "CapabilityPending").await;
    assert!(message.contains("spec.endpointPrefix"), "{message}");
    place.eventually("the Deployment", async || place.list::<Deployment>("").await.pop()).await;
    place.remove().await;
}

#[tokio::test]
async fn no_annotation_ignores_a_guard() {
    let place = ControlPlane::shared().await.namespace("guards").await;
    let _operator = Operator::start(&place).await;
    let guard = "oidcConfigRef: {name: idp, audience: a}";
    let spec = format!("{{image: 'x:1', transport: streamable-http, mcpPort: 3000, {guard}}}");
    apply_ignoring(&place, "MCPServer", "time", &spec).await;
    let proxy = format!("{{remoteUrl: 'https://mcp.example.com/mcp', {guard}}}");
    apply_ignoring(&place, "MCPRemoteProxy", "far", &proxy).await;
    apply_ignoring(&place, "VirtualMCPServer", "x", "{config: {incomingAuth: {type: oidc}}}").await;

    let refused = "nothing follows this field";
    // Followed; its consequence is refused.
    let message = await_condition::<MCPServer>(&place, "time", "Ready", "False", "ConfigInvalid").await;
    assert!(message.contains("spec.oidcConfigRef: there is no MCPOIDCConfig idp"), "{message}");
    let message = await_condition::<MCPRemoteProxy>(&place, "far", "Ready", "False", "ConfigInvalid").await;
    assert!(message.contains(refused) && message.contains("spec.oidcConfigRef"), "{message}");
    let kind = "ConfigValid";
    let message = await_condition::<VirtualMCPServer>(&place, "x", kind, "False", "InvalidSpec").await;
    assert!(message.contains(refused) && message.contains("spec.config.incomingAuth"), "{message}");
    assert!(place.list::<Deployment>("").await.is_empty());
    place.remove().await;
}
