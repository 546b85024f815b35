//! What the cluster tells in events and nowhere else: why a StatefulSet's pod cannot be made, and why a pod waits for its volumes.
//!
//! Events come to nobody who does not ask, and asking costs a call; it is asked only about what does not run.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, ObjectList};
use kube::{Api, ResourceExt as _};

use super::health::Counts;
use crate::runtime::{Context, Verb, chain};

/// When to ask again, as no watch tells.
pub const AGAIN: Duration = Duration::from_secs(10);
/// How long a pod may take to start before it is asked why: most run by then.
const USUAL: Duration = Duration::from_secs(10);
/// Events that are read of one object; there is one for each kind of mishap.
const LIMIT: u32 = 50;

impl Counts {
    /// Adds what is said in events only. Best effort: without them the pods are starting, which is true.
    #[must_use]
    pub async fn with_notices(
        mut self,
        context: &Context,
        set: Option<&StatefulSet>,
        pods: &[Arc<Pod>],
    ) -> Self {
        if let Some(set) = set
            && self.existing < self.desired
        {
            self.refused = notice(context, &set.metadata, &["FailedCreate"]).await;
        }
        if let Some(pod) = pods.iter().find(|pod| waits_for_volumes(pod))
            && self.ready < self.desired
        {
            let said = notice(context, &pod.metadata, &["FailedMount", "FailedAttachVolume"]).await;
            self.unmounted = said.map(|said| (pod.name_any(), said));
        }
        self
    }
}

/// Whether a node has had the pod for a while and started nothing of it: volumes come first.
fn waits_for_volumes(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let conditions = status.conditions.iter().flatten();
    let since = conditions
        .filter(|condition| condition.type_ == "PodScheduled" && condition.status == "True")
        .find_map(|condition| condition.last_transition_time.as_ref());
    let long = since.is_some_and(|since| Timestamp::now().duration_since(since.0).unsigned_abs() >= USUAL);
    let mut containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let started = containers.any(|container| {
        let state = container.state.as_ref();
        container.last_state.as_ref().is_some_and(|last| last.terminated.is_some())
            || state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    });
    pod.metadata.deletion_timestamp.is_none() && long && !started
}

/// The newest event about an object, if it has one of these reasons: what came before it is over.
async fn notice(context: &Context, object: &ObjectMeta, reasons: &[&str]) -> Option<String> {
    let (name, namespace) = (object.name.as_deref()?, object.namespace.as_deref()?);
    let about = format!("involvedObject.uid={}", object.uid.as_deref()?);
    let api: Api<Event> = Api::namespaced(context.client.clone(), namespace);
    let params = ListParams::default().fields(&about).limit(LIMIT);
    match context.call(Verb::List, "Event", name, api.list(&params)).await {
        Ok(found) => newest(found, reasons),
        Err(error) => {
            tracing::debug!(object = name, error = %chain(&error), "its events could not be read");
            None
        }
    }
}

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
        assert!(
            !waits_for_volumes(&pod(&Timestamp::now().to_string(), &creating)),
            "it was scheduled just now"
        );
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
