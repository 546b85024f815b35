//! The bridge's own report on why the program behind it does not answer.
//!
//! The container runs the bridge, which is well whatever its program does, so that Kubernetes has nothing to
//! tell. The bridge has: its `/admin/status` names the program's last error.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use vmcp_config::sanitize;
use vmcp_config::status::StatusReport;
use vmcp_crds::MCPServer;

use super::build::CONTAINER;
use crate::workload::admin_poller::{AdminPoller, PollPlan};
use crate::workload::health::{WorkloadHealth, WorkloadState};
use crate::workload::rollout::Rollout;

/// The interval at which a bridge is asked again: no watch tells when its program recovers.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Replaces `health` by the last report of the newest pod's bridge; the other pods run the same program.
pub(super) fn explain(
    poller: &AdminPoller,
    server: &MCPServer,
    token: &[u8],
    pods: &[Arc<Pod>],
    health: WorkloadHealth,
) -> WorkloadHealth {
    let owner = (server.namespace().unwrap_or_default(), server.name_any());
    let Some(pod) = pods.iter().max_by_key(|pod| pod.creation_timestamp().map(|at| at.0)) else {
        return health;
    };
    let last = poller.observe(&owner, std::slice::from_ref(pod), token, PollPlan::every(POLL_INTERVAL)).pop();
    match last.and_then(|last| last.report) {
        Some(report) => health_of(&report, pod, health),
        None => health,
    }
}

/// Asks the pods of a server no longer: Kubernetes itself tells how they are.
pub(super) fn stop(poller: &AdminPoller, server: &MCPServer) {
    let owner = (server.namespace().unwrap_or_default(), server.name_any());
    poller.observe(&owner, &[], &[], PollPlan::every(POLL_INTERVAL));
}

/// Turns a report into a failure with its remedy; without an error, into a message that says to wait.
fn health_of(report: &StatusReport, pod: &Pod, health: WorkloadHealth) -> WorkloadHealth {
    let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
    let Some(error) = report.backends.first().and_then(|program| program.last_error.as_deref()) else {
        let message = format!(
            "the program in pod {name} was started and has not answered yet; npx and uvx fetch their packages first"
        );
        return WorkloadHealth { message, ..health };
    };
    let remedy = remedy(error).map(|remedy| format!("{remedy}; ")).unwrap_or_default();
    let message = format!(
        "the program in pod {name} does not answer: {}; {remedy}see `kubectl logs -n {namespace} {name} -c {CONTAINER}`",
        sanitize::text(error)
    );
    let reason = "ProgramFailing".to_owned();
    let rollout = Rollout::Stalled { reason: reason.clone(), message: message.clone() };
    WorkloadHealth { state: WorkloadState::Failed, reason, message, rollout }
}

/// Returns the remedy for an error of the bridge whose text lacks the cause.
fn remedy(error: &str) -> Option<&'static str> {
    const REMEDIES: [(&[&str], &str); 5] = [
        (
            &["cannot start", "(os error 2)"],
            "the image has no such program, or lacks its interpreter: correct spec.command or choose another image",
        ),
        (
            &["cannot start", "(os error 13)"],
            "the container's user may not execute it: set `runAsUser` in spec.podTemplateSpec",
        ),
        (
            &["cannot start", "(os error 8)"],
            "it is built for another CPU architecture, or is a script without a `#!` line",
        ),
        (
            &["exited with exit status: 0"],
            "a server on stdio runs until its input ends: does it need an argument such as `stdio`, or does it speak HTTP \
             (`transport: streamable-http`)?",
        ),
        (
            &["connection timeout"],
            "it runs and writes no MCP to its standard output: does it need an argument such as `stdio`, or does it listen on \
             a port (`transport: streamable-http` and `mcpPort`)?",
        ),
    ];
    let fits = |signs: &[&str]| signs.iter().all(|sign| error.contains(sign));
    REMEDIES.iter().find(|(signs, _)| fits(signs)).map(|(_, remedy)| *remedy)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_error_is_told_and_silence_is_none() {
        let health = WorkloadHealth {
            state: WorkloadState::NotAnswering,
            reason: "NotAnswering".to_owned(),
            message: String::new(),
            rollout: Rollout::Complete,
        };
        let pod = serde_json::from_value(json!({ "metadata": { "name": "p", "namespace": "n" } })).unwrap();
        let report = |error: Option<&str>| {
            serde_json::from_value(json!({ "backends": [{ "lastError": error }] })).unwrap()
        };
        let waiting = health_of(&report(None), &pod, health.clone());
        assert_eq!((waiting.state, waiting.reason.as_str()), (WorkloadState::NotAnswering, "NotAnswering"));
        assert!(waiting.message.contains("has not answered yet"), "{}", waiting.message);
        let failing = health_of(&report(Some("exit status 1: no API key")), &pod, health);
        assert_eq!(failing.state, WorkloadState::Failed);
        assert!(
            failing.message.contains("no API key; see `kubectl logs -n n p -c mcp`"),
            "{}",
            failing.message
        );
    }

    #[test]
    fn what_a_person_would_not_know_is_said() {
        for (error, said) in [
            (
                "cannot connect: cannot start `uvx`: No such file or directory (os error 2)",
                "the image has no such program",
            ),
            ("cannot connect: cannot start `./s`: Permission denied (os error 13)", "`runAsUser`"),
            (
                "cannot connect: cannot start `./s`: Exec format error (os error 8)",
                "another CPU architecture",
            ),
            (
                "the connection ended before the answer: exited with exit status: 0",
                "an argument such as `stdio`",
            ),
            ("connection timeout after 120s", "`mcpPort`"),
        ] {
            assert!(remedy(error).is_some_and(|remedy| remedy.contains(said)), "{error}");
        }
        assert_eq!(
            remedy("exited with exit status: 1: cannot open db: No such file or directory (os error 2)"),
            None
        );
    }
}
