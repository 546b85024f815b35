//! Causes that Kubernetes tells in events and nowhere else: why a StatefulSet's pod cannot be created, and
//! why a pod waits for its volumes.
//!
//! Events are listed, not watched: a watch would bring every event of the cluster. Only objects that do not
//! run are asked about.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, ObjectList};
use kube::{Api, ResourceExt as _};

use super::health::PodCounts;
use crate::runtime::{Context, Verb};
use vmcp_error_chain::error_chain;

/// The interval at which events are listed again while a workload does not run.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// The time after scheduling before a pod's events are listed: most pods run by then.
const USUAL_START_TIME: Duration = Duration::from_secs(10);
/// The most events that are read about one object. Kubernetes keeps one for each cause and counts repetitions
/// in it.
const MAX_EVENTS: u32 = 50;

impl PodCounts {
    /// Adds the causes that stand in events only. Best effort: without them the pods count as starting, which
    /// is true as well.
    #[must_use]
    pub(crate) async fn with_cluster_events(
        mut self,
        context: &Context,
        set: Option<&StatefulSet>,
        pods: &[Arc<Pod>],
    ) -> Self {
        if let Some(set) = set
            && self.existing < self.desired
        {
            self.create_error = newest_event(context, &set.metadata, &["FailedCreate"]).await;
        }
        if let Some(pod) = pods.iter().find(|pod| waits_for_volumes(pod))
            && self.ready < self.desired
        {
            let said = newest_event(context, &pod.metadata, &["FailedMount", "FailedAttachVolume"]).await;
            self.mount_error = said.map(|said| (pod.name_any(), said));
        }
        self
    }
}

/// Returns true if events have to be listed again for one of these pods: no change of the pod itself tells
/// that it waits for its volumes.
pub(crate) fn need_polls(pods: &[Arc<Pod>]) -> bool {
    pods.iter().any(|pod| scheduled_at(pod).is_some() && !is_started(pod))
}

/// Returns true if a node has had the pod for a while and started no container of it: volumes are mounted
/// first.
fn waits_for_volumes(pod: &Pod) -> bool {
    let long = scheduled_at(pod)
        .is_some_and(|since| Timestamp::now().duration_since(since).unsigned_abs() >= USUAL_START_TIME);
    long && !is_started(pod)
}

/// Returns the time at which the pod was given to a node; `None` while it waits for one.
fn scheduled_at(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.iter().flatten();
    conditions
        .filter(|condition| condition.type_ == "PodScheduled" && condition.status == "True")
        .find_map(|condition| Some(condition.last_transition_time.as_ref()?.0))
}

/// Reasons of a waiting container whose volumes may not be mounted yet; any other one comes after the mount,
/// such as `ImagePullBackOff`.
const BEFORE_MOUNT: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// Returns true if a container of the pod got past the mount of its volumes, or the pod is about to end.
fn is_started(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let mut containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    pod.metadata.deletion_timestamp.is_some()
        || containers.any(|container| {
            let state = container.state.as_ref();
            let waits_for = state.and_then(|state| state.waiting.as_ref()?.reason.as_deref());
            container.last_state.as_ref().is_some_and(|last| last.terminated.is_some())
                || waits_for.is_some_and(|reason| !BEFORE_MOUNT.contains(&reason))
                || state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
        })
}

/// Returns the message of the newest event about an object, if it has one of these reasons; older events are
/// over.
async fn newest_event(context: &Context, object: &ObjectMeta, reasons: &[&str]) -> Option<String> {
    let (name, namespace) = (object.name.as_deref()?, object.namespace.as_deref()?);
    let about = format!("involvedObject.uid={}", object.uid.as_deref()?);
    let api: Api<Event> = Api::namespaced(context.client.clone(), namespace);
    let params = ListParams::default().fields(&about).limit(MAX_EVENTS);
    match context.call(Verb::List, "Event", name, api.list(&params)).await {
        Ok(found) => newest(found, reasons),
        Err(error) => {
            tracing::debug!(
                object = name,
                error = error_chain(&error),
                "cannot list the events of an object"
            );
            None
        }
    }
}

/// Picks the newest event by its last occurrence.
fn newest(events: ObjectList<Event>, reasons: &[&str]) -> Option<String> {
    let at = |event: &Event| {
        let last = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref().map(|at| at.0));
        let once = event.event_time.as_ref().map(|at| at.0);
        last.or(event.last_timestamp.as_ref().map(|at| at.0)).or(once)
    };
    let newest = events.items.into_iter().max_by_key(at)?;
    newest.message.filter(|_| newest.reason.as_deref().is_some_and(|reason| reasons.contains(&reason)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(scheduled: &str, state: &Value) -> Pod {
        serde_json::from_value(json!({ "metadata": { "name": "p" }, "status": {
            "conditions": [{ "type": "PodScheduled", "status": "True", "lastTransitionTime": scheduled }],
            "containerStatuses": [{
                "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state,
            }],
        } }))
        .unwrap()
    }

    #[test]
    fn a_pod_waits_for_volumes_while_nothing_of_it_was_started() {
        let creating = json!({ "waiting": { "reason": "ContainerCreating" } });
        assert!(waits_for_volumes(&pod("2026-01-01T00:00:00Z", &creating)));
        assert!(!waits_for_volumes(&pod("2026-01-01T00:00:00Z", &json!({ "running": {} }))));
        let no_image = json!({ "waiting": { "reason": "ImagePullBackOff" } });
        let no_image = pod("2026-01-01T00:00:00Z", &no_image);
        assert!(!waits_for_volumes(&no_image) && !need_polls(&[Arc::new(no_image)]), "its reason is known");
        assert!(
            !waits_for_volumes(&pod(&Timestamp::now().to_string(), &creating)),
            "it was scheduled just now"
        );
    }

    #[test]
    fn events_are_polled_for_pods_on_a_node_that_start() {
        let polled = |pod: Pod| need_polls(&[Arc::new(pod)]);
        let creating = json!({ "waiting": { "reason": "ContainerCreating" } });
        assert!(polled(pod(&Timestamp::now().to_string(), &creating)));
        assert!(!polled(pod("2026-01-01T00:00:00Z", &json!({ "running": {} }))));
        let pending = json!({ "metadata": { "name": "p" }, "status": { "phase": "Pending" } });
        assert!(!polled(serde_json::from_value(pending).unwrap()), "the watch tells when a node has it");
    }

    #[test]
    fn the_newest_event_counts() {
        let event = |reason: &str, at: &str, message: &str| json!({ "metadata": {}, "involvedObject": {}, "reason": reason, "lastTimestamp": at, "message": message });
        let mut events = vec![
            event("FailedMount", "2026-01-01T00:00:02Z", "new"),
            event("FailedMount", "2026-01-01T00:00:01Z", "old"),
        ];
        let said = |events: &[Value]| {
            let events = serde_json::from_value(json!({ "metadata": {}, "items": events })).unwrap();
            newest(events, &["FailedMount"])
        };
        assert_eq!(said(&events).as_deref(), Some("new"));
        events.push(event("Pulling", "2026-01-01T00:00:03Z", "the volumes are there"));
        assert_eq!(said(&events), None);
    }
}
