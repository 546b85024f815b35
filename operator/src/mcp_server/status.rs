//! The status of an MCPServer.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use vmcp_crds::{MCPServer, MCPServerStatus, mcp_server::MCPServerPhase};

use super::{NAME, build::CONTAINER};
use crate::{
    references::group_condition,
    runtime::{Conditions, labels},
    workload::{
        health::{self, Counts, Health, State},
        refusal::{Refusal, validity},
    },
};

/// What was found when it was reconciled.
pub(super) struct Found<'a> {
    /// Whether the group exists, when one is named.
    pub group: Option<bool>,
    /// Why it does not run as it is written.
    pub refusal: Option<&'a Refusal>,
    /// What the Deployment says; `None` without one.
    pub counts: Option<Counts>,
    /// Its pods.
    pub pods: &'a [Arc<Pod>],
    /// Where it is reached.
    pub url: String,
}

pub(super) fn of(server: &MCPServer, found: &Found<'_>) -> MCPServerStatus {
    let generation = server.metadata.generation.unwrap_or_default();
    let before = server.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let mut conditions = Conditions::new(before, generation);
    let counts = found.counts.clone().unwrap_or_default();
    let Health { state, reason, message } = match (found.refusal, &found.counts) {
        (Some(refusal), _) => refusal.health(&counts),
        (None, Some(counts)) => health::of(counts, found.pods, CONTAINER),
        (None, None) => health::starting(),
    };
    conditions.set("Ready", counts.ready > 0 && state != State::Stopped, &reason, message.clone());
    validity(&mut conditions, !server.spec.secrets.is_empty(), found.refusal);
    let group = group_condition(&mut conditions, server.spec.group_ref.as_ref(), found.group);
    let is_news = state != State::Ready || reason != health::READY;
    let said: Vec<_> = is_news.then_some(message).into_iter().chain(group).collect();
    let selector: Vec<_> = labels(NAME, server.metadata.name.as_deref().unwrap_or_default())
        .into_iter()
        .map(|(k, v)| format!("{k}={v}"))
        .collect();
    MCPServerStatus {
        phase: Some(match state {
            State::Stopped => MCPServerPhase::Stopped,
            State::Ready => MCPServerPhase::Ready,
            State::Starting | State::NotAnswering => MCPServerPhase::Pending,
            State::Failed => MCPServerPhase::Failed,
        }),
        url: Some(found.url.clone()),
        message: (!said.is_empty()).then(|| said.join(" | ")),
        observed_generation: Some(generation),
        replicas: counts.existing,
        ready_replicas: counts.ready,
        selector: Some(selector.join(",")),
        conditions: conditions.finish(),
    }
}
