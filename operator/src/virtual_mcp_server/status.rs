//! Step 5: how the server is, from what was applied and from what its pods say. Pure.

mod backends;
mod conditions;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use vmcp_config::status::StatusReport;
use vmcp_crds::virtual_mcp_server::{BackendState, DiscoveredBackend, Phase};
use vmcp_crds::{VirtualMCPServer, VirtualMCPServerStatus};

use super::build::CONTAINER;
use super::dereference::References;
use super::names;
use super::observe::Observed;
use super::validate::{Plan, Refusal};
use crate::runtime::{Applied, Settings, is_true};
use crate::workload::health::{self, Counts, Health, State};

/// Everything that a status is computed from.
pub(super) struct Seen<'a> {
    /// The resource, with its status as it was.
    pub server: &'a VirtualMCPServer,
    /// What was found to make sense.
    pub plan: &'a Plan,
    /// What it refers to.
    pub references: &'a References,
    /// What was written and what could not be.
    pub applied: &'a Applied,
    /// What the Deployment says; `None` without one.
    pub counts: Option<&'a Counts>,
    /// The pods.
    pub pods: &'a [Observed],
    /// For addresses.
    pub settings: &'a Settings,
}

/// A status, and whether it is about to change by itself.
#[derive(Debug)]
pub(super) struct Outcome {
    pub status: VirtualMCPServerStatus,
    /// Something is under way that no watch tells of: look again soon.
    pub in_flux: bool,
}

impl Seen<'_> {
    pub(super) fn status(&self) -> Outcome {
        let discovered = backends::discovered(self);
        let health = self.health();
        let conditions = conditions::all(self, &health, &discovered);
        let phase = self.phase(&health, &conditions);
        let before = self.before();
        let (name, namespace) = (self.server.name_any(), self.server.namespace().unwrap_or_default());
        let in_force = self.configuration_in_force();
        let in_flux = self.ready() > 0
            && (self.pods.iter().any(|pod| pod.failure.is_some())
                || self.is_behind()
                || discovered.iter().any(|backend| backend.status == BackendState::Unknown)
                || conditions.iter().any(|condition| condition.reason == conditions::EMBEDDING));
        let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        let heard = self.reports().next().is_some();
        let status = VirtualMCPServerStatus {
            phase: Some(phase),
            message: message(phase, &conditions),
            url: Some(names::url(&name, &namespace, self.settings)),
            observed_generation: self.server.metadata.generation,
            replicas: count(self.pods.len()),
            ready_replicas: count(self.ready()),
            selector: Some(selector(&name)),
            backend_count: if heard || self.ready() == 0 {
                Some(count(discovered.iter().filter(|backend| is_callable(backend)).count()))
            } else {
                before.backend_count
            },
            tool_count: self.reports().map(|report| count(report.tools)).max().or(before.tool_count),
            config_digest: in_force.or(before.config_digest),
            conditions,
            discovered_backends: discovered,
        };
        Outcome { status, in_flux }
    }

    fn before(&self) -> VirtualMCPServerStatus {
        self.server.status.clone().unwrap_or_default()
    }

    fn ready(&self) -> usize {
        self.pods.iter().filter(|pod| pod.ready).count()
    }

    fn reports(&self) -> impl Iterator<Item = &StatusReport> {
        self.pods.iter().filter_map(|pod| pod.report.as_deref())
    }

    /// The digest of what should be in force, when that is known.
    fn wanted_digest(&self) -> Option<String> {
        let configuration = self.plan.configuration.as_ref().ok()?;
        Some(vmcp_config::status::digest(&configuration.lowered.text))
    }

    /// The digest that all pods have in force, if they agree.
    fn configuration_in_force(&self) -> Option<String> {
        let mut digests = self.reports().map(|report| &report.configuration.digest);
        let first = digests.next().filter(|digest| !digest.is_empty())?;
        digests.all(|digest| digest == first).then(|| first.clone())
    }

    /// Whether a pod has not (yet) what is mounted, and has not refused it either.
    fn is_behind(&self) -> bool {
        let Some(wanted) = self.wanted_digest() else { return false };
        self.reports()
            .any(|report| report.configuration.digest != wanted && report.configuration.refused.is_none())
    }

    fn health(&self) -> Health {
        let Some(counts) = self.counts else {
            let message = "no Deployment could be made yet".to_owned();
            return Health { state: State::Failed, reason: "NotDeployed".to_owned(), message };
        };
        let pods: Vec<_> = self.pods.iter().map(|observed| observed.pod.clone()).collect();
        health::of(counts, &pods, CONTAINER)
    }

    fn phase(&self, health: &Health, conditions: &[Condition]) -> Phase {
        let serves = self.ready() > 0;
        match (serves, health.state) {
            (true, _) if is_true(conditions, conditions::DEGRADED) => Phase::Degraded,
            (true, _) => Phase::Ready,
            (false, State::Failed) => Phase::Failed,
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

/// What `kubectl get` shows: the first thing that is wrong.
fn message(phase: Phase, conditions: &[Condition]) -> Option<String> {
    let worst = [
        "ConfigValid",
        "PodTemplateSpecValid",
        "GroupRefValidated",
        "TelemetryConfigRefValidated",
        "Ready",
        "BackendsDiscovered",
        "EmbeddingServerReady",
        "EmbeddingsReady",
    ];
    if phase == Phase::Ready {
        return None;
    }
    let of = |kind: &str, status: &str| {
        conditions.iter().find(|condition| condition.type_ == kind && condition.status == status)
    };
    let found =
        worst.into_iter().find_map(|kind| of(kind, "False")).or_else(|| of(conditions::DEGRADED, "True"));
    found.map(|condition| condition.message.clone())
}

fn selector(name: &str) -> String {
    names::selector(name).iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

fn is_callable(backend: &DiscoveredBackend) -> bool {
    matches!(backend.status, BackendState::Ready | BackendState::Degraded)
}

/// What is refused, if it is.
fn refusal(plan: &Plan) -> Option<&Refusal> {
    plan.configuration.as_ref().err()
}

#[cfg(test)]
mod tests;
