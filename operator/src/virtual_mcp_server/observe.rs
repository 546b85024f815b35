//! Step 5 of a reconcile, observe: the last status report of every ready pod.
//!
//! Nothing is waited for: the [`AdminPoller`] asks pods in a task of its own and makes the controller
//! reconcile when there is news.

pub(super) mod running_workload;
pub(super) mod trust_memory;
pub(super) mod trusted_tools;

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use vmcp_config::rules::trusted_tools::TrustedTools;
use vmcp_config::status::StatusReport;
use vmcp_crds::VirtualMCPServer;

use crate::workload::admin_poller::{AdminPoller, PollFailure, PollPlan, PolledPod};

/// The interval at which pods are asked for their status reports: no watch tells.
const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// The interval while a change is under way.
const POLL_INTERVAL_IN_FLUX: Duration = Duration::from_millis(1500);

/// A pod with its report.
#[derive(Debug, Clone)]
pub(super) struct ObservedPod {
    /// The pod.
    pub pod: Arc<Pod>,
    /// True if the pod takes requests.
    pub ready: bool,
    /// The last report of a ready pod, unless it is too old.
    pub report: Option<Arc<StatusReport>>,
    /// The time at which that report came.
    pub reported_at: Option<Instant>,
    /// The failure, if the pod did not answer several times in a row; an older report may stand in.
    pub failure: Option<PollFailure>,
    /// The pod's trusted definitions of tools, where they differ from the kept ones.
    pub trusted: Option<Arc<TrustedTools>>,
    /// The reason for which those definitions could not be read several times in a row.
    pub trust_unread: Option<String>,
}

/// The credentials of polls, and the digest of the trusted definitions that are kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Polls<'a> {
    /// The bearer token of the admin port.
    pub token: &'a [u8],
    /// As [`PollPlan::kept_trust`].
    pub kept_trust: Option<&'a str>,
}

/// Returns all pods with their last reports, in the same order.
pub(super) fn observe(
    poller: &AdminPoller,
    server: &VirtualMCPServer,
    pods: Vec<Arc<Pod>>,
    polls: Polls<'_>,
) -> Vec<ObservedPod> {
    let mut reports = poll(poller, server, &pods, polls, POLL_INTERVAL).into_iter();
    pods.into_iter()
        .map(|pod| {
            let ready = is_ready(&pod);
            let PolledPod { report, reported_at, failure, trusted, trust_unread } =
                if ready { reports.next().unwrap_or_default() } else { PolledPod::default() };
            ObservedPod { pod, ready, report, reported_at, failure, trusted, trust_unread }
        })
        .collect()
}

/// Shortens the interval until the next reconcile: a change is under way that pods tell of.
pub(super) fn hasten(
    poller: &AdminPoller,
    server: &VirtualMCPServer,
    observed: &[ObservedPod],
    polls: Polls<'_>,
) {
    let pods: Vec<_> = observed.iter().map(|observed| observed.pod.clone()).collect();
    poll(poller, server, &pods, polls, POLL_INTERVAL_IN_FLUX);
}

fn poll(
    poller: &AdminPoller,
    server: &VirtualMCPServer,
    pods: &[Arc<Pod>],
    polls: Polls<'_>,
    interval: Duration,
) -> Vec<PolledPod> {
    let owner = (server.namespace().unwrap_or_default(), server.name_any());
    let ready: Vec<_> = pods.iter().filter(|pod| is_ready(pod)).cloned().collect();
    let Polls { token, kept_trust } = polls;
    poller.observe(&owner, &ready, token, PollPlan { interval, kept_trust })
}

/// Returns true if the pod takes requests: ready, and not being deleted.
fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.is_some_and(|conditions| {
            conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        })
}
