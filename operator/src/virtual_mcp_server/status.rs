//! Step 7 of a reconcile, status: the status of a VirtualMCPServer, from the applied objects and the reports
//! of its pods. Pure.

mod backends;
mod conditions;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use vmcp_config::status::StatusReport;
use vmcp_crds::virtual_mcp_server::{BackendState, DiscoveredBackend, Phase};
use vmcp_crds::{VirtualMCPServer, VirtualMCPServerStatus};

use super::dereference::References;
use super::exposure_order::{CurrentExposure, ExposureOrder};
use super::names::{self, CONTAINER};
use super::observe::ObservedPod;
use super::observe::trusted_tools::KeptTrust;
use super::validate::{ConfigurationRefusal, Plan};
use crate::runtime::{Applied, BuildSettings, is_true};
use crate::workload::health::{PodCounts, WorkloadHealth, WorkloadState, workload_health};
use crate::workload::pod_selector;
use crate::workload::rollout::Rollout;

/// The state of a server that its status is computed from.
pub(super) struct ObservedVirtualMCPServer<'a> {
    /// The resource, with its status so far.
    pub server: &'a VirtualMCPServer,
    /// The result of the validation.
    pub plan: &'a Plan,
    /// The exposure that was made; `None` if the resource is invalid as a whole.
    pub order: Option<&'a ExposureOrder>,
    /// Everything that the resource refers to.
    pub references: &'a References,
    /// The children that were written, and the first that could not be.
    pub applied: &'a Applied,
    /// The pods that the Deployment counts; `None` without a Deployment.
    pub counts: Option<&'a PodCounts>,
    /// The pods with their reports.
    pub pods: &'a [ObservedPod],
    /// The trusted definitions of tools that are kept; `None` if the configuration wants none.
    pub trust: Option<&'a KeptTrust>,
    /// The exposure as it was stored before this reconcile.
    pub exposure: &'a CurrentExposure,
    /// The cluster's domain, for the URL.
    pub settings: &'a BuildSettings,
}

/// A computed status, and whether it is about to change by itself.
#[derive(Debug)]
pub(super) struct ComputedStatus {
    /// The status to write.
    pub status: VirtualMCPServerStatus,
    /// True while a change is under way that no watch tells of: a pod takes up a configuration, connects, or
    /// embeds.
    pub in_flux: bool,
}

impl ObservedVirtualMCPServer<'_> {
    /// Computes the status.
    pub(super) fn status(&self) -> ComputedStatus {
        let discovered = backends::discovered(self);
        let health = self.health();
        let conditions = conditions::all(self, &health, &discovered);
        let phase = self.phase(&health, &conditions);
        let before = self.before();
        let (name, namespace) = (self.server.name_any(), self.server.namespace().unwrap_or_default());
        let in_force = self.configuration_in_force();
        let in_flux = self.ready() > 0
            && (self.is_behind()
                || discovered.iter().any(backends::is_awaited)
                || conditions.iter().any(|condition| condition.reason == conditions::EMBEDDING));
        let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        let reported = self.reports().next().is_some();
        let callable = discovered.iter().filter(|backend| is_callable(backend)).count();
        let (discovered, omitted) = backends::within_budget(discovered);
        // A list that is kept may have been cut before: its length tells neither number.
        let is_kept = backends::are_kept(self);
        let status = VirtualMCPServerStatus {
            phase: Some(phase),
            message: message(phase, &conditions),
            url: Some(names::url(&name, &namespace, self.settings)),
            observed_generation: self.server.metadata.generation,
            replicas: count(self.pods.len()),
            ready_replicas: count(self.ready()),
            selector: Some(pod_selector(names::WORKLOAD_NAME, &name)),
            backend_count: match before.backend_count {
                Some(known) if is_kept => Some(known),
                _ if reported || self.ready() == 0 => Some(count(callable)),
                known => known,
            },
            tool_count: self.reports().map(|report| count(report.tools)).max().or(before.tool_count),
            restarted_at: self.restarted_at().or(before.restarted_at),
            config_digest: in_force.or(before.config_digest),
            conditions,
            omitted_backends: if is_kept {
                before.omitted_backends
            } else {
                (omitted > 0).then(|| count(omitted))
            },
            discovered_backends: discovered,
        };
        ComputedStatus { status, in_flux }
    }

    /// Returns the status so far.
    fn before(&self) -> VirtualMCPServerStatus {
        self.server.status.clone().unwrap_or_default()
    }

    /// Returns true if the resource is suspended and its Deployment asks for no pods.
    fn is_suspended(&self) -> bool {
        self.server.spec.suspend && self.counts.is_none_or(|counts| counts.desired == 0)
    }

    /// Returns the annotation that the written pod template has; `None` while it could not be written.
    fn restarted_at(&self) -> Option<String> {
        let is_written = self.counts.is_some() && self.plan.template.is_ok() && self.applied.failed.is_none();
        self.order.filter(|_| is_written)?.server.restarted_at.clone()
    }

    /// Counts the ready pods.
    fn ready(&self) -> usize {
        self.pods.iter().filter(|pod| pod.ready).count()
    }

    /// Returns the reports that there are.
    fn reports(&self) -> impl Iterator<Item = &StatusReport> {
        self.pods.iter().filter_map(|pod| pod.report.as_deref())
    }

    /// Returns the digest of the configuration that should be in force; `None` while it is refused.
    fn wanted_digest(&self) -> Option<String> {
        let configuration = self.plan.configuration.as_ref().ok()?;
        Some(vmcp_config::status::digest(&configuration.lowered.text))
    }

    /// Returns the digest that all pods have in force, if they agree.
    fn configuration_in_force(&self) -> Option<String> {
        let mut digests = self.reports().map(|report| &report.configuration.digest);
        let first = digests.next().filter(|digest| !digest.is_empty())?;
        digests.all(|digest| digest == first).then(|| first.clone())
    }

    /// Returns true if a pod has neither taken up nor refused the newest configuration.
    fn is_behind(&self) -> bool {
        let Some(wanted) = self.wanted_digest() else { return false };
        self.reports()
            .any(|report| report.configuration.digest != wanted && report.configuration.refused.is_none())
    }

    fn health(&self) -> WorkloadHealth {
        let Some(counts) = self.counts else {
            let message = "there is no Deployment yet; the other conditions say why".to_owned();
            let rollout = Rollout::UnderWay(message.clone());
            return WorkloadHealth {
                state: WorkloadState::Failed,
                reason: "NotDeployed".to_owned(),
                message,
                rollout,
            };
        };
        let pods: Vec<_> = self.pods.iter().map(|observed| observed.pod.clone()).collect();
        workload_health(counts, &pods, CONTAINER)
    }

    /// Returns the phase. A server with a ready pod serves, whatever else is wrong.
    fn phase(&self, health: &WorkloadHealth, conditions: &[Condition]) -> Phase {
        let serves = self.ready() > 0;
        if self.is_suspended() {
            return Phase::Suspended;
        }
        match (serves, health.state) {
            (true, _) if is_true(conditions, conditions::DEGRADED) => Phase::Degraded,
            (true, _) => Phase::Ready,
            (false, WorkloadState::Failed) => Phase::Failed,
            (false, _)
                if self.plan.configuration.is_err()
                    || self.plan.template.is_err()
                    || self.applied.failed.is_some() =>
            {
                Phase::Failed
            }
            (false, _) => Phase::Pending,
        }
    }
}

/// Returns the message that `kubectl get` shows: that of the first condition, by importance, that is wrong.
fn message(phase: Phase, conditions: &[Condition]) -> Option<String> {
    let by_importance = [
        "ConfigValid",
        "PodTemplateSpecValid",
        "GroupRefValidated",
        "ReferencesGranted",
        "TelemetryConfigRefValidated",
        "Ready",
        "BackendsDiscovered",
        "EmbeddingServerReady",
        "EmbeddingsReady",
        "LanguageModelConfigured",
        "PodsReachable",
    ];
    if phase == Phase::Ready {
        return None;
    }
    let of = |kind: &str, status: &str| {
        conditions.iter().find(|condition| condition.type_ == kind && condition.status == status)
    };
    let wrong = by_importance
        .into_iter()
        .find_map(|kind| of(kind, "False"))
        .or_else(|| of(conditions::DEGRADED, "True"));
    wrong.map(|condition| condition.message.clone())
}

/// Returns true if calls of the backend go through, at least in some pods.
fn is_callable(backend: &DiscoveredBackend) -> bool {
    matches!(backend.status, BackendState::Ready | BackendState::Degraded)
}

/// Returns why the configuration is refused, if it is.
fn refusal(plan: &Plan) -> Option<&ConfigurationRefusal> {
    plan.configuration.as_ref().err()
}

#[cfg(test)]
mod tests;
