//! `EmbeddingsReady`: whether the tools can be found by meaning.

use vmcp_config::status::{EmbeddingState, EmbeddingStatus};

use super::{Degradations, EMBEDDING};
use crate::runtime::Conditions;
use crate::virtual_mcp_server::status::ObservedVirtualMCPServer;

/// Sets `EmbeddingsReady` by the worst report of a pod.
pub(super) fn embeddings(
    observed: &ObservedVirtualMCPServer<'_>,
    conditions: &mut Conditions,
    degradations: &mut Degradations,
) {
    const KIND: &str = "EmbeddingsReady";
    if observed.plan.server.as_ref().is_ok_and(|server| server.optimizer.is_none()) {
        return conditions.set(KIND, true, "NotWanted", "the optimizer is off, so that no tool is embedded");
    }
    if let Some(refusal) = &observed.plan.left_out.embeddings {
        let message = format!("search uses keywords alone: {}", refusal.message);
        conditions.set(KIND, false, refusal.reason, message.clone());
        degradations.push((refusal.reason, message));
        return;
    }
    let rank = |status: &&EmbeddingStatus| match status.state {
        EmbeddingState::Off => 0,
        EmbeddingState::Ready => 1,
        EmbeddingState::Working => 2,
        EmbeddingState::Degraded => 3,
    };
    let Some(worst) = observed.reports().map(|report| &report.embeddings).max_by_key(rank) else {
        if observed.ready() > 0 {
            return conditions.keep(KIND);
        }
        return conditions.unknown(KIND, "NoPods", "no pod is ready");
    };
    match worst.state {
        EmbeddingState::Off => {
            conditions.set(KIND, true, "NotWanted", "search uses keywords alone, as configured");
        }
        EmbeddingState::Ready => conditions.set(KIND, true, "EmbeddingsReady", "every tool has its vector"),
        EmbeddingState::Working => {
            conditions.unknown(KIND, EMBEDDING, "vectors are being computed; search uses those that exist");
        }
        EmbeddingState::Degraded => {
            let mut reason = worst.reason.as_deref();
            let mut remedy = worst.hint.as_deref().unwrap_or("see the log of the pods");
            if worst.provider == "local" {
                // Behind the semicolon vmcp advises to pull the model, which is for a laptop and not for a
                // pod.
                reason = reason.map(|reason| reason.split(';').next().unwrap_or(reason));
                remedy = "use an image of vmcp that has the model (`make image MODEL=1`), or set \
                          spec.optimizer.embeddings.provider to tei, openai or none";
            }
            let because = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            let message = format!(
                "{} computes no vectors{because}; search uses keywords alone; {remedy}",
                worst.provider
            );
            conditions.set(KIND, false, "EmbeddingsFailing", message.clone());
            degradations.push(("EmbeddingsFailing", message));
        }
    }
}
