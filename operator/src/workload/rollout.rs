//! Progress of a workload towards its newest pod template, and the conditions `Reconciling` and `Stalled`, by
//! which kstatus (Flux, kpt) and Argo CD's health check read it.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};

use crate::runtime::Conditions;

/// Progress towards the state that the newest spec asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rollout {
    /// The newest spec is in force.
    Complete,
    /// It is coming into force; waiting helps.
    UnderWay(String),
    /// It does not come into force until a person acts.
    Stalled {
        /// The reason of the condition.
        reason: String,
        /// The cause and the remedy.
        message: String,
    },
}

/// A workload's own account of its rollout.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RolloutCounts {
    /// The step that is awaited; `None` once every pod has the newest template.
    pub(crate) pending: Option<String>,
    /// The Deployment's message, if it made no progress within `progressDeadlineSeconds`.
    pub(crate) deadline_exceeded: Option<String>,
}

impl From<&Deployment> for RolloutCounts {
    /// Follows the rules of `kubectl rollout status`.
    fn from(deployment: &Deployment) -> Self {
        let status = deployment.status.clone().unwrap_or_default();
        let desired = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let generation = deployment.metadata.generation.unwrap_or_default();
        let [existing, updated, available] =
            [status.replicas, status.updated_replicas, status.available_replicas]
                .map(Option::unwrap_or_default);
        let pending = match () {
            () if generation > status.observed_generation.unwrap_or_default() => {
                Some("the Deployment's controller has not seen the newest pod template yet".to_owned())
            }
            () if updated < desired => {
                Some(format!("{updated} of {desired} pods have the newest pod template"))
            }
            () if existing > updated => {
                Some(format!("pods of an earlier template that are still to end: {}", existing - updated))
            }
            () if available < updated => {
                Some(format!("{available} of {updated} pods with the newest template are available"))
            }
            () => None,
        };
        let deadline_exceeded = status
            .conditions
            .into_iter()
            .flatten()
            .find(|condition| condition.reason.as_deref() == Some("ProgressDeadlineExceeded"))
            .map(|condition| condition.message.unwrap_or_default());
        Self { pending, deadline_exceeded }
    }
}

impl From<&StatefulSet> for RolloutCounts {
    fn from(set: &StatefulSet) -> Self {
        let Some(status) = set.status.as_ref() else {
            return Self { pending: Some("the pods are being created".to_owned()), deadline_exceeded: None };
        };
        let desired = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let generation = set.metadata.generation.unwrap_or_default();
        let (updated, ready) =
            (status.updated_replicas.unwrap_or_default(), status.ready_replicas.unwrap_or_default());
        let pending = match () {
            () if generation > status.observed_generation.unwrap_or_default() => {
                Some("the StatefulSet's controller has not seen the newest pod template yet".to_owned())
            }
            () if updated < desired => {
                Some(format!("{updated} of {desired} pods have the newest pod template"))
            }
            () if ready < desired => Some(format!("{ready} of {desired} pods are ready")),
            () => None,
        };
        Self { pending, deadline_exceeded: None }
    }
}

/// Sets `Reconciling` and `Stalled`. At most one is true, and none once the newest spec is in force.
pub(crate) fn set_progress(conditions: &mut Conditions, rollout: &Rollout) {
    let (reconciling, stalled) = match rollout {
        Rollout::Complete => (None, None),
        Rollout::UnderWay(message) => (Some(message), None),
        Rollout::Stalled { reason, message } => (None, Some((reason, message))),
    };
    match reconciling {
        Some(message) => conditions.set("Reconciling", true, "RolloutUnderWay", message.clone()),
        None if stalled.is_some() => {
            conditions.set("Reconciling", false, "RolloutStalled", "the condition Stalled has the cause");
        }
        None => conditions.set("Reconciling", false, "RolloutComplete", "the newest spec is in force"),
    }
    match stalled {
        Some((reason, message)) => conditions.set("Stalled", true, reason, message.clone()),
        None => conditions.set("Stalled", false, "NotStalled", "nothing waits for a person"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(status: &Value) -> RolloutCounts {
        let deployment = json!({
            "metadata": { "generation": 2 },
            "spec": { "selector": {}, "template": {}, "replicas": 2 }, "status": status,
        });
        RolloutCounts::from(&serde_json::from_value::<Deployment>(deployment).expect("a Deployment"))
    }

    #[test]
    fn a_rollout_goes_step_by_step() {
        let pending = |status| deployment(&status).pending.unwrap_or_default();
        assert!(pending(json!({ "observedGeneration": 1 })).contains("has not seen"));
        assert!(
            pending(json!({ "observedGeneration": 2, "updatedReplicas": 1 })).starts_with("1 of 2 pods have")
        );
        let counts = json!({ "observedGeneration": 2, "updatedReplicas": 2, "replicas": 3 });
        assert!(pending(counts).contains("still to end: 1"));
        let counts =
            json!({ "observedGeneration": 2, "updatedReplicas": 2, "replicas": 2, "availableReplicas": 1 });
        assert!(pending(counts).starts_with("1 of 2 pods with"));
        let counts =
            json!({ "observedGeneration": 2, "updatedReplicas": 2, "replicas": 2, "availableReplicas": 2 });
        assert_eq!(deployment(&counts), RolloutCounts::default());
    }

    #[test]
    fn a_deadline_is_passed_on() {
        let condition = json!({ "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
            "message": "ReplicaSet has timed out progressing." });
        let counts = deployment(&json!({ "observedGeneration": 2, "conditions": [condition] }));
        assert!(counts.deadline_exceeded.is_some_and(|message| message.contains("timed out")));
    }
}
