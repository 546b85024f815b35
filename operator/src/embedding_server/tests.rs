use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::{Value, json};
use vmcp_crds::EmbeddingServer;
use vmcp_crds::embedding_server::EmbeddingServerPhase;

use super::controller::plan;
use super::dereference::References;
use super::status::{self, ObservedEmbeddingServer};
use super::url;
use crate::references::ReferencedSecrets;
use crate::runtime::{BuildSettings, Child, ChildKind};
use crate::workload::health::PodCounts;

fn server(spec: &str) -> EmbeddingServer {
    let spec: Value = serde_saphyr::from_str(spec).unwrap();
    serde_json::from_value(json!({
        "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": "EmbeddingServer",
        "metadata": { "name": "bge", "namespace": "tools", "generation": 1 }, "spec": spec,
    }))
    .unwrap()
}

/// Returns the Secret `hf`, and a key of digests if the spec refers to it.
fn references(spec: &str, key: &[u8]) -> References {
    let secrets = ReferencedSecrets::from_values(&[("hf", "token", "x")]);
    References { secrets, digest_key: spec.contains("hfTokenSecretRef").then(|| key.to_vec()) }
}

fn planned(spec: &str, kind: ChildKind) -> Option<Value> {
    let desired = plan(&server(spec), &references(spec, b"key"), None, &BuildSettings::default()).unwrap();
    let found = desired.children.iter().find(|child| child.kind() == kind).map(Child::object);
    found.map(|object| serde_json::to_value(object).unwrap())
}

#[test]
fn the_defaults_serve_the_model_of_the_rfc_without_a_volume() {
    let set = planned("{}", ChildKind::StatefulSet).unwrap();
    assert_eq!(set["metadata"]["name"], "bge-tei");
    let pod = &set["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["args"], json!(["--model-id", "BAAI/bge-small-en-v1.5", "--port", "8080"]));
    assert_eq!(container["env"], json!([{ "name": "HF_HOME", "value": "/data" }]));
    assert_eq!(container["readinessProbe"]["httpGet"], json!({ "path": "/health", "port": "http" }));
    let patience = &container["startupProbe"];
    let seconds =
        patience["periodSeconds"].as_i64().unwrap() * patience["failureThreshold"].as_i64().unwrap();
    assert!(seconds >= 1800, "large models take long");
    assert_eq!(pod["volumes"], json!([{ "name": "model", "emptyDir": {} }]));
    assert_eq!(planned("{}", ChildKind::PersistentVolumeClaim), None);
    let service = planned("{}", ChildKind::Service).unwrap();
    assert_eq!(service["spec"]["ports"][0]["port"], 8080);
    assert_eq!(url("bge", "tools", 8080, "cluster.local"), "http://bge-tei.tools.svc.cluster.local:8080");
}

#[test]
fn a_cache_is_a_volume_and_a_token_a_variable() {
    let spec = "{model: m, port: 80, args: [--pooling, mean], hfTokenSecretRef: {name: hf, key: token}, \
                modelCache: {size: 2Gi, storageClassName: fast}, podTemplateSpec: {spec: {nodeSelector: {gpu: 'yes'}}}}";
    let claim = planned(spec, ChildKind::PersistentVolumeClaim).unwrap();
    assert_eq!(claim["metadata"]["name"], "bge-tei");
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "2Gi");
    assert_eq!(claim["spec"]["storageClassName"], "fast");
    let set = planned(spec, ChildKind::StatefulSet).unwrap();
    let pod = &set["spec"]["template"]["spec"];
    assert_eq!(pod["volumes"][0]["persistentVolumeClaim"]["claimName"], "bge-tei");
    assert_eq!(pod["nodeSelector"]["gpu"], "yes");
    let container = &pod["containers"][0];
    assert_eq!(container["args"], json!(["--model-id", "m", "--port", "80", "--pooling", "mean"]));
    assert_eq!(container["env"][1]["valueFrom"]["secretKeyRef"], json!({ "name": "hf", "key": "token" }));
}

#[test]
fn several_pods_have_a_volume_each_unless_they_can_share_one() {
    let several = "{replicas: 2, modelCache: {size: 2Gi}}";
    let set = planned(several, ChildKind::StatefulSet).unwrap();
    let claim = &set["spec"]["volumeClaimTemplates"][0];
    assert_eq!(
        (&claim["metadata"]["name"], &claim["spec"]["accessModes"]),
        (&json!("model"), &json!(["ReadWriteOnce"]))
    );
    assert_eq!(set["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"], "Delete");
    assert!(set["spec"]["template"]["spec"].get("volumes").is_none());
    assert_eq!(planned(several, ChildKind::PersistentVolumeClaim), None);
    let shared = "{replicas: 2, modelCache: {accessMode: ReadWriteMany}}";
    assert!(planned(shared, ChildKind::StatefulSet).unwrap()["spec"].get("volumeClaimTemplates").is_none());

    // Claims of a StatefulSet cannot change.
    let running = |set: Value| serde_json::from_value::<StatefulSet>(set).unwrap();
    let replan = |spec: &str, set: &StatefulSet| {
        plan(&server(spec), &References::default(), Some(set), &BuildSettings::default())
    };
    let per_pod = running(set);
    for (same, other) in [("2Gi", "3Gi"), ("2048Mi", "2G")] {
        let spec = |size: &str| format!("{{replicas: 2, modelCache: {{size: {size}}}}}");
        assert!(replan(&spec(same), &per_pod).is_ok(), "{same}");
        let refused = replan(&spec(other), &per_pod).unwrap_err().to_string();
        assert!(refused.contains("spec.modelCache: the StatefulSet was made with"), "{refused}");
    }
    for changed in ["{replicas: 2}", shared, "{modelCache: {size: 2Gi, storageClassName: fast}}"] {
        let refused = replan(changed, &per_pod).unwrap_err().to_string();
        assert!(refused.contains("spec.modelCache") && refused.contains("bge-tei`"), "{refused}");
    }
    let kept = replan("{replicas: 1, modelCache: {size: 2Gi}}", &per_pod).unwrap();
    assert!(kept.children.iter().all(|child| child.kind() != ChildKind::PersistentVolumeClaim));
    let single = running(planned("{modelCache: {size: 2Gi}}", ChildKind::StatefulSet).unwrap());
    let refused = replan(several, &single).unwrap_err().to_string();
    assert!(refused.contains("`kubectl delete statefulset bge-tei`"), "{refused}");
}

#[test]
fn labels_and_annotations_are_added_as_in_toolhive() {
    let spec = "{modelCache: {}, resourceOverrides: {\
        statefulSet: {labels: {a: '1'}, podTemplateMetadataOverrides: {annotations: {b: '2'}}}, \
        service: {annotations: {c: '3'}}, persistentVolumeClaim: {labels: {d: '4'}}}}";
    let set = planned(spec, ChildKind::StatefulSet).unwrap();
    assert_eq!(set["metadata"]["labels"]["a"], "1");
    assert_eq!(set["spec"]["template"]["metadata"]["annotations"]["b"], "2");
    assert_eq!(planned(spec, ChildKind::Service).unwrap()["metadata"]["annotations"]["c"], "3");
    assert_eq!(planned(spec, ChildKind::PersistentVolumeClaim).unwrap()["metadata"]["labels"]["d"], "4");
}

#[test]
fn pods_are_restricted_and_have_resources() {
    let spec = "{imagePullSecrets: [{name: pull}]}";
    let pod = planned(spec, ChildKind::StatefulSet).unwrap()["spec"]["template"]["spec"].take();
    assert_eq!(pod["imagePullSecrets"], json!([{ "name": "pull" }]));
    let context = &pod["securityContext"];
    assert_eq!((&context["runAsNonRoot"], &context["runAsUser"]), (&json!(true), &json!(1000)));
    assert_eq!(context["seccompProfile"]["type"], "RuntimeDefault");
    assert_eq!(context["fsGroup"], 1000, "the volume of the model is written by this user");
    let container = &pod["containers"][0];
    assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
    for part in ["requests", "limits"] {
        assert!(container["resources"][part]["memory"].is_string(), "{container}");
    }
    let everywhere = BuildSettings {
        pod_image_pull_secrets: vec!["pull".to_owned(), "company".to_owned()],
        ..BuildSettings::default()
    };
    let desired = plan(&server(spec), &References::default(), None, &everywhere).unwrap();
    let set = desired.children.iter().find(|child| child.kind() == ChildKind::StatefulSet).unwrap();
    let secrets =
        &serde_json::to_value(set.object()).unwrap()["spec"]["template"]["spec"]["imagePullSecrets"];
    assert_eq!(*secrets, json!([{ "name": "pull" }, { "name": "company" }]));
    let own = "{port: 80, resources: {requests: {memory: 1Gi}}}";
    let pod = planned(own, ChildKind::StatefulSet).unwrap()["spec"]["template"]["spec"].take();
    assert_eq!(pod["containers"][0]["resources"], json!({ "requests": { "memory": "1Gi" } }));
    let expected = json!([{ "name": "net.ipv4.ip_unprivileged_port_start", "value": "80" }]);
    assert_eq!(pod["securityContext"]["sysctls"], expected);
    let platform = BuildSettings { fixed_user: false, ..BuildSettings::default() };
    let desired = plan(&server("{}"), &References::default(), None, &platform).unwrap();
    let set = desired.children.iter().find(|child| child.kind() == ChildKind::StatefulSet).unwrap();
    let set = serde_json::to_value(set.object()).unwrap();
    assert!(set["spec"]["template"]["spec"]["securityContext"].get("runAsUser").is_none(), "{set}");
}

#[test]
fn the_digest_of_the_token_confirms_no_guess_without_its_key() {
    let spec = "{hfTokenSecretRef: {name: hf, key: token}}";
    let annotation = |key: &[u8]| {
        let desired = plan(&server(spec), &references(spec, key), None, &BuildSettings::default()).unwrap();
        let of = |kind: ChildKind| {
            let child = desired.children.iter().find(|child| child.kind() == kind).unwrap();
            serde_json::to_value(child.object()).unwrap()
        };
        assert_eq!(of(ChildKind::Secret)["metadata"]["name"], "bge-tei-digest");
        let template = of(ChildKind::StatefulSet)["spec"]["template"]["metadata"].take();
        template["annotations"]["toolhive.stacklok.com/secrets-digest"].clone()
    };
    assert!(annotation(b"one").is_string());
    assert_ne!(annotation(b"one"), annotation(b"other"));
    assert_eq!(planned("{}", ChildKind::Secret), None);
}

#[test]
fn what_makes_no_sense_says_what_would() {
    for (spec, said) in [
        ("{args: [--model-id=x]}", "spec.args: `--model-id` is set already; set `spec.model` instead"),
        ("{hfTokenSecretRef: {name: none, key: k}}", "there is no Secret none"),
        (
            "{resourceOverrides: {service: {labels: {app.kubernetes.io/instance: x}}}}",
            "spec.resourceOverrides.service.labels: `app.kubernetes.io/instance` belongs to the operator or to Kubernetes",
        ),
    ] {
        let refusal = plan(&server(spec), &References::default(), None, &BuildSettings::default())
            .unwrap_err()
            .to_string();
        assert!(refusal.starts_with(said), "{refusal}");
    }
}

#[test]
fn pods_start_before_a_token_that_they_bring() {
    let spec = "{hfTokenSecretRef: {name: gone, key: token}, podTemplateSpec: {spec: {\
                containers: [{name: embedding, volumeMounts: [{name: keys, mountPath: /keys}]}], \
                volumes: [{name: keys, csi: {driver: d, volumeAttributes: {secretProviderClass: vault}}}]}}}";
    let planned =
        |spec: &str| plan(&server(spec), &references(spec, b"key"), None, &BuildSettings::default());
    assert!(planned(spec).is_ok());
    let unmounted = spec.replace("name: keys, mountPath", "name: other, mountPath");
    assert!(planned(&unmounted).unwrap_err().to_string().contains("there is no Secret gone"));
}

#[test]
fn a_model_that_is_being_fetched_is_no_failure() {
    let server = server("{modelCache: {}}");
    let pod = serde_json::from_value(json!({
        "metadata": { "name": "bge-tei-0", "namespace": "tools" },
        "status": { "containerStatuses": [{
            "name": "embedding", "image": "tei", "imageID": "", "ready": false, "restartCount": 0, "state": { "running": {} },
        }] },
    }));
    let found = ObservedEmbeddingServer {
        awaited_secrets: None,
        refusal: None,
        counts: Some(PodCounts { desired: 1, existing: 1, ..PodCounts::default() }),
        pods: &[Arc::new(pod.unwrap())],
        claim: Some(&PersistentVolumeClaim::default()),
        url: "http://u".to_owned(),
    };
    let status = status::compute(&server, &found);
    assert_eq!(status.phase, Some(EmbeddingServerPhase::Downloading));
    let selector = status.selector.clone().unwrap_or_default();
    assert!(selector.contains("app.kubernetes.io/instance=bge"), "for an autoscaler: {selector}");
    let reasons: Vec<_> =
        status.conditions.iter().map(|found| (found.type_.as_str(), found.reason.as_str())).collect();
    assert_eq!(
        reasons,
        [
            ("Ready", "ModelDownloading"),
            ("Valid", "ConfigValid"),
            ("Reconciling", "RolloutUnderWay"),
            ("Stalled", "NotStalled"),
            ("VolumeReady", "VolumeCreating"),
        ]
    );
}
