//! How a workload is, from what its controller counts and from what its pods suffer.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;

use super::refusal::Refusal;
use super::trouble::{self, Reason, Trouble};

/// What a Deployment or a StatefulSet says about its pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// How many pods should be there.
    pub desired: i32,
    /// How many are there.
    pub existing: i32,
    /// How many are ready.
    pub ready: i32,
    /// Why no pod is made, in the words of the cluster.
    pub refused: Option<String>,
    /// The pod that waits for its volumes, and why, in the words of the cluster.
    pub unmounted: Option<(String, String)>,
}

impl From<&Deployment> for Counts {
    fn from(deployment: &Deployment) -> Self {
        let status = deployment.status.clone().unwrap_or_default();
        let refused = status
            .conditions
            .into_iter()
            .flatten()
            .find(|condition| condition.type_ == "ReplicaFailure" && condition.status == "True")
            .map(|condition| condition.message.or(condition.reason).unwrap_or_default());
        Self {
            desired: deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
            existing: status.replicas.unwrap_or_default(),
            ready: status.ready_replicas.unwrap_or_default(),
            refused,
            unmounted: None,
        }
    }
}

impl From<&StatefulSet> for Counts {
    fn from(set: &StatefulSet) -> Self {
        let status = set.status.as_ref();
        Self {
            desired: set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
            existing: status.map_or(0, |status| status.replicas),
            ready: status.and_then(|status| status.ready_replicas).unwrap_or_default(),
            // A StatefulSet says so in events only: see `notices`.
            refused: None,
            unmounted: None,
        }
    }
}

/// How a workload is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// In one word.
    pub state: State,
    /// In one word, the reason of the condition `Ready`.
    pub reason: String,
    /// In a sentence: what happened and what to do.
    pub message: String,
}

/// The reason of a workload about which there is nothing more to say.
pub const READY: &str = "PodsReady";

/// How a workload is, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// No pods are wanted.
    Stopped,
    /// At least one pod is ready.
    Ready,
    /// Not yet, and there is reason to wait.
    Starting,
    /// The program runs and does not answer yet.
    NotAnswering,
    /// Not before somebody does something.
    Failed,
}

/// How the workload of a resource is, which may be refused, or may have no workload yet (no `counts`).
pub fn of_resource(
    refusal: Option<&Refusal>,
    counts: Option<&Counts>,
    pods: &[Arc<Pod>],
    main: &str,
) -> Health {
    match (refusal, counts) {
        (Some(refusal), counts) => refusal.health(counts.map_or(0, |counts| counts.ready)),
        (None, Some(counts)) => of(counts, pods, main),
        (None, None) => starting(),
    }
}

fn starting() -> Health {
    let message = "the pods are being made".to_owned();
    Health { state: State::Starting, reason: "Starting".to_owned(), message }
}

/// Judges a workload. `main` is the container that does the work.
pub fn of(counts: &Counts, pods: &[Arc<Pod>], main: &str) -> Health {
    let trouble = counts.refused.as_deref().map(refused).or_else(|| trouble::of_pods(pods, main));
    let trouble = trouble.map(|trouble| match &counts.unmounted {
        Some((pod, why)) if trouble.reason == Reason::Starting => trouble::unmounted(pod, why),
        _ => trouble,
    });
    let say = |state, reason: &str, message| Health { state, reason: reason.to_owned(), message };
    if counts.desired == 0 {
        return say(State::Stopped, "ScaledToZero", "no pods run: spec.replicas is 0".to_owned());
    }
    let ready = format!("{} of {} pods are ready", counts.ready.min(counts.desired), counts.desired);
    match trouble {
        None if counts.ready > 0 => say(State::Ready, READY, ready),
        None => starting(),
        Some(trouble) if counts.ready > 0 => {
            // What was there before serves on; whoever looks wants to know why the new is not.
            let reason = if trouble.reason.needs_somebody() { "SomePodsFail" } else { READY };
            say(State::Ready, reason, format!("{ready}; {}", trouble.message))
        }
        Some(trouble) => {
            let state = match trouble.reason {
                Reason::NotAnswering => State::NotAnswering,
                reason if reason.needs_somebody() => State::Failed,
                _ => State::Starting,
            };
            say(state, &trouble.reason.to_string(), trouble.message)
        }
    }
}

fn refused(message: &str) -> Trouble {
    let remedy = if message.contains("PodSecurity") {
        "; set the fields that it names in spec.podTemplateSpec.spec.securityContext, such as runAsNonRoot and runAsUser"
    } else if message.contains("quota") {
        "; raise the namespace's quota or lower spec.resources"
    } else if message.contains("serviceaccount") {
        "; create the ServiceAccount or correct spec.serviceAccount"
    } else {
        ""
    };
    let message = format!("the cluster refuses the pod: {}{remedy}", trouble::quoted(message));
    Trouble { reason: Reason::PodRefused, message }
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

    fn counts(desired: i32, ready: i32) -> Counts {
        Counts { desired, existing: ready, ready, ..Counts::default() }
    }

    fn health(counts: &Counts, pods: &[Arc<Pod>]) -> (State, String, String) {
        let Health { state, reason, message } = of(counts, pods, "mcp");
        (state, reason, message)
    }

    #[test]
    fn the_way_of_a_workload() {
        assert_eq!(health(&counts(1, 0), &[]).0, State::Starting);
        assert_eq!(health(&counts(1, 0), &[pod(false)]).0, State::NotAnswering);
        let (state, reason, message) = health(&counts(2, 1), &[pod(true)]);
        assert_eq!(
            (state, reason.as_str(), message.as_str()),
            (State::Ready, "PodsReady", "1 of 2 pods are ready")
        );
        assert_eq!(health(&counts(0, 0), &[]).0, State::Stopped);
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
        let (state, reason, message) = health(&Counts::from(&deployment), &[]);
        assert_eq!((state, reason.as_str()), (State::Failed, "PodRefused"));
        assert!(message.contains("runAsNonRoot != true; set the fields"), "{message}");
    }

    #[test]
    fn a_volume_that_does_not_come_is_named() {
        let pod: Pod = serde_json::from_value(json!({ "metadata": { "name": "p" }, "status": {} })).unwrap();
        let said = "MountVolume.SetUp failed for volume \"key\" : secret \"key\" not found";
        let counts = Counts { unmounted: Some(("p".to_owned(), said.to_owned())), ..counts(1, 0) };
        let (state, reason, message) = health(&counts, &[Arc::new(pod)]);
        assert_eq!((state, reason.as_str()), (State::Starting, "VolumeMissing"));
        assert_eq!(
            message,
            format!("pod p waits for its volumes: {said}; create it, or correct the reference")
        );
    }

    #[test]
    fn old_pods_serve_on_while_new_ones_fail() {
        let mut refused = counts(1, 1);
        refused.refused = Some("exceeded quota".to_owned());
        let (state, reason, message) = health(&refused, &[pod(true)]);
        assert_eq!((state, reason.as_str()), (State::Ready, "SomePodsFail"));
        assert!(message.starts_with("1 of 1 pods are ready; the cluster refuses"), "{message}");
    }
}
