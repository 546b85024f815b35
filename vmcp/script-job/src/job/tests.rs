use serde_json::{Value, json};

use super::*;
use crate::server_pod::SCRIPT_PORT;

pub(crate) fn settings() -> JobSettings {
    JobSettings {
        image: "docker.io/library/python:3.13-slim".to_owned(),
        image_pull_secrets: Vec::new(),
        runtime_class_name: None,
        cpu_millicores: 500,
        memory: 128 << 20,
        ephemeral_storage: 64 << 20,
        start_timeout: Duration::from_millis(60_001),
        max_timeout: Duration::from_mins(2),
    }
}

fn server_pod() -> ServerPod {
    ServerPod {
        name: "x-1".to_owned(),
        namespace: "n".to_owned(),
        uid: "u".to_owned(),
        server: "x".to_owned(),
        script_user: Some(65_532),
        script_port: SCRIPT_PORT,
    }
}

fn manifest(settings: &JobSettings) -> Value {
    serde_json::to_value(job(&server_pod(), settings, "x-script-1", "secret", 4096)).unwrap()
}

#[test]
fn the_pod_has_no_token_no_rights_and_limits() {
    let job = manifest(&settings());
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod.get("serviceAccountName"), None);
    assert_eq!(pod["restartPolicy"], "Never");
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["runAsUser"], 65_532);
    let container = &pod["containers"][0];
    assert_eq!(
        container["securityContext"],
        json!({
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": { "drop": ["ALL"] },
        })
    );
    let limits = json!({ "cpu": "500m", "ephemeral-storage": "67108864", "memory": "134217728" });
    assert_eq!(container["resources"], json!({ "limits": limits, "requests": limits }));
    assert_eq!(pod["volumes"], json!([{ "name": "tmp", "emptyDir": { "sizeLimit": "67108864" } }]));
    assert_eq!(pod.get("runtimeClassName"), None);
    assert_eq!(pod.get("imagePullSecrets"), None);
}

#[test]
fn nothing_outlives_its_time_or_its_server() {
    let job = manifest(&settings());
    assert_eq!(job["spec"]["backoffLimit"], 0);
    assert_eq!(job["spec"]["activeDeadlineSeconds"], 61 + 120 + 1_200);
    assert_eq!(job["spec"]["template"]["spec"]["activeDeadlineSeconds"], 61 + 120 + 600);
    assert_eq!(job["spec"]["ttlSecondsAfterFinished"], 60);
    let owner = json!([{ "apiVersion": "v1", "kind": "Pod", "name": "x-1", "uid": "u" }]);
    assert_eq!(job["metadata"]["ownerReferences"], owner);
    assert_eq!(job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]);
    assert_eq!(job["metadata"]["labels"]["app.kubernetes.io/instance"], "x");
}

#[test]
fn the_name_of_a_job_fits_into_a_label() {
    assert_eq!(job_name("x", [0xab; 6]), "x-script-abababababab");
    let longest = job_name(&"s".repeat(52), [0; 6]);
    assert_eq!(longest, format!("{}-script-000000000000", "s".repeat(43)));
    assert_eq!(longest.len(), 63);
    let cut_at_a_dash = job_name(&format!("{}-.{}", "s".repeat(41), "t".repeat(9)), [0; 6]);
    assert_eq!(cut_at_a_dash, format!("{}-script-000000000000", "s".repeat(41)));
}

#[test]
fn the_job_holds_the_hash_of_the_token_alone() {
    let text = manifest(&settings()).to_string();
    assert!(!text.contains("secret"), "{text}");
    assert!(text.contains(&hex::encode(Sha256::digest("secret"))), "{text}");
}

#[test]
fn a_runtime_class_and_a_private_registry_are_passed_on() {
    let settings = JobSettings {
        runtime_class_name: Some("gvisor".to_owned()),
        image_pull_secrets: vec!["registry".to_owned()],
        ..settings()
    };
    let pod = manifest(&settings)["spec"]["template"]["spec"].take();
    assert_eq!(pod["runtimeClassName"], "gvisor");
    assert_eq!(pod["imagePullSecrets"], json!([{ "name": "registry" }]));
    let outside = ServerPod { script_user: None, ..server_pod() };
    let job = serde_json::to_value(job(&outside, &settings, "j", "secret", 1)).unwrap();
    assert_eq!(
        job["spec"]["template"]["spec"]["securityContext"].get("runAsUser"),
        None,
        "OpenShift decides"
    );
}
