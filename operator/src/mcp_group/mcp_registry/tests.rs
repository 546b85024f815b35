use serde_json::{Value, json};
use vmcp_crds::MCPRegistry;
use vmcp_crds::mcp_group::MCPRegistryPhase;

use super::controller::plan;
use super::status;
use crate::references::ReferencedSecrets;
use crate::runtime::{BuildSettings, ChildKind, Desired};

const FILE: &str = "sources:\n  - name: production\n    file: { path: /data/registry.json }\n";

fn registry(spec: &Value) -> MCPRegistry {
    let mut spec = spec.clone();
    spec.as_object_mut().unwrap().entry("configYAML").or_insert_with(|| FILE.into());
    serde_json::from_value(json!({
        "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": "MCPRegistry",
        "metadata": { "name": "team", "namespace": "tools" }, "spec": spec,
    }))
    .unwrap()
}

fn child(desired: &Desired, kind: ChildKind) -> Value {
    let child = desired.children.iter().find(|child| child.kind() == kind).unwrap();
    serde_json::to_value(child.object()).unwrap()
}

fn planned(spec: &Value) -> Result<Desired, String> {
    let secrets = ReferencedSecrets::from_values(&[("db", ".pgpass", "h:5432:*:u:p")]);
    let key = spec.get("pgpassSecretRef").map(|_| b"key".to_vec());
    plan(&registry(spec), &secrets, key, None, &BuildSettings::default())
        .map_err(|refusal| refusal.to_string())
}

#[test]
fn the_registry_server_gets_its_file_its_volumes_and_its_passwords() {
    let spec = json!({
        "pgpassSecretRef": { "name": "db", "key": ".pgpass" },
        "imagePullSecrets": [{ "name": "pull" }],
        "volumes": [{ "name": "data", "configMap": { "name": "prod" } }],
        "volumeMounts": [{ "name": "data", "mountPath": "/data", "readOnly": true }],
        "podTemplateSpec": { "spec": { "containers": [{ "name": "registry-api", "image": "mirror/registry:1" }] } },
    });
    let desired = planned(&spec).unwrap();
    let key = child(&desired, ChildKind::Secret);
    assert_eq!(key["metadata"]["name"], "team-api-digest", "the digest of passwords needs a secret key");
    assert_eq!(child(&desired, ChildKind::ConfigMap)["data"]["config.yaml"], FILE);
    let deployment = child(&desired, ChildKind::Deployment);
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "mirror/registry:1");
    assert_eq!(container["args"], json!(["serve", "--config=/config/config.yaml"]));
    let paths: Vec<_> = container["volumeMounts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mount| mount["mountPath"].clone())
        .collect();
    assert_eq!(paths, ["/config", "/data", "/home/appuser/.pgpass"]);
    assert_eq!(pod["initContainers"][0]["name"], "setup-pgpass");
    assert_eq!(pod["imagePullSecrets"], json!([{ "name": "pull" }]));
    assert_eq!(
        (&pod["automountServiceAccountToken"], &pod["securityContext"]["runAsNonRoot"]),
        (&json!(false), &json!(true))
    );
    let of = |desired: &Desired| {
        child(desired, ChildKind::Deployment)["spec"]["template"]["metadata"]["annotations"].clone()
    };
    let edited = planned(&json!({ "configYAML": "sources: []" })).unwrap();
    assert_ne!(
        of(&desired)["toolhive.stacklok.com/configuration-digest"],
        of(&edited)["toolhive.stacklok.com/configuration-digest"],
        "the server reads its file at its start"
    );
}

#[test]
fn what_cannot_run_is_refused_with_its_place() {
    let kubernetes = "sources:\n  - name: k8s\n    kubernetes: {}\n";
    for (spec, expected) in [
        (json!({ "configYAML": kubernetes }), "spec.configYAML: a source `kubernetes` asks the API server"),
        (json!({ "volumes": [{ "name": 7 }] }), "spec.volumes[0]: "),
        (json!({ "volumes": [{ "name": "pgpass" }] }), "spec.volumes[0].name: `pgpass` is a volume"),
        (
            json!({ "volumes": [{ "name": "data", "configmap": { "name": "prod" } }] }),
            "spec.volumes[0].configmap: the operator does not know this key",
        ),
        (
            json!({ "volumes": [{ "name": "data", "projected": { "sources": [{ "secret": { "nam": "a" } }] } }] }),
            "spec.volumes[0].projected.sources[0].secret.nam: the operator does not know this key",
        ),
        (json!({ "volumeMounts": [{ "name": "a" }, { "mountPath": [] }] }), "spec.volumeMounts[1]: "),
        (json!({ "pgpassSecretRef": { "name": "gone", "key": "k" } }), "there is no Secret gone"),
    ] {
        let refused = planned(&spec).unwrap_err();
        assert!(refused.starts_with(expected), "{refused}");
    }
    let named = json!({
        "configYAML": kubernetes, "podTemplateSpec": { "spec": { "serviceAccountName": "reader" } },
    });
    let pod = child(&planned(&named).unwrap(), ChildKind::Deployment)["spec"]["template"]["spec"].clone();
    assert_eq!(pod["serviceAccountName"], "reader");
    assert!(pod.get("automountServiceAccountToken").is_none(), "who names an account means its rights");
}

#[test]
fn a_pod_starts_before_the_passwords_that_it_brings() {
    let csi = json!({ "driver": "d", "volumeAttributes": { "secretProviderClass": "vault" } });
    let spec = json!({
        "pgpassSecretRef": { "name": "gone", "key": "k" },
        "volumes": [{ "name": "vault", "csi": csi }],
        "volumeMounts": [{ "name": "vault", "mountPath": "/vault" }],
    });
    assert!(planned(&spec).is_ok());
}

#[test]
fn a_refused_registry_says_why() {
    let registry = registry(&json!({ "volumes": [{ "name": "pgpass" }] }));
    let settings = BuildSettings::default();
    let refusal = plan(&registry, &ReferencedSecrets::default(), None, None, &settings).unwrap_err();
    let status = status::compute(&registry, None, Some(&refusal), None, &[], "cluster.local");
    assert_eq!(status.phase, Some(MCPRegistryPhase::Failed));
    assert_eq!(status.url.as_deref(), Some("http://team-api.tools.svc.cluster.local:8080"));
    assert!(status.message.unwrap().contains("spec.volumes[0].name"));
}
