//! Tests of suspended servers, whose workload stays without pods and keeps their number.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use serde::de::DeserializeOwned;

use super::*;

/// Annotation of the workload with the number of pods to come back to.
const KEPT: &str = "toolhive.stacklok.com/replicas-before-suspension";
/// A claim for each pod, which goes when the number of pods is lowered.
const CLAIMS: &str = "optimizer: {enabled: true, embeddings: {provider: none}, storage: {volume: \
                      {persistentVolumeClaim: {}, persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}}}}";

/// Returns a stored workload with this number of pods, and that of the annotation.
fn stored<K: DeserializeOwned>(replicas: i32, kept: Option<i32>) -> K {
    let annotations = kept.map(|kept| json!({ KEPT: kept.to_string() }));
    let object = json!({
        "metadata": { "uid": "w", "annotations": annotations },
        "spec": { "selector": {}, "template": {}, "replicas": replicas },
        "status": { "replicas": 0 },
    });
    serde_json::from_value(object).expect("a workload")
}

/// Returns the number of pods of the desired workload, and the number in its annotation.
fn numbers(desired: &Desired, kind: ChildKind) -> (Option<i64>, Option<i64>) {
    let workload = object(desired, kind).expect("a workload");
    let kept = workload["metadata"]["annotations"][KEPT].as_str().and_then(|text| text.parse().ok());
    (workload["spec"].get("replicas").and_then(Value::as_i64), kept)
}

#[test]
fn a_suspended_server_keeps_everything_but_its_pods_and_remembers_their_number() {
    let names = |spec: &str| built(spec).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(
        names("{suspend: true, autoscaling: {maxReplicas: 5}}"),
        names("{autoscaling: {maxReplicas: 5}}")
    );
    let replicas = |spec: &str, current: Option<i32>, before_suspension: Option<i32>| {
        let deployment = current.map(|current| stored::<Deployment>(current, before_suspension));
        let running = RunningWorkload { deployment, set: None };
        numbers(&desired_beside(spec, &running), ChildKind::Deployment)
    };
    assert_eq!(replicas("{suspend: true}", Some(3), None), (Some(0), Some(3)));
    assert_eq!(replicas("{suspend: true}", Some(0), Some(3)), (Some(0), Some(3)), "the next reconcile");
    assert_eq!(replicas("{suspend: true}", None, None), (Some(0), Some(1)), "suspended from the beginning");
    assert_eq!(replicas("{suspend: false}", Some(0), Some(3)), (Some(3), None), "back to the former number");
    assert_eq!(replicas("{}", Some(3), None), (None, None), "left to others again");
    assert_eq!(replicas("{suspend: true, replicas: 2}", Some(2), None), (Some(0), None));
    assert_eq!(replicas("{replicas: 2}", Some(0), None), (Some(2), None));
}

#[test]
fn a_suspended_stateful_set_keeps_its_claims_and_the_number_of_its_pods() {
    let (suspended, started) = (format!("{{suspend: true, {CLAIMS}}}"), format!("{{{CLAIMS}}}"));
    let desired = |spec: &str, replicas: i32, before_suspension: Option<i32>| {
        let set = Some(stored::<StatefulSet>(replicas, before_suspension));
        desired_beside(spec, &RunningWorkload { deployment: None, set })
    };
    let policy = |desired: &Desired| {
        let set = object(desired, ChildKind::StatefulSet).expect("a StatefulSet");
        set["spec"]["persistentVolumeClaimRetentionPolicy"]["whenScaled"].clone()
    };
    for (replicas, before) in [(3, None), (0, Some(3))] {
        let desired = desired(&suspended, replicas, before);
        assert_eq!(numbers(&desired, ChildKind::StatefulSet), (Some(0), Some(3)));
        assert_eq!(policy(&desired), "Retain", "a suspension is no scaling");
    }
    let back = desired(&started, 0, Some(3));
    assert_eq!(numbers(&back, ChildKind::StatefulSet), (Some(3), None));
    assert_eq!(policy(&back), "Delete");
    assert_eq!(numbers(&desired(&started, 3, None), ChildKind::StatefulSet), (None, None));
}

#[test]
fn a_suspended_server_changes_its_form_without_a_wait_for_pods_and_keeps_their_number() {
    let suspended = format!("{{suspend: true, {CLAIMS}}}");
    for (replicas, before) in [(3, None), (0, Some(3))] {
        let deployment = Some(stored::<Deployment>(replicas, before));
        let begins =
            desired_beside(&suspended, &RunningWorkload { deployment: deployment.clone(), set: None });
        assert_eq!(numbers(&begins, ChildKind::StatefulSet), (Some(0), Some(3)));
        assert_eq!(begins.keep, [(ChildKind::Deployment, "x".to_owned())], "it has the number alone");
        let set = Some(stored::<StatefulSet>(0, Some(3)));
        let goes = desired_beside(&suspended, &RunningWorkload { deployment, set });
        assert_eq!(numbers(&goes, ChildKind::StatefulSet), (Some(0), Some(3)));
        assert!(goes.keep.is_empty(), "there are no pods to wait for");
    }
    let set = Some(stored::<StatefulSet>(0, Some(3)));
    let back = desired_beside("{}", &RunningWorkload { deployment: None, set });
    assert_eq!(numbers(&back, ChildKind::Deployment), (Some(3), None), "started in the other form");
    assert_eq!(back.keep, [(ChildKind::StatefulSet, "x".to_owned())]);
}
