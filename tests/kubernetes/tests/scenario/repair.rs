//! Repair of what users do to the objects of the operator by hand, besides deleting them and changing a
//! value.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use vmcp_crds::{MCPServer, VirtualMCPServer};
use vmcp_kubernetes_tests::{ControlPlane, Namespace, Operator};

use super::backends::{accept_everything, apply, await_condition, deployment, place};

async fn replicas(place: &Namespace, name: &str) -> Option<i32> {
    place.get::<Deployment>(name).await?.spec?.replicas
}

/// Applies one operation of a JSON patch to an object.
async fn patch(place: &Namespace, object: &str, operation: Value) {
    let operations = json!([operation]).to_string();
    let arguments = ["patch", object, "-n", &place.name, "--type", "json", "-p", &operations];
    place.cluster().kubectl(&arguments).await.unwrap();
}

/// Without its owner no garbage collector would collect it, without its label no watch would see it.
#[tokio::test]
async fn what_lost_its_owner_or_its_label_is_ours_again_and_keeps_its_secrets() {
    let (place, _operator) = place("orphans").await;
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    let objects = [
        "deployment/x",
        "service/vmcp-x",
        "serviceaccount/x-vmcp",
        "configmap/x-vmcp-config",
        "secret/x-vmcp-secrets",
    ];
    place
        .eventually("all of them", async || {
            for object in objects {
                place.json(object).await.get("metadata")?;
            }
            Some(())
        })
        .await;
    let secret = place.get::<Secret>("x-vmcp-secrets").await.unwrap().data;
    for object in objects {
        patch(&place, object, json!({ "op": "remove", "path": "/metadata/ownerReferences" })).await;
    }
    place
        .eventually("all of them to have an owner", async || {
            for object in objects {
                place.json(object).await.pointer("/metadata/ownerReferences/0/uid")?;
            }
            Some(())
        })
        .await;

    let hidden = json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": null } } });
    place.edit::<Secret>("x-vmcp-secrets", hidden).await;
    place
        .eventually("its label", async || {
            let labels = place.get::<Secret>("x-vmcp-secrets").await?.metadata.labels?;
            labels.contains_key("app.kubernetes.io/managed-by").then_some(())
        })
        .await;
    let kept = place.get::<Secret>("x-vmcp-secrets").await.unwrap().data;
    assert!(kept == secret, "the key that seals sessions is still the same");
    place.remove().await;
}

/// Server-side apply tells ports apart by number: beside an edited one, ours would have the name of another.
#[tokio::test]
async fn a_port_that_was_renumbered_by_hand_is_repaired() {
    let (place, _operator) = place("ports").await;
    apply(&place, "VirtualMCPServer", "x", "{podTemplateSpec: {spec: {nodeSelector: {disk: fast}}}}").await;
    deployment(&place, "x").await;
    let renumbered = |path: &str| json!({ "op": "replace", "path": path, "value": 99 });
    patch(&place, "service/vmcp-x", renumbered("/spec/ports/0/port")).await;
    let path = "/spec/template/spec/containers/0/ports/0/containerPort";
    patch(&place, "deployment/x", renumbered(path)).await;
    place
        .eventually("the ports as they were", async || {
            let service = place.get::<Service>("vmcp-x").await?.spec?.ports?;
            let pod = place.get::<Deployment>("x").await?.spec?.template.spec?;
            let service: Vec<_> = service.iter().map(|port| port.port).collect();
            let container: Vec<_> =
                pod.containers.first()?.ports.iter().flatten().map(|port| port.container_port).collect();
            (service == [4483] && container == [4483, 9090]).then_some(())
        })
        .await;

    // Fields that are not asked for any more still go.
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    place
        .eventually("no selector of nodes", async || {
            let pod = place.get::<Deployment>("x").await?.spec?.template.spec?;
            pod.node_selector.unwrap_or_default().is_empty().then_some(())
        })
        .await;
    place.remove().await;
}

#[tokio::test]
async fn the_number_of_pods_stays_when_it_is_left_to_others() {
    let (place, _operator) = place("handover").await;
    apply(&place, "VirtualMCPServer", "x", "{replicas: 4}").await;
    apply(&place, "MCPServer", "s", "{image: 'x:1', transport: sse, replicas: 3}").await;
    for (name, pods) in [("x", 4), ("mcp-s", 3)] {
        deployment(&place, name).await;
        assert_eq!(replicas(&place, name).await, Some(pods));
    }
    apply(&place, "VirtualMCPServer", "x", "{autoscaling: {minReplicas: 2, maxReplicas: 9}}").await;
    apply(&place, "MCPServer", "s", "{image: 'x:2', transport: sse}").await;
    for (name, pods) in [("x", 4), ("mcp-s", 3)] {
        place
            .eventually("the number to be nobody's", async || {
                let fields = place.get::<Deployment>(name).await?.metadata.managed_fields?;
                let ours = fields.iter().find(|entry| entry.operation.as_deref() == Some("Apply"))?;
                ours.fields_v1.as_ref()?.0.pointer("/f:spec/f:replicas").is_none().then_some(())
            })
            .await;
        assert_eq!(replicas(&place, name).await, Some(pods), "{name}");
    }
    // The number comes back when it is asked for again.
    apply(&place, "VirtualMCPServer", "x", "{replicas: 2}").await;
    place.eventually("two", async || (replicas(&place, "x").await == Some(2)).then_some(())).await;
    place.remove().await;
}

#[tokio::test]
async fn a_taken_name_is_told_where_people_look_and_holds_up_nothing_else() {
    let (place, _operator) = place("budget").await;
    let theirs = "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: x-vmcp}, spec: {minAvailable: 0}}";
    place.apply(theirs).await;
    apply(&place, "VirtualMCPServer", "x", "{podDisruptionBudget: {maxUnavailable: 1}}").await;
    let message = await_condition::<VirtualMCPServer>(&place, "x", "Degraded", "True", "NameTaken").await;
    assert!(message.contains("PodDisruptionBudget x-vmcp exists already"), "{message}");
    let status = place.get::<VirtualMCPServer>("x").await.unwrap().status.unwrap();
    assert_eq!(status.message, Some(message), "kubectl get shows it");
    assert!(place.get::<PodDisruptionBudget>("x-vmcp").await.unwrap().owner_references().is_empty());
    // Everything that does not depend on the taken name goes on.
    apply(&place, "MCPServerEntry", "docs", "{remoteUrl: 'https://docs.example.com/mcp'}").await;
    place
        .eventually("the backend in the status", async || {
            let status = place.get::<VirtualMCPServer>("x").await?.status?;
            (!status.discovered_backends.is_empty()).then_some(())
        })
        .await;

    let service = "{apiVersion: v1, kind: Service, metadata: {name: mcp-s}, spec: {ports: [{port: 1}]}}";
    place.apply(service).await;
    apply(&place, "MCPServer", "s", "{image: 'x:1', transport: sse}").await;
    let message = await_condition::<MCPServer>(&place, "s", "Ready", "False", "NameTaken").await;
    let status = place.get::<MCPServer>("s").await.unwrap().status.unwrap();
    assert_eq!((format!("{:?}", status.phase), status.message), ("Some(Failed)".to_owned(), Some(message)));
    place.remove().await;
}

/// Pods behind a NetworkPolicy of others, or with a Secret of others, would serve other clients than those of
/// the resource.
#[tokio::test]
async fn no_pod_comes_before_the_objects_that_close_it() {
    let (place, _operator) = place("closed").await;
    let policy = |name: &str| {
        format!(
            "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: {name}}}, spec: {{podSelector: \
             {{}}, ingress: [{{}}]}}}}"
        )
    };
    place.apply(&policy("mcp-time")).await;
    apply(&place, "MCPServer", "time", "{image: 'x:1', command: [run]}").await;
    let message = await_condition::<MCPServer>(&place, "time", "Ready", "False", "NameTaken").await;
    assert!(message.contains("NetworkPolicy mcp-time"), "{message}");
    assert!(place.get::<Deployment>("mcp-time").await.is_none(), "every pod could call it");
    place.delete::<NetworkPolicy>("mcp-time").await;
    place.eventually("its pods", async || place.get::<Deployment>("mcp-time").await).await;

    place.apply(&policy("open-vmcp")).await;
    place.apply("{apiVersion: v1, kind: Secret, metadata: {name: shut-vmcp-secrets}}").await;
    // Replicas call each other there, with the admin token.
    place
        .apply("{apiVersion: v1, kind: Service, metadata: {name: vmcp-heard-peers}, spec: {ports: [{port: 9090}]}}")
        .await;
    apply(&place, "VirtualMCPServer", "open", "{networkPolicy: {}}").await;
    apply(&place, "VirtualMCPServer", "shut", "{}").await;
    apply(&place, "VirtualMCPServer", "heard", "{}").await;
    for name in ["open", "shut", "heard"] {
        await_condition::<VirtualMCPServer>(&place, name, "Ready", "False", "NameTaken").await;
        assert!(place.get::<Deployment>(name).await.is_none(), "{name}");
    }
    place.delete::<NetworkPolicy>("open-vmcp").await;
    place.delete::<Secret>("shut-vmcp-secrets").await;
    place.delete::<Service>("vmcp-heard-peers").await;
    for name in ["open", "shut", "heard"] {
        place.eventually("its pods", async || place.get::<Deployment>(name).await).await;
    }
    place.remove().await;
}

/// An unreadable server stays in the configuration as it was.
#[tokio::test]
async fn a_backend_that_cannot_be_read_any_more_stays_in_the_configuration() {
    // The schema is changed for the whole cluster, so it must not be the shared one.
    let cluster = ControlPlane::start_without_controllers().await;
    let place = cluster.namespace("unreadable").await;
    let _operator = Operator::start(&place).await;
    apply(&place, "MCPGroup", "g", "{}").await;
    apply(&place, "MCPServer", "a", "{groupRef: {name: g}, image: 'x:1', transport: sse}").await;
    apply(&place, "VirtualMCPServer", "x", "{groupRef: {name: g}}").await;
    let text = async || place.get::<ConfigMap>("x-vmcp-config").await?.data?.remove("vmcp.yaml");
    let before = place
        .eventually("the backend in the configuration", async || {
            text().await.filter(|text| text.contains("name: a"))
        })
        .await;

    for kind in ["mcpservers", "mcpgroups"] {
        accept_everything(&cluster, kind).await;
    }
    let spoil = async |object: &str, spec: Value| {
        let change = json!({ "spec": spec });
        let spoilt = async || place.try_merge(object, &change).await.ok();
        drop(place.eventually("the mistake to pass", spoilt).await);
    };
    spoil("mcpgroup/g", json!({ "description": {} })).await;
    spoil("mcpserver/a", json!({ "transport": "pigeon" })).await;
    let message = await_condition::<VirtualMCPServer>(&place, "x", "ConfigValid", "False", "Malformed").await;
    assert!(message.contains("the MCPServer a cannot be read"), "{message}");
    await_condition::<VirtualMCPServer>(&place, "x", "GroupRefValidated", "True", "GroupRefValid").await;
    assert_eq!(text().await, Some(before.clone()), "it is served as it was");
    assert!(place.get::<Deployment>("mcp-a").await.is_some(), "and runs");

    // The message follows every new mistake, not only the first.
    let wrong = async |field: &str| {
        let status = place.json("mcpserver/a").await["status"].clone();
        status["message"].as_str().is_some_and(|message| message.contains(field)).then_some(())
    };
    place.eventually("a word about transport", async || wrong("spec.transport").await).await;
    spoil("mcpserver/a", json!({ "transport": "sse", "replicas": "many" })).await;
    place.eventually("a word about replicas", async || wrong("spec.replicas").await).await;

    spoil("mcpserver/a", json!({ "replicas": null, "path": "/events" })).await;
    await_condition::<VirtualMCPServer>(&place, "x", "ConfigValid", "True", "Valid").await;
    place
        .eventually("the new address", async || text().await.filter(|text| text.contains("8080/events")))
        .await;
}
