//! Progress and end of a script's pod, read from its status. Pure.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, Pod, PodStatus};
use vmcp_script::jobs::JobSettings;
use vmcp_script::protocol::Failure;

/// Reasons of a waiting container that no further wait mends soon.
const FINAL_REASONS: [&str; 4] =
    ["CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "InvalidImageName"];
/// Reason of a waiting container whose image is pulled again after a pause. One failed pull is enough for it.
const BACK_OFF: &str = "ImagePullBackOff";
/// Longest message of the cluster in an error, in characters; a longer one is cut.
const MAX_MESSAGE: usize = 500;
/// Exit code of a process that SIGKILL ended: 128 and the signal's number.
const KILLED: i32 = 137;

/// The state of a pod that is to take a script.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PodState {
    /// It is not there yet; the cause, where the cluster names one.
    Starts(Option<String>),
    /// A pull of its image failed, and the kubelet pauses before the next one; the cause.
    BacksOff(String),
    /// Its container runs, at this address.
    Runs(IpAddr),
    /// It will take no script.
    Failed(Failure),
}

/// Returns the state of a pod.
pub(crate) fn state(pod: &Pod, settings: &JobSettings) -> PodState {
    let Some(status) = &pod.status else { return PodState::Starts(None) };
    if let Some(failure) = end(pod, settings) {
        return PodState::Failed(failure);
    }
    let container = container_state(status);
    if container.is_some_and(|state| state.running.is_some())
        && let Some(address) = status.pod_ip.as_ref().and_then(|address| address.parse().ok())
    {
        return PodState::Runs(address);
    }
    let waiting = container.and_then(|state| state.waiting.as_ref());
    let reason = waiting.and_then(|waiting| waiting.reason.as_deref()).unwrap_or_default();
    let message = waiting.and_then(|waiting| waiting.message.as_deref()).unwrap_or_default();
    if FINAL_REASONS.contains(&reason) {
        return PodState::Failed(not_started(&format!("{reason}: {message}"), settings));
    }
    if reason == BACK_OFF {
        return PodState::BacksOff(format!("{reason}: {message}"));
    }
    if !message.is_empty() {
        return PodState::Starts(Some(format!("{reason}: {message}")));
    }
    let conditions = status.conditions.iter().flatten();
    let unscheduled = conditions
        .filter(|it| it.type_ == "PodScheduled" && it.status == "False")
        .find_map(|condition| condition.message.clone());
    PodState::Starts(unscheduled.map(|message| format!("the pod has no node: {message}")))
}

/// Returns the failure of a script whose pod has ended; `None` if the status does not say so yet.
pub(crate) fn end(pod: &Pod, settings: &JobSettings) -> Option<Failure> {
    let status = pod.status.as_ref()?;
    let terminated = container_state(status).and_then(|state| state.terminated.as_ref());
    match status.reason.as_deref() {
        Some("DeadlineExceeded") => {
            let error =
                "the pod of the script reached its deadline (`activeDeadlineSeconds`); run a shorter script";
            return Some(Failure::new("TimeoutError", error));
        }
        Some("Evicted") => {
            let message = status.message.as_deref().unwrap_or("its node needs the resources");
            let error = format!("the cluster ended the pod of the script: {}", cut(message));
            return Some(Failure::new("EvictedError", error));
        }
        _ => {}
    }
    match terminated {
        Some(terminated) => Some(ended(terminated, settings)),
        None if status.phase.as_deref() == Some("Failed") => Some(worker_error("it failed")),
        None => None,
    }
}

fn ended(terminated: &ContainerStateTerminated, settings: &JobSettings) -> Failure {
    if terminated.reason.as_deref() == Some("OOMKilled") {
        let memory = settings.memory;
        let error = format!("the script needed more than {memory} bytes of memory, the interpreter included");
        return Failure { limit: Some(memory), ..Failure::new("MemoryError", error) };
    }
    let code = terminated.exit_code;
    let how = if code == KILLED {
        "it was killed (exit code 137)".to_owned()
    } else {
        format!("its interpreter ended with exit code {code}")
    };
    let message = terminated.message.as_deref().map(cut).unwrap_or_default();
    worker_error(&if message.is_empty() { how } else { format!("{how}, saying: {message}") })
}

/// Returns the failure of a pod that ended without a result.
pub(crate) fn worker_error(how: &str) -> Failure {
    Failure::new("WorkerError", format!("the pod of the script is gone: {how}; run the script again"))
}

/// Returns the failure of a script whose pod no longer exists.
pub(crate) fn removed() -> Failure {
    worker_error("its Job or its node was removed")
}

/// Returns the failure of a Job whose pod does not start, with the cause and its remedy.
pub(crate) fn not_started(cause: &str, settings: &JobSettings) -> Failure {
    let has = |signs: &[&str]| signs.iter().any(|sign| cause.contains(sign));
    let remedy = if has(&["exceeded quota", "must specify"]) {
        "raise the ResourceQuota of the namespace, or lower `code.memoryMebibytes` and `code.job`".to_owned()
    } else if has(&["ErrImage", "ImagePull", "InvalidImageName"]) {
        format!("correct `code.job.image` ({}) or `code.job.imagePullSecrets`", settings.image)
    } else if has(&["RuntimeClass", "runtime class", "RuntimeHandler"]) {
        "correct `code.job.runtimeClassName`, or install the RuntimeClass".to_owned()
    } else if has(&["has no node"]) {
        "add nodes, or lower `code.memoryMebibytes` and `code.job.cpuMillicores`".to_owned()
    } else {
        "`kubectl describe` of its Job and pod says more; `code.job.startTimeout` limits the wait".to_owned()
    };
    let error =
        format!("the Job of the script does not start: {}; the administrator can {remedy}", cut(cause));
    Failure::new("StartError", error)
}

fn container_state(status: &PodStatus) -> Option<&ContainerState> {
    status.container_statuses.iter().flatten().find_map(|container| container.state.as_ref())
}

/// Returns a message of the cluster in one line, cut at [`MAX_MESSAGE`].
fn cut(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_MESSAGE).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(status: &Value) -> PodState {
        let pod: Pod = serde_json::from_value(json!({ "metadata": {}, "status": status })).unwrap();
        state(&pod, &crate::job::tests::settings())
    }

    fn failure(status: &Value) -> (String, String) {
        match of(status) {
            PodState::Failed(failure) => (failure.error_type, failure.error),
            other => panic!("{other:?}"),
        }
    }

    fn with_state(state: &Value) -> Value {
        json!({ "podIP": "10.0.0.7", "containerStatuses": [{
            "name": "script", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state,
        }]})
    }

    #[test]
    fn a_pod_runs_when_its_container_does() {
        assert_eq!(of(&json!({})), PodState::Starts(None));
        let running = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
        assert_eq!(of(&with_state(&running)), PodState::Runs("10.0.0.7".parse().unwrap()));
        let pulling = with_state(&json!({ "waiting": { "reason": "ContainerCreating" } }));
        assert_eq!(of(&pulling), PodState::Starts(None));
        let once =
            with_state(&json!({ "waiting": { "reason": "ErrImagePull", "message": "reset by peer" } }));
        assert_eq!(
            of(&once),
            PodState::Starts(Some("ErrImagePull: reset by peer".to_owned())),
            "it is retried"
        );
        let again =
            with_state(&json!({ "waiting": { "reason": "ImagePullBackOff", "message": "reset by peer" } }));
        assert_eq!(of(&again), PodState::BacksOff("ImagePullBackOff: reset by peer".to_owned()));
        let condition = json!({ "type": "PodScheduled", "status": "False", "message": "0/3 nodes" });
        let unscheduled = of(&json!({ "conditions": [condition] }));
        assert_eq!(unscheduled, PodState::Starts(Some("the pod has no node: 0/3 nodes".to_owned())));
    }

    #[test]
    fn a_pod_that_cannot_start_says_the_remedy() {
        let waiting = json!({ "waiting": { "reason": "InvalidImageName", "message": "not found" } });
        let (kind, error) = failure(&with_state(&waiting));
        assert_eq!(kind, "StartError");
        assert!(error.contains("not found") && error.contains("correct `code.job.image`"), "{error}");
        let quota = not_started("exceeded quota: small", &crate::job::tests::settings()).error;
        assert!(quota.contains("raise the ResourceQuota"), "{quota}");
        let long = not_started(&"x".repeat(10_000), &crate::job::tests::settings()).error;
        assert!(long.len() < 1_000, "{}", long.len());
    }

    #[test]
    fn the_end_of_a_pod_names_the_limit() {
        let dead = |reason: &str, code: i32| {
            with_state(&json!({ "terminated": { "reason": reason, "exitCode": code } }))
        };
        assert_eq!(failure(&dead("OOMKilled", 137)).0, "MemoryError");
        let (kind, error) = failure(&dead("Error", 139));
        assert_eq!(kind, "WorkerError");
        assert!(error.contains("exit code 139"), "{error}");
        assert_eq!(failure(&json!({ "reason": "DeadlineExceeded", "phase": "Failed" })).0, "TimeoutError");
        let (kind, error) = failure(&json!({ "reason": "Evicted", "message": "ephemeral storage" }));
        assert_eq!(kind, "EvictedError");
        assert!(error.contains("ephemeral storage"), "{error}");
    }
}
