//! [`ServerResource`]: a VirtualMCPServer, as far as commands read it.

use serde::{Deserialize, Serialize};

/// A VirtualMCPServer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct ServerResource {
    pub(in crate::cli) metadata: Metadata,
    pub(in crate::cli) spec: Spec,
    pub(in crate::cli) status: Status,
}

/// Metadata of an object.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct Metadata {
    pub(in crate::cli) name: String,
    pub(in crate::cli) namespace: String,
    /// Number of the spec, which each change of it raises.
    pub(in crate::cli) generation: i64,
}

/// Wanted state.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct Spec {
    /// True if no pods are to run.
    pub(in crate::cli) suspend: bool,
    /// The web console.
    pub(in crate::cli) console: ConsoleSpec,
}

/// Wanted state of the web console.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct ConsoleSpec {
    /// People to whom it is served; empty: the default.
    pub(in crate::cli) access: String,
}

/// Observed state.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::cli) struct Status {
    pub(in crate::cli) phase: Option<String>,
    pub(in crate::cli) message: Option<String>,
    /// URL inside of the cluster.
    pub(in crate::cli) url: Option<String>,
    /// Generation that this status is about.
    pub(in crate::cli) observed_generation: i64,
    /// Pods that exist.
    pub(in crate::cli) replicas: u32,
    pub(in crate::cli) ready_replicas: u32,
    pub(in crate::cli) backend_count: u32,
    pub(in crate::cli) tool_count: u32,
    /// Restart that the pods have.
    pub(in crate::cli) restarted_at: Option<String>,
    pub(in crate::cli) conditions: Vec<Condition>,
}

/// A condition of the status.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct Condition {
    #[serde(rename = "type")]
    pub(in crate::cli) kind: String,
    pub(in crate::cli) status: String,
    pub(in crate::cli) reason: String,
    pub(in crate::cli) message: String,
}

impl ServerResource {
    /// Returns a condition.
    pub(in crate::cli) fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.kind == kind)
    }

    fn is(&self, kind: &str, status: &str) -> bool {
        self.condition(kind).is_some_and(|condition| condition.status == status)
    }

    /// True if the status is about this generation of the spec or a later one.
    fn has_seen(&self, generation: i64) -> bool {
        self.status.observed_generation >= generation
    }

    /// True if at least one pod serves.
    pub(in crate::cli) fn is_ready(&self) -> bool {
        self.is("Ready", "True")
    }

    /// True if a pod serves, and the status is about this generation of the spec.
    pub(in crate::cli) fn is_ready_at(&self, generation: i64) -> bool {
        self.has_seen(generation) && self.is_ready()
    }

    /// True once this restart has replaced every pod.
    pub(in crate::cli) fn is_restarted(&self, restart: &str, generation: i64) -> bool {
        self.status.restarted_at.as_deref() == Some(restart)
            && self.is_ready_at(generation)
            && self.is("Reconciling", "False")
            && self.is("Stalled", "False")
    }

    /// True once no pod runs, by this generation of the spec.
    pub(in crate::cli) fn is_suspended_at(&self, generation: i64) -> bool {
        let reason = self.condition("Ready").map(|ready| ready.reason.as_str());
        self.has_seen(generation) && self.status.replicas == 0 && reason == Some("Suspended")
    }

    /// Returns why this generation of the spec serves only once a person acts; `None` otherwise.
    pub(in crate::cli) fn stalled(&self, generation: i64) -> Option<&str> {
        let stalled = self.condition("Stalled").filter(|stalled| stalled.status == "True");
        let empty = || self.condition("Ready").filter(|ready| ready.reason == "ScaledToZero");
        let reason = stalled.or_else(empty)?;
        self.has_seen(generation).then_some(reason.message.as_str())
    }

    /// Returns the state in one sentence, for a person who waits for this generation of the spec.
    pub(in crate::cli) fn progress(&self, generation: i64) -> String {
        if !self.has_seen(generation) {
            return "the operator has not seen the change yet; does it run?".to_owned();
        }
        let under_way = self.condition("Reconciling").filter(|reconciling| reconciling.status == "True");
        let told = under_way.or_else(|| self.condition("Ready"));
        told.map_or_else(|| "no status yet".to_owned(), |condition| condition.message.clone())
    }

    /// True if the resource has its web console switched off.
    pub(in crate::cli) fn has_console_off(&self) -> bool {
        self.spec.console.access == "off"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn resource(generation: i64, status: &Value) -> ServerResource {
        let metadata = json!({ "name": "x", "namespace": "n", "generation": generation, "uid": "u" });
        let spec = json!({ "replicas": 2, "suspend": false });
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec, "status": status })).unwrap()
    }

    fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({ "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "t" })
    }

    #[test]
    fn a_status_of_an_earlier_spec_proves_nothing() {
        let ready =
            json!({ "observedGeneration": 1, "conditions": [condition("Ready", "True", "PodsReady", "")] });
        let server = resource(2, &ready);
        assert!(server.is_ready() && server.is_ready_at(1) && !server.is_ready_at(2));
        assert!(server.progress(2).contains("does it run?"));
        assert!(!resource(1, &json!({})).is_ready());
    }

    #[test]
    fn a_restart_is_over_once_its_pods_have_replaced_the_others() {
        let with_stall = |restart: &str, reconciling: &str, stalled: &str| {
            resource(
                1,
                &json!({ "observedGeneration": 1, "restartedAt": restart, "conditions": [
                    condition("Ready", "True", "PodsReady", "2 of 2"),
                    condition("Reconciling", reconciling, "r", "1 of 2 pods have the newest pod template"),
                    condition("Stalled", stalled, "s", ""),
                ] }),
            )
        };
        let of = |restart: &str, reconciling: &str| with_stall(restart, reconciling, "False");
        assert!(!with_stall("now", "False", "True").is_restarted("now", 1), "the old pods serve");
        assert!(!of("before", "False").is_restarted("now", 1));
        assert!(!of("now", "True").is_restarted("now", 1));
        assert_eq!(of("now", "True").progress(1), "1 of 2 pods have the newest pod template");
        assert!(of("now", "False").is_restarted("now", 1));
    }

    #[test]
    fn a_suspension_is_over_once_the_last_pod_is_gone() {
        let of = |replicas: u32| {
            let ready = condition("Ready", "False", "Suspended", "no pods run");
            resource(1, &json!({ "observedGeneration": 1, "replicas": replicas, "conditions": [ready] }))
        };
        assert!(!of(1).is_suspended_at(1) && of(0).is_suspended_at(1) && !of(0).is_suspended_at(2));
        let scaled = condition("Ready", "False", "ScaledToZero", "spec.replicas is 0");
        assert!(!resource(1, &json!({ "observedGeneration": 1, "conditions": [scaled] })).is_suspended_at(1));
    }

    #[test]
    fn only_a_stall_of_the_newest_spec_ends_the_wait() {
        let stalled = condition("Stalled", "True", "ImagePullError", "the image cannot be pulled");
        let server = resource(2, &json!({ "observedGeneration": 1, "conditions": [stalled] }));
        assert_eq!((server.stalled(1), server.stalled(2)), (Some("the image cannot be pulled"), None));
        let empty = condition("Ready", "False", "ScaledToZero", "spec.replicas is 0");
        let server = resource(1, &json!({ "observedGeneration": 1, "conditions": [empty] }));
        assert_eq!(server.stalled(1), Some("spec.replicas is 0"));
    }
}
