//! `spec.podTemplateSpec`, merged by the rules of the API server that takes the result.

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};
use vmcp_crds::VirtualMCPServer;
use vmcp_kubernetes_tests::Namespace;

use super::backends::{apply, await_condition, place};

/// Waits for a pod template that passes `check`, and returns its spec.
async fn template(place: &Namespace, check: impl Fn(&Value) -> bool) -> Value {
    place
        .eventually("the pod template", async || {
            let deployment = place.json("deployment/x").await;
            let spec = deployment.pointer("/spec/template/spec")?;
            check(spec).then(|| spec.clone())
        })
        .await
}

fn volume<'a>(spec: &'a Value, name: &str) -> Option<&'a Value> {
    spec["volumes"].as_array()?.iter().find(|volume| volume["name"] == name)
}

#[tokio::test]
async fn a_pod_template_replaces_and_deletes_as_kubectl_patch_does() {
    let (place, operator) = place("templates").await;
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    template(&place, |spec| volume(spec, "cache").is_some_and(|cache| cache.get("emptyDir").is_some())).await;

    let log = operator.process.output();
    assert!(!log.contains("cannot read /openapi"), "the rules are those of the API server: {log}");

    // Two sources of one volume would be refused.
    let claim = json!({ "name": "cache", "persistentVolumeClaim": { "claimName": "cache" } });
    let set = async |spec: Value| {
        let change = json!({ "spec": { "podTemplateSpec": { "spec": spec } } });
        place.edit::<VirtualMCPServer>("x", change).await;
    };
    set(json!({ "volumes": [claim], "topologySpreadConstraints": [{ "$patch": "replace" }] })).await;
    let spec = template(&place, |spec| volume(spec, "cache") == Some(&claim)).await;
    assert_eq!(spec.get("topologySpreadConstraints"), None, "{spec}");
    assert!(volume(&spec, "config").is_some(), "{spec}");

    set(json!({ "volumes": [{ "name": "cache", "emptyDir": { "medium": "Memory" } }], "hostnameOverryde": "x" })).await;
    let message = await_condition::<VirtualMCPServer>(
        &place,
        "x",
        "PodTemplateSpecValid",
        "False",
        "InvalidPodTemplateSpec",
    )
    .await;
    assert!(message.contains("spec.podTemplateSpec.spec.hostnameOverryde is no field"), "{message}");
    assert!(place.get::<Deployment>("x").await.is_some());

    // Kubernetes 1.34 has this field, the types of the operator do not.
    let explain = ["explain", "pod.spec.hostnameOverride"];
    if place.cluster().kubectl(&explain).await.is_ok() {
        let change = json!({ "spec": { "podTemplateSpec": { "spec": { "hostnameOverryde": null, "hostnameOverride": "x" } } } });
        place.edit::<VirtualMCPServer>("x", change).await;
        template(&place, |spec| {
            volume(spec, "cache")
                .is_some_and(|cache| cache.pointer("/emptyDir/medium") == Some(&json!("Memory")))
        })
        .await;
    }
    place.remove().await;
}
