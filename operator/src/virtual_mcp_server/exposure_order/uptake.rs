//! [`Uptake`]: progress of the pods toward the wanted configuration, as their reports tell it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use parking_lot::Mutex;

use crate::virtual_mcp_server::last_good::MountedConfiguration;
use crate::virtual_mcp_server::observe::ObservedPod;
use crate::virtual_mcp_server::validate::Plan;

/// Progress of the pods toward the wanted configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::virtual_mcp_server) enum Uptake {
    /// The configuration is in force in every pod that may answer clients.
    InForce,
    /// The ConfigMap lacks the configuration; this reconcile writes it, or keeps it back.
    Unmounted,
    /// This pod has not reported the configuration yet.
    Pending(String),
    /// The operator or a pod refuses the configuration, for this reason.
    Refused(String),
}

/// Returns the state of the wanted configuration. `written` is the time of this process's last write of the
/// ConfigMap: a report from before tells of an older state.
pub(in crate::virtual_mcp_server) fn uptake(
    plan: &Plan,
    mounted: Option<&MountedConfiguration>,
    pods: &[ObservedPod],
    written: Option<Instant>,
) -> Uptake {
    let text = match &plan.configuration {
        Ok(configuration) => &configuration.lowered.text,
        Err(refusal) => return Uptake::Refused(refusal.message.clone()),
    };
    if mounted.is_none_or(|mounted| mounted.text != *text) {
        return Uptake::Unmounted;
    }
    let digest = vmcp_config::status::digest(text);
    let mut pending = None;
    // A pod that is being deleted and not ready gets no connections; on a dead node it stays for long.
    let is_leaving =
        |observed: &&ObservedPod| !observed.ready && observed.pod.metadata.deletion_timestamp.is_some();
    for observed in pods.iter().filter(|observed| may_answer(&observed.pod) && !is_leaving(observed)) {
        let name = observed.pod.name_any();
        let is_new = observed.reported_at >= written;
        let Some(report) = observed.report.as_ref().filter(|_| is_new) else {
            pending.get_or_insert(format!("pod {name} has not reported it yet"));
            continue;
        };
        let configuration = &report.configuration;
        if let Some(refused) = configuration.refused.as_ref().filter(|refused| refused.digest == digest) {
            return Uptake::Refused(format!("pod {name} refuses it: {}", refused.message));
        }
        if configuration.digest != digest || !configuration.needs_restart.is_empty() {
            pending.get_or_insert(format!("pod {name} has an older one"));
        }
    }
    pending.map_or(Uptake::InForce, Uptake::Pending)
}

/// Returns true if a process may run in the pod that has read an older file. A pod that waits for a node has
/// not read any. The status tells: stored pods have no spec.
fn may_answer(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let mut conditions = status.conditions.iter().flatten();
    let is_scheduled =
        conditions.any(|condition| condition.type_ == "PodScheduled" && condition.status == "True");
    match status.phase.as_deref() {
        Some("Succeeded" | "Failed") => false,
        Some("Running") => true,
        _ => is_scheduled || status.pod_ip.is_some(),
    }
}

/// Time for which a write is remembered: longer than a report may be old.
const WRITE_MEMORY: Duration = Duration::from_mins(10);

/// The times at which this process wrote the ConfigMaps of servers, by the uid of the server.
#[derive(Debug, Default)]
pub(in crate::virtual_mcp_server) struct ConfigurationWrites(Mutex<HashMap<String, Instant>>);

impl ConfigurationWrites {
    /// Notes a write of now.
    pub(in crate::virtual_mcp_server) fn note(&self, uid: &str) {
        let (mut writes, now) = (self.0.lock(), Instant::now());
        writes.retain(|_, at| now.duration_since(*at) < WRITE_MEMORY);
        writes.insert(uid.to_owned(), now);
    }

    /// Returns the time of the last write.
    pub(in crate::virtual_mcp_server) fn last(&self, uid: &str) -> Option<Instant> {
        self.0.lock().get(uid).copied()
    }
}
