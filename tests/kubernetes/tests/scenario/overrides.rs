//! `spec.resourceOverrides`: labels and annotations of the objects that the operator makes, on a real API
//! server.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use kube::ResourceExt as _;
use serde_json::json;
use vmcp_crds::{EmbeddingServer, MCPServer, VirtualMCPServer};

use super::backends::{accept_everything, apply, assert_writes_nothing, await_condition, deployment, place};
use vmcp_kubernetes_tests::{ControlPlane, Operator};

const SCHEME: &str = "service.beta.kubernetes.io/aws-load-balancer-scheme";

#[tokio::test]
async fn labels_and_annotations_come_and_go_with_the_resource_and_rest_is_rest() {
    let (place, operator) = place("overrides").await;
    let overrides = "{resourceOverrides: {\
        deployment: {labels: {cost: a}, podTemplateMetadataOverrides: {annotations: {note: b}}}, \
        service: {annotations: {service.beta.kubernetes.io/aws-load-balancer-scheme: internal}}, \
        serviceAccount: {annotations: {eks.amazonaws.com/role-arn: r}}}}";
    apply(&place, "VirtualMCPServer", "x", overrides).await;
    let made = deployment(&place, "x").await;
    assert_eq!(made.labels().get("cost").map(String::as_str), Some("a"));
    let pods = made.spec.unwrap().template.metadata.unwrap();
    assert_eq!(pods.annotations.unwrap().get("note").map(String::as_str), Some("b"));
    let account = place.eventually("the account", async || place.get::<ServiceAccount>("x-vmcp").await).await;
    assert_eq!(account.annotations().get("eks.amazonaws.com/role-arn").map(String::as_str), Some("r"));
    let service = place.eventually("the Service", async || place.get::<Service>("vmcp-x").await).await;
    assert_eq!(service.annotations().get(SCHEME).map(String::as_str), Some("internal"));
    assert!(service.labels().contains_key("app.kubernetes.io/managed-by"));

    let server = "{image: 'x:1', transport: sse, resourceOverrides: {proxyDeployment: {labels: {cost: a}}, \
                  proxyService: {annotations: {note: b}}}}";
    apply(&place, "MCPServer", "s", server).await;
    assert_eq!(deployment(&place, "mcp-s").await.labels().get("cost").map(String::as_str), Some("a"));
    let set = "{resourceOverrides: {statefulSet: {labels: {cost: a}}}}";
    apply(&place, "EmbeddingServer", "e", set).await;
    let set = place.eventually("the set", async || place.get::<StatefulSet>("e-tei").await).await;
    assert_eq!(set.labels().get("cost").map(String::as_str), Some("a"));
    assert_writes_nothing::<VirtualMCPServer>(&place, &operator, "x").await;
    assert_writes_nothing::<MCPServer>(&place, &operator, "s").await;
    assert_writes_nothing::<EmbeddingServer>(&place, &operator, "e").await;

    // Additions of a person or a cloud's controller stay; a key that is not asked for any more goes.
    place.edit::<Service>("vmcp-x", json!({ "metadata": { "annotations": { "theirs": "1" } } })).await;
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    place
        .eventually("the overrides to go", async || {
            let service = place.get::<Service>("vmcp-x").await?;
            let deployment = place.get::<Deployment>("x").await?;
            let pods = deployment.spec.as_ref()?.template.metadata.as_ref()?;
            let gone = !service.annotations().contains_key(SCHEME)
                && !deployment.labels().contains_key("cost")
                && !pods.annotations.as_ref()?.contains_key("note");
            (gone && service.annotations().contains_key("theirs")).then_some(())
        })
        .await;
    place.remove().await;
}

#[tokio::test]
async fn keys_of_the_operator_are_refused_by_the_api_server_and_by_the_operator() {
    // The schema is changed for the whole cluster, so it must not be the shared one.
    let cluster = ControlPlane::start_without_controllers().await;
    let place = cluster.namespace("reserved").await;
    let _operator = Operator::start(&place).await;
    let spec = "{resourceOverrides: {service: {labels: {app.kubernetes.io/instance: other}}}}";
    let manifest = format!(
        "{{apiVersion: toolhive.stacklok.com/v1alpha1, kind: VirtualMCPServer, metadata: {{name: x}}, spec: {spec}}}"
    );
    let refused = place.try_apply(&manifest).await.unwrap_err().to_string();
    assert!(
        refused.contains("spec.resourceOverrides.service.labels") && refused.contains("choose another one"),
        "{refused}"
    );

    accept_everything(&cluster, "virtualmcpservers").await;
    place
        .eventually("the schema that accepts everything", async || place.try_apply(&manifest).await.ok())
        .await;
    let message =
        await_condition::<VirtualMCPServer>(&place, "x", "ConfigValid", "False", "InvalidSpec").await;
    assert!(
        message.contains("spec.resourceOverrides.service.labels: `app.kubernetes.io/instance` belongs"),
        "{message}"
    );
}
