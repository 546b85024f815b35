//! Namespaces with rules of their own: quotas, LimitRanges, NetworkPolicies that deny by default, secrets
//! from a CSI driver. What a rule refuses is named in a condition, with the field to change.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota, Secret};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use vmcp_crds::{MCPServer, VirtualMCPServer};
use vmcp_kubernetes_tests::{ControlPlane, Namespace, Operator};

use super::backends::{apply, assert_writes_nothing, await_condition, deployment, place};
use super::stand_in::StandIn;

/// A server whose pods have claims.
const CLAIMS: &str = "{optimizer: {enabled: true, embeddings: {provider: none}, storage: {volume: \
                      {persistentVolumeClaim: {size: 5Gi}}}}}";

/// Makes a quota, and waits until it is in force.
async fn quota(place: &Namespace, hard: &str) {
    let manifest =
        format!("{{apiVersion: v1, kind: ResourceQuota, metadata: {{name: q}}, spec: {{hard: {hard}}}}}");
    place.apply(&manifest).await;
    let in_force = async || place.get::<ResourceQuota>("q").await?.status?.hard;
    place.eventually("the quota to be in force", in_force).await;
}

/// Waits until a server says that its pods are refused, and returns the message.
async fn refused(place: &Namespace, name: &str) -> String {
    await_condition::<VirtualMCPServer>(place, name, "Ready", "False", "PodRefused").await
}

#[tokio::test]
async fn a_quota_that_pods_and_claims_exceed_is_named_with_the_field() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let (place, _operator) = place("quota").await;
    quota(&place, "{limits.cpu: '1', requests.storage: 2Gi}").await;
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    let message = refused(&place, "x").await;
    assert!(message.contains("must specify limits.cpu"), "{message}");
    assert!(message.contains("set them in spec.resources"), "{message}");

    // A server of its own: a Deployment keeps the words of its first refusal.
    apply(&place, "VirtualMCPServer", "big", "{resources: {limits: {cpu: '2', memory: 1Gi}}}").await;
    let message = refused(&place, "big").await;
    assert!(message.contains("exceeded quota: q"), "{message}");
    assert!(message.contains("raise the namespace's quota or lower spec.resources"), "{message}");

    apply(&place, "VirtualMCPServer", "kept", CLAIMS).await;
    let message = refused(&place, "kept").await;
    assert!(
        message.contains("exceeded quota: q") && message.contains("ask for smaller volumes"),
        "{message}"
    );
    place.remove().await;
}

#[tokio::test]
async fn a_quota_of_the_operators_own_objects_is_named() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let (place, _operator) = place("objects").await;
    quota(&place, "{services: '0'}").await;
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    let message = await_condition::<VirtualMCPServer>(&place, "x", "Degraded", "True", "Forbidden").await;
    assert!(message.contains("exceeded quota: q"), "{message}");
    assert!(message.contains("delete objects of this kind"), "{message}");
    place.delete::<ResourceQuota>("q").await;
    await_condition::<VirtualMCPServer>(&place, "x", "Degraded", "False", "AllWell").await;
    place.remove().await;
}

#[tokio::test]
async fn a_limit_range_is_named_with_the_field_that_it_bounds() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let (place, _operator) = place("limits").await;
    let limits = "{apiVersion: v1, kind: LimitRange, metadata: {name: small}, spec: {limits: [{type: Container, max: \
                  {memory: 256Mi}}]}}";
    place.apply(limits).await;
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    let message = refused(&place, "x").await;
    assert!(message.contains("maximum memory usage per Container is 256Mi, but limit is 1Gi"), "{message}");
    assert!(message.contains("lower spec.resources.limits.memory"), "{message}");
    apply(&place, "VirtualMCPServer", "x", "{resources: {limits: {memory: 256Mi}}}").await;
    await_condition::<VirtualMCPServer>(&place, "x", "Ready", "False", "Starting").await;
    place.remove().await;
}

#[tokio::test]
async fn a_namespace_that_denies_by_default_is_told_by_the_names_of_its_policies() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let (place, _operator) = place("denied").await;
    let deny = "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: deny-all}, spec: {podSelector: {}, \
                policyTypes: [Ingress, Egress]}}";
    place.apply(deny).await;
    apply(&place, "VirtualMCPServer", "silent", "{}").await;
    let _silent = StandIn::silent(&place, "silent").await;
    let (kind, reason) = ("PodsReachable", "ConnectionTimedOut");
    let message = await_condition::<VirtualMCPServer>(&place, "silent", kind, "False", reason).await;
    assert!(message.contains("allow ingress to port 9090"), "{message}");
    assert!(message.contains("limited by NetworkPolicy deny-all"), "{message}");

    apply(&place, "MCPServerEntry", "docs", "{remoteUrl: 'https://docs.example.com/mcp'}").await;
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    let (stand_in, _) = StandIn::of(&place, "x").await;
    let unanswered = json!({ "name": "docs", "state": "failed", "lastError": "no answer within 10 seconds" });
    stand_in.set_report(json!({ "backends": [unanswered] }));
    let reason = "BackendsUnavailable";
    let message = await_condition::<VirtualMCPServer>(&place, "x", "Degraded", "True", reason).await;
    assert!(message.contains("limited by NetworkPolicy deny-all: allow them"), "{message}");
    place.remove().await;
}

#[tokio::test]
async fn secrets_of_a_csi_driver_are_mounted_and_a_missing_driver_is_told() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let (place, _operator) = place("csi").await;
    let volume = json!({
        "name": "keys",
        "csi": {
            "driver": "secrets-store.csi.k8s.io", "readOnly": true,
            "volumeAttributes": { "secretProviderClass": "keys" },
        },
    });
    let container = json!({ "name": "mcp", "volumeMounts": [{ "name": "keys", "mountPath": "/keys" }] });
    let template = json!({ "spec": { "containers": [container], "volumes": [volume] } });
    let spec = json!({ "image": "x:1", "command": ["run"], "podTemplateSpec": template });
    apply(&place, "MCPServer", "time", &spec.to_string()).await;
    let pods = deployment(&place, "mcp-time").await.spec.expect("a spec").template.spec.expect("pods");
    let mounted = pods.volumes.iter().flatten().find(|volume| volume.name == "keys").expect("the volume");
    assert_eq!(mounted.csi.as_ref().expect("of CSI").driver, "secrets-store.csi.k8s.io");
    let server = pods.containers.iter().find(|container| container.name == "mcp").expect("the server");
    assert!(server.volume_mounts.iter().flatten().any(|mount| mount.mount_path == "/keys"));

    let labels = "app.kubernetes.io/instance=time,app.kubernetes.io/name=mcp-server";
    let pod = place.eventually("its pod", async || place.list::<Pod>(labels).await.pop()).await;
    let scheduled =
        json!({ "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let said = "MountVolume.SetUp failed for volume \"keys\" : kubernetes.io/csi: mounter.SetUpAt failed to get CSI \
                client: driver name secrets-store.csi.k8s.io not found in the list of registered CSI drivers";
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": { "name": "of-the-kubelet" }, "type": "Warning",
        "reason": "FailedMount", "message": said, "lastTimestamp": "2999-01-01T00:00:00Z",
        "involvedObject": { "kind": "Pod", "name": pod.name_any(), "namespace": place.name, "uid": pod.uid() },
    });
    place.apply(&event.to_string()).await;
    let status = Patch::Merge(json!({ "status": { "phase": "Pending", "conditions": [scheduled] } }));
    let pods = place.api::<Pod>();
    pods.patch_status(&pod.name_any(), &PatchParams::default(), &status).await.expect("patched");
    let message = await_condition::<MCPServer>(&place, "time", "Ready", "False", "VolumeMissing").await;
    assert!(message.contains("install the CSI driver on the nodes"), "{message}");
    place.remove().await;
}

/// The driver is played by the test: it makes the Secret once a pod mounts the class.
#[tokio::test]
async fn a_server_does_not_wait_for_a_secret_that_its_own_pod_brings() {
    let (place, operator) = place("brought").await;
    let csi =
        "{driver: secrets-store.csi.k8s.io, readOnly: true, volumeAttributes: {secretProviderClass: vault}}";
    let spec = format!(
        "{{image: 'x:1', command: [run], secrets: [{{name: key, key: token}}], podTemplateSpec: {{spec: {{containers: \
         [{{name: mcp, volumeMounts: [{{name: keys, mountPath: /keys}}]}}], volumes: [{{name: keys, csi: {csi}}}]}}}}}}"
    );
    apply(&place, "MCPServer", "time", &spec).await;
    let message =
        await_condition::<MCPServer>(&place, "time", "SecretRefsValidated", "Unknown", "SecretAwaited").await;
    assert!(message.contains("there is no Secret key;"), "{message}");
    assert!(message.contains("mount the SecretProviderClass vault"), "{message}");
    let pods = deployment(&place, "mcp-time").await.spec.expect("a spec").template;
    let mounted = pods.spec.expect("pods").volumes.unwrap_or_default();
    assert!(mounted.iter().any(|volume| volume.csi.is_some()), "the volume that brings the Secret");
    assert_writes_nothing::<MCPServer>(&place, &operator, "time").await;

    let secret = "{apiVersion: v1, kind: Secret, metadata: {name: key}, stringData: {token: one}}";
    place.apply(secret).await;
    await_condition::<MCPServer>(&place, "time", "SecretRefsValidated", "True", "SecretsFound").await;
    let digest = async || {
        let template = place.get::<Deployment>("mcp-time").await?.spec?.template.metadata?;
        template.annotations?.get("toolhive.stacklok.com/secrets-digest").cloned()
    };
    let known = digest().await.expect("a digest of the value");
    place.delete::<Secret>("key").await;
    await_condition::<MCPServer>(&place, "time", "SecretRefsValidated", "Unknown", "SecretAwaited").await;
    assert_eq!(
        digest().await,
        Some(known.clone()),
        "the Secret goes with the last pod, and comes with the next"
    );
    place.apply(secret).await;
    await_condition::<MCPServer>(&place, "time", "SecretRefsValidated", "True", "SecretsFound").await;
    assert_eq!(digest().await, Some(known), "the same value replaces no pod");
    place.remove().await;
}

/// Kinds of volumes that OpenShift's SecurityContextConstraints `restricted-v2` admit.
const VOLUMES: [&str; 8] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Returns the rules of `restricted-v2` that the spec of a pod breaks. The namespace gives the user and the
/// groups, which the pod must not name. A user without a group of its own must be able to read Secrets.
fn broken_rules(pod: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    let mut check = |holds: bool, rule: &str| {
        if !holds {
            broken.push(rule.to_owned());
        }
    };
    let list = |key: &str| pod[key].as_array().cloned().unwrap_or_default();
    let containers = [list("initContainers"), list("containers")].concat();
    for part in containers.iter().chain([pod]) {
        for field in ["runAsUser", "runAsGroup", "fsGroup", "supplementalGroups"] {
            check(part["securityContext"][field].is_null(), field);
        }
    }
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        check(pod[field] != true, field);
    }
    check(pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", "seccompProfile");
    for volume in list("volumes") {
        for kind in volume.as_object().into_iter().flat_map(|volume| volume.keys()) {
            check(kind == "name" || VOLUMES.contains(&kind.as_str()), kind);
        }
        let mode = volume["secret"]["defaultMode"].as_i64();
        check(mode.is_none_or(|mode| mode & 0o004 != 0), "mode of Secrets");
    }
    for container in &containers {
        let context = &container["securityContext"];
        check(context["privileged"] != true, "privileged");
        check(context["allowPrivilegeEscalation"] == false, "allowPrivilegeEscalation");
        check(context["capabilities"] == json!({ "drop": ["ALL"] }), "capabilities");
        let ports = container["ports"].as_array().cloned().unwrap_or_default();
        check(ports.iter().all(|port| port["hostPort"].is_null()), "hostPort");
    }
    broken
}

#[tokio::test]
async fn pods_keep_to_the_constraints_of_openshift() {
    let place = ControlPlane::shared().await.namespace("openshift").await;
    let variables = [("LEADER_ELECT", "false"), ("FIXED_USER", "false")];
    let _operator = Operator::with(&place, "one", &variables).await;
    place.apply("{apiVersion: v1, kind: Secret, metadata: {name: db}, stringData: {pgpass: x}}").await;
    let http = "image: 'x:1', transport: streamable-http, mcpPort: 3000";
    for (kind, name, spec) in [
        ("VirtualMCPServer", "x", "{}".to_owned()),
        ("VirtualMCPServer", "kept", CLAIMS.to_owned()),
        ("MCPServer", "stdio", "{image: 'x:1', command: [run]}".to_owned()),
        ("MCPServer", "http", format!("{{{http}}}")),
        ("MCPServer", "guarded", format!("{{{http}, audit: {{enabled: true}}}}")),
        ("EmbeddingServer", "bge", "{modelCache: {size: 1Gi}}".to_owned()),
        (
            "MCPRegistry",
            "team",
            "{configYAML: 'sources: []', pgpassSecretRef: {name: db, key: pgpass}}".to_owned(),
        ),
    ] {
        apply(&place, kind, name, &spec).await;
    }
    for object in [
        "deployment/x",
        "statefulset/kept",
        "deployment/mcp-stdio",
        "deployment/mcp-http",
        "deployment/mcp-guarded",
        "statefulset/bge-tei",
        "deployment/team-api",
    ] {
        let made = async || {
            let found = place.json(object).await;
            found.is_object().then(|| found["spec"]["template"]["spec"].clone())
        };
        let pod = place.eventually(object, made).await;
        assert_eq!(broken_rules(&pod), Vec::<String>::new(), "{object}: {pod}");
    }
    place.remove().await;
}
