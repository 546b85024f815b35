//! The status of an EmbeddingServer.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use vmcp_crds::embedding_server::EmbeddingServerPhase;
use vmcp_crds::{EmbeddingServer, EmbeddingServerStatus};

use super::build::CONTAINER;
use crate::runtime::Conditions;
use crate::workload::health::{self, Counts, Health, State};
use crate::workload::refusal::{Refusal, validity};

/// What was found when it was reconciled.
pub(super) struct Found<'a> {
    /// Why it does not run as it is written.
    pub refusal: Option<&'a Refusal>,
    /// What the StatefulSet says; `None` without one.
    pub counts: Option<Counts>,
    /// Its pods.
    pub pods: &'a [Arc<Pod>],
    /// Its volume, if it has one.
    pub claim: Option<&'a PersistentVolumeClaim>,
    /// Where it is reached.
    pub url: String,
}

pub(super) fn of(server: &EmbeddingServer, found: &Found<'_>) -> EmbeddingServerStatus {
    let generation = server.metadata.generation.unwrap_or_default();
    let before = server.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let mut conditions = Conditions::new(before, generation);
    let counts = found.counts.clone().unwrap_or_default();
    let Health { state, mut reason, mut message } =
        health::of_resource(found.refusal, found.counts.as_ref(), found.pods, CONTAINER);
    if state == State::NotAnswering {
        "ModelDownloading".clone_into(&mut reason);
        message = format!(
            "the model {} is being downloaded or loaded, which takes minutes when it is large; `kubectl logs` of the pod \
             tells how far it is",
            server.spec.model
        );
    }
    conditions.set("Ready", counts.ready > 0, &reason, message.clone());
    validity(&mut conditions, server.spec.hf_token_secret_ref.is_some(), found.refusal);
    if let Some(claim) = found.claim {
        volume(&mut conditions, claim);
    }
    let is_news = state != State::Ready || reason != health::READY;
    EmbeddingServerStatus {
        phase: Some(match state {
            State::Ready => EmbeddingServerPhase::Ready,
            State::NotAnswering => EmbeddingServerPhase::Downloading,
            State::Starting | State::Stopped => EmbeddingServerPhase::Pending,
            State::Failed => EmbeddingServerPhase::Failed,
        }),
        url: Some(found.url.clone()),
        message: is_news.then_some(message),
        observed_generation: Some(generation),
        replicas: counts.existing,
        ready_replicas: counts.ready,
        conditions: conditions.finish(),
    }
}

fn volume(conditions: &mut Conditions, claim: &PersistentVolumeClaim) {
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    match phase {
        "Bound" => conditions.set("VolumeReady", true, "VolumeReady", format!("the claim {name} is bound")),
        "Lost" => {
            let message =
                format!("the claim {name} lost its volume; delete the claim, and a new one is made");
            conditions.set("VolumeReady", false, "VolumeFailed", message);
        }
        _ => {
            let message = format!(
                "the claim {name} waits for a volume; if that lasts, set `modelCache.storageClassName` to one of \
                 `kubectl get storageclass`, or remove `modelCache`"
            );
            conditions.unknown("VolumeReady", "VolumeCreating", message);
        }
    }
}
