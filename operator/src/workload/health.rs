//! The health of a workload in one word and one sentence, from the counts of its Deployment or StatefulSet
//! and the reports of its pods.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;

use super::rollout::{Rollout, RolloutCounts};
use super::spec_refusal::SpecRefusal;
use super::trouble::{self, Trouble, TroubleReason};
use crate::runtime::admission_remedy;

/// The pods of a Deployment or a StatefulSet, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PodCounts {
    /// Pods that should exist.
    pub desired: i32,
    /// Pods that exist.
    pub existing: i32,
    /// Pods that are ready.
    pub ready: i32,
    /// The workload's account of its rollout.
    pub rollout: RolloutCounts,
    /// The cluster's message, if it cannot create a pod.
    pub create_error: Option<String>,
    /// The pod that waits for its volumes, and the cluster's message about it.
    pub mount_error: Option<(String, String)>,
}

impl From<&Deployment> for PodCounts {
    fn from(deployment: &Deployment) -> Self {
        let rollout = deployment.into();
        let status = deployment.status.clone().unwrap_or_default();
        let desired = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        // Once all pods of the newest template exist, a refusal concerns those of the one before.
        let is_refused = status.updated_replicas.unwrap_or_default() < desired;
        let create_error = status
            .conditions
            .into_iter()
            .flatten()
            .find(|condition| condition.type_ == "ReplicaFailure" && condition.status == "True")
            .filter(|_| is_refused)
            .map(|condition| condition.message.or(condition.reason).unwrap_or_default());
        Self {
            desired,
            existing: status.replicas.unwrap_or_default(),
            ready: status.ready_replicas.unwrap_or_default(),
            rollout,
            create_error,
            mount_error: None,
        }
    }
}

impl PodCounts {
    /// Counts the pods that are seen. The workload counts them a moment later: by its number, each start
    /// would be two writes.
    #[must_use]
    pub(crate) fn with_existing(self, pods: &[Arc<Pod>]) -> Self {
        let existing = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).count();
        Self { existing: i32::try_from(existing).unwrap_or(i32::MAX), ..self }
    }
}

impl From<&StatefulSet> for PodCounts {
    fn from(set: &StatefulSet) -> Self {
        let status = set.status.as_ref();
        Self {
            desired: set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
            existing: status.map_or(0, |status| status.replicas),
            ready: status.and_then(|status| status.ready_replicas).unwrap_or_default(),
            rollout: set.into(),
            // A StatefulSet tells it in events only: see `cluster_events`.
            create_error: None,
            mount_error: None,
        }
    }
}

/// The health of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkloadHealth {
    /// The state, from which the phase follows.
    pub state: WorkloadState,
    /// The reason of the condition `Ready`.
    pub reason: String,
    /// One sentence: the cause and the remedy.
    pub message: String,
    /// Progress towards the newest spec.
    pub rollout: Rollout,
}

/// The reason of a workload that serves while its newest pods fail.
pub(crate) const SOME_PODS_FAIL: &str = "SomePodsFail";
/// The reason of a workload that is ready and about which there is nothing more to say.
pub(crate) const PODS_READY: &str = "PodsReady";

/// The reason of a workload that is ready and serves callers without credentials.
pub(crate) const UNAUTHENTICATED: &str = "Unauthenticated";

/// The state of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkloadState {
    /// No pods are desired.
    Stopped,
    /// At least one pod is ready.
    Ready,
    /// No pod is ready yet; waiting helps.
    Starting,
    /// The program runs and its readiness probe does not succeed yet.
    NotAnswering,
    /// Pods of an earlier version serve, and the newest spec is refused.
    Degraded,
    /// No pod gets ready until a person acts.
    Failed,
}

/// Returns the health of a resource's workload. `refusal` is set if the resource cannot run as it is written;
/// without `counts` there is no workload yet. `main` is the container that does the work.
pub(crate) fn resource_health(
    refusal: Option<&SpecRefusal>,
    counts: Option<&PodCounts>,
    pods: &[Arc<Pod>],
    main: &str,
) -> WorkloadHealth {
    match (refusal, counts) {
        (Some(refusal), counts) => refused_health(refusal, counts.map_or(0, |counts| counts.ready)),
        (None, Some(counts)) => workload_health(counts, pods, main),
        (None, None) => starting(),
    }
}

/// Returns the health of a refused resource, with this many ready pods of the previous version.
fn refused_health(refusal: &SpecRefusal, ready: i32) -> WorkloadHealth {
    let (state, message) = if ready == 0 {
        (WorkloadState::Failed, refusal.to_string())
    } else {
        let message = format!("{refusal}; the previous version still serves (ready pods: {ready})");
        (WorkloadState::Degraded, message)
    };
    let reason = refusal.reason().to_owned();
    let rollout = Rollout::Stalled { reason: reason.clone(), message: message.clone() };
    WorkloadHealth { state, reason, message, rollout }
}

fn starting() -> WorkloadHealth {
    let message = "the pods are being created".to_owned();
    let rollout = Rollout::UnderWay(message.clone());
    WorkloadHealth { state: WorkloadState::Starting, reason: "Starting".to_owned(), message, rollout }
}

/// Returns the health of a workload. `main` is the container that does the work.
pub(crate) fn workload_health(counts: &PodCounts, pods: &[Arc<Pod>], main: &str) -> WorkloadHealth {
    let trouble = counts.create_error.as_deref().map(not_created).or_else(|| trouble::of_pods(pods, main));
    // A pod that waits for its volumes looks like a starting pod; only its events tell the two apart.
    let trouble = trouble.map(|trouble| match &counts.mount_error {
        Some((pod, why)) if trouble.reason == TroubleReason::Starting => trouble::volume_missing(pod, why),
        _ => trouble,
    });
    let rollout = rollout(counts, trouble.as_ref());
    let health = |state, reason: &str, message| WorkloadHealth {
        state,
        reason: reason.to_owned(),
        message,
        rollout: rollout.clone(),
    };
    if counts.desired == 0 {
        return health(WorkloadState::Stopped, "ScaledToZero", "no pods run: spec.replicas is 0".to_owned());
    }
    let ready = format!("{} of {} pods are ready", counts.ready.min(counts.desired), counts.desired);
    match trouble {
        None if counts.ready > 0 => health(WorkloadState::Ready, PODS_READY, ready),
        None => starting(),
        Some(trouble) if counts.ready > 0 => {
            // Older pods serve on; the message says why the newest do not.
            let passes = matches!(trouble.reason, TroubleReason::Starting | TroubleReason::NotAnswering);
            let reason = if passes { PODS_READY } else { SOME_PODS_FAIL };
            health(WorkloadState::Ready, reason, format!("{ready}; {}", trouble.message))
        }
        Some(trouble) => {
            let state = match trouble.reason {
                TroubleReason::NotAnswering => WorkloadState::NotAnswering,
                reason if reason.needs_person() => WorkloadState::Failed,
                _ => WorkloadState::Starting,
            };
            health(state, &trouble.reason.to_string(), trouble.message)
        }
    }
}

/// Returns the progress of the rollout. A trouble that lasts until a person acts stalls it at once, any other
/// one after the Deployment's own deadline.
fn rollout(counts: &PodCounts, trouble: Option<&Trouble>) -> Rollout {
    if counts.desired == 0 {
        return Rollout::Complete;
    }
    let RolloutCounts { pending, deadline_exceeded } = &counts.rollout;
    let stalled = |reason: &str, message: &str| Rollout::Stalled {
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    match (trouble, deadline_exceeded, pending) {
        (Some(trouble), ..) if trouble.reason.needs_person() => {
            stalled(&trouble.reason.to_string(), &trouble.message)
        }
        (Some(trouble), Some(_), _) => stalled("ProgressDeadlineExceeded", &trouble.message),
        (None, Some(message), _) => stalled("ProgressDeadlineExceeded", message),
        (Some(trouble), None, _) => Rollout::UnderWay(trouble.message.clone()),
        // The steps of a first rollout take a second: told one by one, each would be a write.
        (None, None, Some(_)) if counts.existing == 0 => starting().rollout,
        (None, None, Some(pending)) => Rollout::UnderWay(pending.clone()),
        (None, None, None) if counts.ready < counts.desired => {
            Rollout::UnderWay(format!("{} of {} pods are ready", counts.ready, counts.desired))
        }
        (None, None, None) => Rollout::Complete,
    }
}

/// Explains why the cluster creates no pod: admission, quota, a missing ServiceAccount.
fn not_created(message: &str) -> Trouble {
    let remedy = admission_remedy(message).map(|remedy| format!("; {remedy}")).unwrap_or_default();
    let message = format!("the cluster refuses to create the pod: {}{remedy}", trouble::quoted(message));
    Trouble { reason: TroubleReason::PodRefused, message }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(ready: bool) -> Arc<Pod> {
        let status = if ready { "True" } else { "False" };
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "p", "namespace": "n" },
            "status": {
                "conditions": [{ "type": "Ready", "status": status }],
                "containerStatuses": [{
                    "name": "mcp", "image": "i", "imageID": "", "ready": ready, "restartCount": 0,
                    "state": { "running": {} },
                }],
            },
        }))
        .unwrap();
        Arc::new(pod)
    }

    fn counts(desired: i32, ready: i32) -> PodCounts {
        PodCounts { desired, existing: ready, ready, ..PodCounts::default() }
    }

    fn health(counts: &PodCounts, pods: &[Arc<Pod>]) -> (WorkloadState, String, String) {
        let WorkloadHealth { state, reason, message, .. } = workload_health(counts, pods, "mcp");
        (state, reason, message)
    }

    #[test]
    fn the_way_of_a_workload() {
        assert_eq!(health(&counts(1, 0), &[]).0, WorkloadState::Starting);
        assert_eq!(health(&counts(1, 0), &[pod(false)]).0, WorkloadState::NotAnswering);
        let (state, reason, message) = health(&counts(2, 1), &[pod(true)]);
        assert_eq!(
            (state, reason.as_str(), message.as_str()),
            (WorkloadState::Ready, "PodsReady", "1 of 2 pods are ready")
        );
        assert_eq!(health(&counts(0, 0), &[]).0, WorkloadState::Stopped);
    }

    #[test]
    fn a_refused_pod_is_told_by_the_cluster_s_words_and_the_remedy() {
        let deployment: Deployment = serde_json::from_value(json!({
            "spec": { "selector": {}, "template": {}, "replicas": 1 },
            "status": { "conditions": [{
                "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
                "message": "pods \"mcp-x-1\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true",
            }] },
        }))
        .unwrap();
        let (state, reason, message) = health(&PodCounts::from(&deployment), &[]);
        assert_eq!((state, reason.as_str()), (WorkloadState::Failed, "PodRefused"));
        assert!(message.contains("runAsNonRoot != true; set these fields"), "{message}");

        // The newest template is accepted; the pods of the old one are still refused.
        let mut corrected = deployment;
        corrected.status.as_mut().unwrap().updated_replicas = Some(1);
        assert_eq!(health(&PodCounts::from(&corrected), &[]).0, WorkloadState::Starting);
    }

    #[test]
    fn a_volume_that_does_not_come_is_named() {
        let pod: Pod = serde_json::from_value(json!({ "metadata": { "name": "p" }, "status": {} })).unwrap();
        let said = "MountVolume.SetUp failed for volume \"key\" : secret \"key\" not found";
        let counts = PodCounts { mount_error: Some(("p".to_owned(), said.to_owned())), ..counts(1, 0) };
        let (state, reason, message) = health(&counts, &[Arc::new(pod)]);
        assert_eq!((state, reason.as_str()), (WorkloadState::Starting, "VolumeMissing"));
        assert_eq!(
            message,
            format!("pod p waits for its volumes: {said}; create it, or correct the reference")
        );
    }

    #[test]
    fn old_pods_serve_on_while_new_ones_fail() {
        let mut refused = counts(1, 1);
        refused.create_error = Some("exceeded quota".to_owned());
        let (state, reason, message) = health(&refused, &[pod(true)]);
        assert_eq!((state, reason.as_str()), (WorkloadState::Ready, "SomePodsFail"));
        assert!(message.starts_with("1 of 1 pods are ready; the cluster refuses"), "{message}");
        let stalled = workload_health(&refused, &[pod(true)], "mcp").rollout;
        assert!(matches!(stalled, Rollout::Stalled { reason, .. } if reason == "PodRefused"));
    }

    #[test]
    fn a_rollout_waits_until_its_deadline() {
        let mut slow = counts(2, 1);
        assert!(matches!(workload_health(&slow, &[pod(true)], "mcp").rollout, Rollout::UnderWay(_)));
        slow.rollout.deadline_exceeded = Some("timed out progressing".to_owned());
        let stalled = workload_health(&slow, &[pod(true)], "mcp").rollout;
        assert!(matches!(stalled, Rollout::Stalled { reason, .. } if reason == "ProgressDeadlineExceeded"));
        assert_eq!(workload_health(&counts(2, 2), &[pod(true)], "mcp").rollout, Rollout::Complete);
    }
}
