//! Tests of `VolumesReady`.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};

use super::*;

fn spec(size: &str) -> String {
    format!(
        "{{optimizer: {{enabled: true, storage: {{volume: {{persistentVolumeClaim: {{size: {size}}}}}}}}}}}"
    )
}

/// Returns a StatefulSet with claims of 1 GiB, whose one pod is ready or not.
fn set(ready: i32) -> StatefulSet {
    let claim = json!({ "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
    } });
    let spec = json!({ "selector": {}, "template": {}, "replicas": 1, "volumeClaimTemplates": [claim] });
    let status = json!({ "replicas": 1, "updatedReplicas": 1, "readyReplicas": ready });
    serde_json::from_value(json!({ "spec": spec, "status": status })).expect("a StatefulSet")
}

#[test]
fn claims_that_cannot_change_are_named_with_the_remedy() {
    let mut world = World::new(&spec("1Gi")).pod(all_well());
    world.running.set = Some(set(1));
    let status = world.status();
    assert_eq!(condition(&status, "VolumesReady").reason, "ClaimPerPod");
    world.server = server(&spec("2Gi"));
    let status = world.status();
    let volumes = condition(&status, "VolumesReady");
    assert_eq!((volumes.status.as_str(), volumes.reason.as_str()), ("False", "ClaimsUnchangeable"));
    let remedy = "`kubectl delete statefulset x -n n --cascade=orphan`";
    assert!(volumes.message.contains(remedy), "{}", volumes.message);
    assert!(volumes.message.starts_with("spec.optimizer.storage.volume.persistentVolumeClaim: "));
    assert_eq!(condition(&status, "Degraded").reason, "ClaimsUnchangeable");
    assert_eq!(condition(&status, "Ready").status, "True");
}

#[test]
fn a_workload_that_changes_its_form_says_so() {
    let mut world = World::new(&spec("1Gi")).pod(all_well());
    let deployment = json!({ "spec": { "selector": {}, "template": {}, "replicas": 1 } });
    world.running.deployment = Some(serde_json::from_value::<Deployment>(deployment).expect("a Deployment"));
    world.running.set = Some(set(0));
    let status = world.status();
    let volumes = condition(&status, "VolumesReady");
    assert_eq!((volumes.status.as_str(), volumes.reason.as_str()), ("Unknown", "WorkloadReplacing"));
    assert!(volumes.message.contains("a StatefulSet replaces the Deployment"), "{}", volumes.message);
    world.running.deployment = None;
    assert_eq!(condition(&world.status(), "VolumesReady").reason, "ClaimPerPod");
    // A server without claims has no such condition.
    let plain = World::new("{}").pod(all_well()).status();
    assert!(!plain.conditions.iter().any(|condition| condition.type_ == "VolumesReady"));
}

#[test]
fn a_pod_that_cannot_write_to_its_volume_is_told() {
    let mut report = all_well();
    report["issues"] = json!([vmcp_config::status::CACHE_IN_MEMORY]);
    let status = World::new("{}").pod(report).status();
    assert_eq!(condition(&status, "VolumesReady").reason, "CacheInMemory");
    assert_eq!(condition(&status, "Degraded").reason, "CacheInMemory");
}
