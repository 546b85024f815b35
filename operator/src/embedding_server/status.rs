//! Step 6 of a reconcile, status: the status of an EmbeddingServer, from the applied objects and the states
//! of its pods and its volume. Pure.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use vmcp_crds::embedding_server::EmbeddingServerPhase;
use vmcp_crds::{EmbeddingServer, EmbeddingServerStatus};

use super::build::CONTAINER;
use super::names::WORKLOAD_NAME;
use crate::runtime::Conditions;
use crate::workload::health::{PODS_READY, PodCounts, WorkloadHealth, WorkloadState, resource_health};
use crate::workload::pod_selector;
use crate::workload::rollout::set_progress;
use crate::workload::spec_refusal::{SpecRefusal, set_validity};

/// The state of a server that its status is computed from.
pub(super) struct ObservedEmbeddingServer<'a> {
    /// Missing values of Secrets that the pods bring.
    pub awaited_secrets: Option<String>,
    /// The refusal, if the resource cannot run as it is written.
    pub refusal: Option<&'a SpecRefusal>,
    /// The pods that the StatefulSet counts; `None` without a StatefulSet.
    pub counts: Option<PodCounts>,
    /// The pods of the StatefulSet.
    pub pods: &'a [Arc<Pod>],
    /// The volume claim for the model, if there is one.
    pub claim: Option<&'a PersistentVolumeClaim>,
    /// The base URL.
    pub url: String,
}

/// Computes the status.
pub(super) fn compute(
    server: &EmbeddingServer,
    observed: &ObservedEmbeddingServer<'_>,
) -> EmbeddingServerStatus {
    let generation = server.metadata.generation.unwrap_or_default();
    let before = server.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let mut conditions = Conditions::new(before, generation);
    let counts = observed.counts.clone().unwrap_or_default();
    let WorkloadHealth { state, mut reason, mut message, rollout } =
        resource_health(observed.refusal, observed.counts.as_ref(), observed.pods, CONTAINER);
    if state == WorkloadState::NotAnswering {
        "ModelDownloading".clone_into(&mut reason);
        message = format!(
            "the model {} is being downloaded or loaded, which takes minutes if it is large; `kubectl logs` of the pod \
             shows the progress",
            server.spec.model
        );
    }
    conditions.set("Ready", counts.ready > 0, &reason, message.clone());
    let (refers, awaited) = (server.spec.hf_token_secret_ref.is_some(), observed.awaited_secrets.as_deref());
    set_validity(&mut conditions, refers, awaited, observed.refusal);
    set_progress(&mut conditions, &rollout);
    if let Some(claim) = observed.claim {
        volume(&mut conditions, claim);
    }
    let is_news = state != WorkloadState::Ready || reason != PODS_READY;
    EmbeddingServerStatus {
        phase: Some(match state {
            WorkloadState::Ready => EmbeddingServerPhase::Ready,
            WorkloadState::NotAnswering => EmbeddingServerPhase::Downloading,
            WorkloadState::Starting | WorkloadState::Stopped => EmbeddingServerPhase::Pending,
            WorkloadState::Degraded => EmbeddingServerPhase::Degraded,
            WorkloadState::Failed => EmbeddingServerPhase::Failed,
        }),
        url: Some(observed.url.clone()),
        message: is_news.then_some(message),
        observed_generation: Some(generation),
        replicas: counts.existing,
        ready_replicas: counts.ready,
        selector: Some(pod_selector(WORKLOAD_NAME, server.metadata.name.as_deref().unwrap_or_default())),
        conditions: conditions.finish(),
    }
}

/// Sets the condition `VolumeReady` from the phase of the claim.
fn volume(conditions: &mut Conditions, claim: &PersistentVolumeClaim) {
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    match phase {
        "Bound" => conditions.set("VolumeReady", true, "VolumeReady", format!("the claim {name} is bound")),
        "Lost" => {
            let message = format!(
                "the claim {name} lost its volume; delete the claim, and the operator makes a new one"
            );
            conditions.set("VolumeReady", false, "VolumeFailed", message);
        }
        _ => {
            let message = format!(
                "the claim {name} waits for a volume; if this lasts, set `modelCache.storageClassName` to one of \
                 `kubectl get storageclass`, or remove `modelCache`"
            );
            conditions.unknown("VolumeReady", "VolumeCreating", message);
        }
    }
}
