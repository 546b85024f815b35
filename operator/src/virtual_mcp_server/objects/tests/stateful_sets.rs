//! Tests of the workload whose pods have a claim each, and of the change from one form to the other.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use serde::de::DeserializeOwned;

use super::*;

/// Settings with a claim for each pod.
const CLAIMS: &str = "optimizer: {enabled: true, embeddings: {provider: none}, storage: {volume: \
                      {persistentVolumeClaim: {size: 2Gi, storageClassName: fast}}}}";

/// Returns a stored workload with this number of pods, of which so many are ready.
fn stored<K: DeserializeOwned>(replicas: i32, ready: i32, claims: &Value) -> K {
    let spec =
        json!({ "selector": {}, "template": {}, "replicas": replicas, "volumeClaimTemplates": claims });
    let status = json!({
        "replicas": replicas, "readyReplicas": ready, "availableReplicas": ready, "updatedReplicas": replicas,
    });
    serde_json::from_value(json!({ "metadata": { "uid": "w" }, "spec": spec, "status": status }))
        .expect("a workload")
}

#[test]
fn each_pod_has_a_claim_of_its_own_which_stays_by_default() {
    let desired = desired_beside(&format!("{{replicas: 3, {CLAIMS}}}"), &RunningWorkload::default());
    assert_eq!(object(&desired, ChildKind::Deployment), None);
    let set = object(&desired, ChildKind::StatefulSet).expect("a StatefulSet");
    let spec = &set["spec"];
    assert_eq!((&set["metadata"]["name"], &spec["replicas"]), (&json!("x"), &json!(3)));
    assert_eq!(spec["serviceName"], "vmcp-x-peers");
    assert_eq!(spec["podManagementPolicy"], "Parallel");
    assert_eq!(
        spec["persistentVolumeClaimRetentionPolicy"],
        json!({ "whenDeleted": "Retain", "whenScaled": "Retain" })
    );
    let claim = &spec["volumeClaimTemplates"][0];
    assert_eq!(claim["metadata"]["name"], "cache");
    assert_eq!(claim["metadata"]["labels"]["app.kubernetes.io/instance"], "x");
    let wanted = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": { "requests": { "storage": "2Gi" } },
    });
    assert_eq!(claim["spec"], wanted);
    let pod = &spec["template"]["spec"];
    let volumes: Vec<_> = pod["volumes"].as_array().expect("volumes").iter().map(|v| &v["name"]).collect();
    assert_eq!(volumes, ["config", "secrets"], "the StatefulSet adds the claim");
    let mounts = pod["containers"][0]["volumeMounts"].as_array().expect("mounts");
    assert!(mounts.iter().any(|mount| mount["name"] == "cache"), "{mounts:?}");
    assert_eq!(pod["securityContext"]["fsGroup"], 65532, "a volume of a provisioner belongs to root");

    let deleted =
        CLAIMS.replace("fast}", "fast}, persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}");
    let desired = desired_beside(&format!("{{{deleted}}}"), &RunningWorkload::default());
    let set = object(&desired, ChildKind::StatefulSet).expect("a StatefulSet");
    let policy = &set["spec"]["persistentVolumeClaimRetentionPolicy"];
    assert_eq!(policy, &json!({ "whenDeleted": "Delete", "whenScaled": "Retain" }));
}

#[test]
fn an_autoscaler_scales_the_form_that_runs() {
    let spec = format!("{{autoscaling: {{maxReplicas: 5}}, {CLAIMS}}}");
    let desired = desired_beside(&spec, &RunningWorkload::default());
    let autoscaler = object(&desired, ChildKind::HorizontalPodAutoscaler).expect("an autoscaler");
    assert_eq!(autoscaler["spec"]["scaleTargetRef"]["kind"], "StatefulSet");
    let without = one("{autoscaling: {maxReplicas: 5}}", "HorizontalPodAutoscaler/x-vmcp");
    assert_eq!(without["spec"]["scaleTargetRef"]["kind"], "Deployment");
}

#[test]
fn the_former_workload_stays_until_the_new_one_is_ready_and_hands_over_its_number() {
    let deployment = Some(stored::<Deployment>(3, 3, &Value::Null));
    let spec = format!("{{{CLAIMS}}}");
    let kept = |desired: &Desired| desired.keep.clone();
    let old = (ChildKind::Deployment, "x".to_owned());

    let begins = desired_beside(&spec, &RunningWorkload { deployment: deployment.clone(), set: None });
    assert_eq!(kept(&begins), std::slice::from_ref(&old));
    let set = object(&begins, ChildKind::StatefulSet).expect("a StatefulSet");
    assert_eq!(set["spec"]["replicas"], 3, "as many as the autoscaler or the person had set");

    let claims = set["spec"]["volumeClaimTemplates"].clone();
    let partly = Some(stored::<StatefulSet>(3, 2, &claims));
    let waits = desired_beside(&spec, &RunningWorkload { deployment: deployment.clone(), set: partly });
    assert_eq!(kept(&waits), [old]);
    let set = object(&waits, ChildKind::StatefulSet).expect("a StatefulSet");
    assert_eq!(set["spec"].get("replicas"), None, "the number is theirs again");

    let ready = Some(stored::<StatefulSet>(3, 3, &claims));
    let done = desired_beside(&spec, &RunningWorkload { deployment, set: ready.clone() });
    assert!(kept(&done).is_empty(), "the Deployment goes");

    let back = desired_beside("{}", &RunningWorkload { deployment: None, set: ready });
    assert_eq!(kept(&back), [(ChildKind::StatefulSet, "x".to_owned())]);
    assert_eq!(object(&back, ChildKind::Deployment).expect("a Deployment")["spec"]["replicas"], 3);
}

#[test]
fn claims_that_a_person_edits_stay_and_hold_nothing_else_up() {
    let first = desired_beside(&format!("{{{CLAIMS}}}"), &RunningWorkload::default());
    let claims =
        object(&first, ChildKind::StatefulSet).expect("a set")["spec"]["volumeClaimTemplates"].take();
    let mut stored = stored::<StatefulSet>(1, 1, &claims);
    stored.metadata.uid = Some("of-the-first".to_owned());
    let running = RunningWorkload { deployment: None, set: Some(stored) };
    let edited = format!("{{image: 'vmcp:next', {}}}", CLAIMS.replace("2Gi", "4Gi"));
    let set = object(&desired_beside(&edited, &running), ChildKind::StatefulSet).expect("a StatefulSet");
    let spec = &set["spec"];
    assert_eq!(spec["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"], "2Gi");
    assert_eq!(spec["template"]["spec"]["containers"][0]["image"], "vmcp:next");
    // Deleted meanwhile, it is not made again with the claims of before.
    assert_eq!(set["metadata"]["uid"], "of-the-first");
}

#[test]
fn a_claim_beside_a_volume_of_the_same_name_is_refused() {
    let volume = "podTemplateSpec: {spec: {volumes: [{name: cache, emptyDir: {}}]}}";
    let refused = server(&format!("{{{CLAIMS}, {volume}}}")).validate().expect_err("two volumes");
    let said = refused.to_string();
    assert!(said.starts_with("spec.optimizer.storage.volume: `spec.podTemplateSpec` has a volume"), "{said}");
}
