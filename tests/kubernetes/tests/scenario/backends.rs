//! MCPServer and MCPServerEntry on a real API server. Pods are made but do not run: the test writes
//! the status that a kubelet would.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Pod, Service};
use kube::api::{Patch, PatchParams};
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use vmcp_crds::{MCPServer, MCPServerEntry};
use vmcp_kubernetes_tests::{Cluster, ControlPlane, Namespace, Operator};

/// Makes a namespace, and starts an operator that watches it.
pub(super) async fn place(name: &str) -> (Namespace, Operator) {
    let place = ControlPlane::shared().await.namespace(name).await;
    let operator = Operator::start(&place).await;
    (place, operator)
}

/// Applies one of our resources.
pub(super) async fn apply(place: &Namespace, kind: &str, name: &str, spec: &str) {
    place
        .apply(&format!(
            "{{apiVersion: toolhive.stacklok.com/v1alpha1, kind: {kind}, metadata: {{name: {name}}}, spec: {spec}}}"
        ))
        .await;
}

/// Waits until a condition of a resource has this status and reason, and returns its message.
pub(super) async fn await_condition<K>(
    place: &Namespace,
    name: &str,
    kind: &str,
    status: &str,
    reason: &str,
) -> String
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + Serialize
        + Debug,
{
    let what = format!("{kind}={status} ({reason}) of {} {name}", K::kind(&()));
    place
        .eventually(&what, async || {
            let object = serde_json::to_value(place.get::<K>(name).await?).unwrap();
            let conditions = object.pointer("/status/conditions")?.as_array()?.clone();
            let found = conditions.into_iter().find(|condition| condition["type"] == kind)?;
            let matches = found["status"] == status && found["reason"] == reason;
            matches.then(|| found["message"].as_str().unwrap_or_default().to_owned())
        })
        .await
}

async fn phase(place: &Namespace, name: &str) -> (String, Option<String>) {
    let status = place.get::<MCPServer>(name).await.and_then(|server| server.status).unwrap_or_default();
    (format!("{:?}", status.phase.unwrap()), status.message)
}

/// Waits for a reconcile of a resource that writes nothing: a touched annotation makes the operator look.
pub(super) async fn assert_writes_nothing<K>(place: &Namespace, operator: &Operator, name: &str)
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let kind = K::kind(&());
    let mut touches = 0;
    place
        .eventually("a reconcile that writes nothing", async || {
            let before = (operator.writes().await, operator.reconciles(&kind).await);
            touches += 1;
            let touch = json!({ "metadata": { "annotations": { "touched": touches.to_string() } } });
            place.edit::<K>(name, touch).await;
            place
                .eventually("a look", async || (operator.reconciles(&kind).await > before.1).then_some(()))
                .await;
            (operator.writes().await == before.0).then_some(())
        })
        .await;
}

/// Waits for a Deployment.
pub(super) async fn deployment(place: &Namespace, name: &str) -> Deployment {
    place.eventually(name, async || place.get::<Deployment>(name).await).await
}

/// Replaces the schema of a kind, named by its plural, with a schema that lets everything pass.
pub(super) async fn accept_everything(cluster: &Cluster, plural: &str) {
    let open = json!({ "spec": { "versions": [{
        "name": "v1alpha1", "served": true, "storage": true, "subresources": { "status": {} },
        "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
    }] } });
    let (definition, patch) = (format!("{plural}.toolhive.stacklok.com"), open.to_string());
    cluster.kubectl(&["patch", "crd", &definition, "--type", "merge", "-p", &patch]).await.expect("patched");
}

/// Writes the status that a kubelet would give the one pod of a server.
pub(super) async fn set_pod_status(place: &Namespace, server: &str, ready: bool, container: Value) {
    let labels = format!("app.kubernetes.io/instance={server},app.kubernetes.io/name=mcp-server");
    let pod = place.eventually("its pod", async || place.list::<Pod>(&labels).await.pop()).await;
    let mut status = json!({
        "name": "mcp", "image": "x:1", "imageID": "", "ready": ready, "restartCount": 0, "lastState": {},
    });
    status.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
    let condition = |kind: &str| json!({ "type": kind, "status": if ready { "True" } else { "False" } });
    let status = json!({ "status": {
        "phase": "Running",
        "conditions": [condition("Ready"), condition("ContainersReady"), { "type": "PodScheduled", "status": "True" }],
        "containerStatuses": [status],
    } });
    place
        .api::<Pod>()
        .patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_server_follows_its_pods_and_says_what_they_suffer() {
    let (place, _operator) = place("pods").await;
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    apply(&place, "MCPServer", "time", "{image: 'x:1', transport: streamable-http, mcpPort: 3000}").await;
    await_condition::<MCPServer>(&place, "time", "Ready", "False", "Starting").await;
    let service = place.eventually("its Service", async || place.get::<Service>("mcp-time").await).await;
    assert_eq!(service.spec.and_then(|spec| spec.session_affinity).as_deref(), Some("ClientIP"));

    let pull = json!({ "state": { "waiting": { "reason": "ErrImagePull", "message": "x:1: not found" } } });
    set_pod_status(&place, "time", false, pull).await;
    let message = await_condition::<MCPServer>(&place, "time", "Ready", "False", "ImagePullFailed").await;
    assert!(
        message.contains("cannot pull image x:1: x:1: not found; check that spec.image exists"),
        "{message}"
    );
    assert_eq!(phase(&place, "time").await, ("Failed".to_owned(), Some(message)));

    let running = json!({ "state": { "running": {} } });
    set_pod_status(&place, "time", true, running).await;
    await_condition::<MCPServer>(&place, "time", "Ready", "True", "PodsReady").await;
    let status = place.get::<MCPServer>("time").await.and_then(|server| server.status).unwrap();
    assert_eq!((phase(&place, "time").await, status.ready_replicas), (("Ready".to_owned(), None), 1));
    let url = format!("http://mcp-time.{}.svc.cluster.local:8080/mcp", place.name);
    assert_eq!(status.url, Some(url));

    let words =
        json!({ "terminated": { "exitCode": 2, "reason": "Error", "message": "API_KEY is not set\n" } });
    let crash = json!({ "state": { "waiting": { "reason": "CrashLoopBackOff" } }, "lastState": words, "restartCount": 3 });
    set_pod_status(&place, "time", false, crash).await;
    let message = await_condition::<MCPServer>(&place, "time", "Ready", "False", "Crashing").await;
    assert!(
        message.contains("exit code 2 (restarts: 3), saying: API_KEY is not set; see `kubectl logs"),
        "{message}"
    );

    let events = async || {
        let events = place.list::<Event>("").await.into_iter();
        let ours = events.filter(|event| event.involved_object.kind.as_deref() == Some("MCPServer"));
        ours.filter_map(|event| event.reason).collect::<Vec<_>>()
    };
    place
        .eventually("an event for each transition", async || {
            let seen = events().await;
            ["ImagePullFailed", "PodsReady", "Crashing"]
                .iter()
                .all(|reason| seen.iter().any(|e| e == reason))
                .then_some(())
        })
        .await;

    place.delete::<MCPServer>("time").await;
    place
        .eventually("nothing to be left", async || {
            let pods = place.list::<Pod>("app.kubernetes.io/managed-by=vmcp-operator").await.len();
            let deployment = place.get::<Deployment>("mcp-time").await.is_some();
            let service = place.get::<Service>("mcp-time").await.is_some();
            (!deployment && !service && pods == 0).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_server_waits_for_its_secret_and_follows_its_value() {
    let (place, _operator) = place("secret").await;
    let spec = "{image: 'x:1', command: [run], secrets: [{name: key, key: token, targetEnvName: API_KEY}]}";
    apply(&place, "MCPServer", "time", spec).await;
    let message = await_condition::<MCPServer>(&place, "time", "Ready", "False", "SecretNotFound").await;
    let remedy = format!("kubectl create secret generic key -n {} --from-literal=token=…", place.name);
    assert!(message.contains(&remedy), "{message}");
    assert!(place.get::<Deployment>("mcp-time").await.is_none(), "no pod that cannot start");

    let secret = |value: &str| {
        format!("{{apiVersion: v1, kind: Secret, metadata: {{name: key}}, stringData: {{token: {value}}}}}")
    };
    place.apply(&secret("one")).await;
    await_condition::<MCPServer>(&place, "time", "SecretRefsValidated", "True", "SecretsFound").await;
    let digest = |deployment: &Deployment| {
        let template = deployment.spec.clone().unwrap().template.metadata.unwrap();
        template.annotations.unwrap()["toolhive.stacklok.com/secrets-digest"].clone()
    };
    let before = digest(&deployment(&place, "mcp-time").await);
    place.apply(&secret("two")).await;
    place
        .eventually("new pods for the new value", async || {
            (digest(&place.get("mcp-time").await?) != before).then_some(())
        })
        .await;
}

#[tokio::test]
async fn drift_is_repaired_what_others_own_is_left_and_rest_is_rest() {
    let (place, operator) = place("drift").await;
    apply(&place, "MCPServer", "time", "{image: 'x:1', command: [npx, -y, server-time]}").await;
    deployment(&place, "mcp-time").await;
    place.eventually("its Service", async || place.get::<Service>("mcp-time").await).await;

    place.delete::<Service>("mcp-time").await;
    place.eventually("the Service again", async || place.get::<Service>("mcp-time").await).await;
    let image =
        json!({ "spec": { "template": { "spec": { "containers": [{ "name": "mcp", "image": "evil" }] } } } });
    place
        .api::<Deployment>()
        .patch("mcp-time", &PatchParams::default(), &Patch::Strategic(image))
        .await
        .unwrap();
    let of_image = |deployment: Deployment| {
        deployment.spec.unwrap().template.spec.unwrap().containers.swap_remove(0).image
    };
    place
        .eventually("the image again", async || {
            (of_image(place.get("mcp-time").await?).as_deref() == Some("x:1")).then_some(())
        })
        .await;

    // Replicas that an autoscaler set and `kubectl rollout restart` are not ours to undo.
    let restart = json!({ "kubectl.kubernetes.io/restartedAt": "now" });
    let change = json!({ "spec": { "replicas": 3, "template": { "metadata": { "annotations": restart } } } });
    place.edit::<Deployment>("mcp-time", change).await;
    place.edit::<MCPServer>("time", json!({ "spec": { "image": "x:2" } })).await;
    place
        .eventually("the new image", async || {
            (of_image(place.get("mcp-time").await?).as_deref() == Some("x:2")).then_some(())
        })
        .await;
    let spec = deployment(&place, "mcp-time").await.spec.unwrap();
    assert_eq!(spec.replicas, Some(3));
    assert_eq!(
        spec.template.metadata.unwrap().annotations.unwrap()["kubectl.kubernetes.io/restartedAt"],
        "now"
    );

    assert_writes_nothing::<MCPServer>(&place, &operator, "time").await;
}

#[tokio::test]
async fn an_edit_that_makes_no_sense_leaves_what_runs() {
    let (place, _operator) = place("nonsense").await;
    apply(&place, "MCPServer", "time", "{image: 'x:1', command: [run]}").await;
    let before = deployment(&place, "mcp-time").await.metadata.generation;
    let template = |template: Value| json!({ "spec": { "image": "x:2", "podTemplateSpec": template } });
    place.edit::<MCPServer>("time", template(json!({ "spec": { "tolerationz": [{}] } }))).await;
    let message = await_condition::<MCPServer>(&place, "time", "Valid", "False", "PodTemplateInvalid").await;
    assert!(message.starts_with("spec.podTemplateSpec.spec.tolerationz is no field"), "{message}");
    assert_eq!(phase(&place, "time").await.0, "Failed");
    assert_eq!(deployment(&place, "mcp-time").await.metadata.generation, before);

    place.edit::<MCPServer>("time", template(Value::Null)).await;
    await_condition::<MCPServer>(&place, "time", "Valid", "True", "ConfigValid").await;
    assert_ne!(deployment(&place, "mcp-time").await.metadata.generation, before);

    place.edit::<MCPServer>("time", json!({ "spec": { "replicas": 0 } })).await;
    await_condition::<MCPServer>(&place, "time", "Ready", "False", "ScaledToZero").await;
    assert_eq!(phase(&place, "time").await.0, "Stopped");
}

#[tokio::test]
async fn nothing_of_others_is_adopted() {
    let (place, _operator) = place("taken").await;
    let theirs = "{apiVersion: v1, kind: Service, metadata: {name: mcp-time}, spec: {ports: [{port: 1}]}}";
    place.apply(theirs).await;
    apply(&place, "MCPServer", "time", "{image: 'x:1', command: [run]}").await;
    let message = await_condition::<MCPServer>(&place, "time", "Ready", "False", "NameTaken").await;
    assert!(message.contains("the Service mcp-time exists already"), "{message}");
    let ports = place.get::<Service>("mcp-time").await.and_then(|service| service.spec?.ports).unwrap();
    assert_eq!(ports[0].port, 1);
    place.delete::<Service>("mcp-time").await;
    await_condition::<MCPServer>(&place, "time", "Ready", "False", "Starting").await;
}

#[tokio::test]
async fn an_entry_is_judged_and_judged_again_when_what_it_refers_to_comes() {
    let (place, _operator) = place("entry").await;
    apply(&place, "MCPServerEntry", "metadata", "{remoteUrl: 'http://169.254.169.254/mcp'}").await;
    let message = await_condition::<MCPServerEntry>(
        &place,
        "metadata",
        "RemoteURLValidated",
        "False",
        "RemoteURLInvalid",
    )
    .await;
    assert!(
        message.contains("metadata service; use a public address, or set `spec.allowPrivateEndpoint: true`"),
        "{message}"
    );
    place.edit::<MCPServerEntry>("metadata", json!({ "spec": { "allowPrivateEndpoint": true } })).await;
    await_condition::<MCPServerEntry>(&place, "metadata", "Valid", "True", "ConfigValid").await;

    let spec = "{remoteUrl: 'https://mcp.example.com/mcp', groupRef: {name: tools}, headerForward: \
                {addHeadersFromSecret: [{headerName: Authorization, valueSecretRef: {name: token, key: header}}]}}";
    apply(&place, "MCPServerEntry", "github", spec).await;
    await_condition::<MCPServerEntry>(&place, "github", "GroupRefValidated", "False", "GroupNotFound").await;
    await_condition::<MCPServerEntry>(
        &place,
        "github",
        "HeaderSecretRefsValidated",
        "False",
        "HeaderSecretNotFound",
    )
    .await;
    apply(&place, "MCPGroup", "tools", "{}").await;
    await_condition::<MCPServerEntry>(&place, "github", "GroupRefValidated", "True", "GroupFound").await;
    let secret = |value: &str| {
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "token" }, "stringData": { "header": value } }).to_string()
    };
    place.apply(&secret("Bearer\nx")).await;
    await_condition::<MCPServerEntry>(
        &place,
        "github",
        "HeaderSecretRefsValidated",
        "False",
        "HeaderInvalid",
    )
    .await;
    place.apply(&secret("Bearer x\n")).await;
    await_condition::<MCPServerEntry>(&place, "github", "Valid", "True", "ConfigValid").await;
}
