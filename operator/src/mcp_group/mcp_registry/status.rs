//! Step 6 of a reconcile, status: the status of an MCPRegistry, from the applied objects and the states of
//! its pods. Pure.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use vmcp_crds::mcp_group::MCPRegistryPhase;
use vmcp_crds::{MCPRegistry, MCPRegistryStatus};

use super::build::{CONTAINER, PORT};
use super::child_name;
use crate::runtime::Conditions;
use crate::workload::health::{PODS_READY, PodCounts, WorkloadHealth, WorkloadState, resource_health};
use crate::workload::rollout::set_progress;
use crate::workload::spec_refusal::{SpecRefusal, set_validity};

/// Computes the status. `awaited_secrets` names missing values that the pod brings.
pub(super) fn compute(
    registry: &MCPRegistry,
    awaited_secrets: Option<&str>,
    refusal: Option<&SpecRefusal>,
    counts: Option<&PodCounts>,
    pods: &[Arc<Pod>],
    cluster_domain: &str,
) -> MCPRegistryStatus {
    let generation = registry.metadata.generation.unwrap_or_default();
    let before = registry.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let mut conditions = Conditions::new(before, generation);
    let WorkloadHealth { state, reason, message, rollout } =
        resource_health(refusal, counts, pods, CONTAINER);
    let ready = counts.map_or(0, |counts| counts.ready);
    conditions.set("Ready", ready > 0 && state != WorkloadState::Stopped, &reason, message.clone());
    set_validity(&mut conditions, registry.spec.pgpass_secret_ref.is_some(), awaited_secrets, refusal);
    set_progress(&mut conditions, &rollout);
    let (name, namespace) = (&registry.metadata.name, registry.metadata.namespace.as_deref());
    let host = child_name(name.as_deref().unwrap_or_default());
    let is_news = state != WorkloadState::Ready || reason != PODS_READY;
    MCPRegistryStatus {
        phase: Some(match state {
            WorkloadState::Ready => MCPRegistryPhase::Ready,
            WorkloadState::Starting | WorkloadState::NotAnswering | WorkloadState::Stopped => {
                MCPRegistryPhase::Pending
            }
            WorkloadState::Degraded => MCPRegistryPhase::Degraded,
            WorkloadState::Failed => MCPRegistryPhase::Failed,
        }),
        url: Some(format!("http://{host}.{}.svc.{cluster_domain}:{PORT}", namespace.unwrap_or_default())),
        message: is_news.then_some(message),
        observed_generation: Some(generation),
        ready_replicas: ready,
        conditions: conditions.finish(),
    }
}
