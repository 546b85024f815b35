//! The status of an MCPServer.

use vmcp_crds::mcp_server::MCPServerPhase;
use vmcp_crds::{MCPServer, MCPServerStatus};

use super::{NAME, backend};
use crate::references::group_condition;
use crate::runtime::{Conditions, labels};
use crate::workload::health::{self, Counts, Health, State};
use crate::workload::refusal::{Refusal, validity};

/// What was found when it was reconciled.
pub(super) struct Found<'a> {
    /// Whether the group exists, when one is named.
    pub group: Option<bool>,
    /// Why it does not run as it is written.
    pub refusal: Option<&'a Refusal>,
    /// What the Deployment says.
    pub counts: Counts,
    /// How the pods are.
    pub health: Health,
}

pub(super) fn of(server: &MCPServer, found: &Found<'_>, cluster_domain: &str) -> MCPServerStatus {
    let generation = server.metadata.generation.unwrap_or_default();
    let before = server.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let mut conditions = Conditions::new(before, generation);
    let Found { group, refusal, counts, health: Health { state, reason, message } } = found;
    conditions.set("Ready", counts.ready > 0 && *state != State::Stopped, reason, message.clone());
    validity(&mut conditions, !server.spec.secrets.is_empty(), *refusal);
    let group = group_condition(&mut conditions, server.spec.group_ref.as_ref(), *group);
    let is_news = *state != State::Ready || reason != health::READY;
    let said: Vec<_> = is_news.then(|| message.clone()).into_iter().chain(group).collect();
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
        url: Some(backend(server, cluster_domain).url),
        message: (!said.is_empty()).then(|| said.join(" | ")),
        observed_generation: Some(generation),
        replicas: counts.existing,
        ready_replicas: counts.ready,
        selector: Some(selector.join(",")),
        conditions: conditions.finish(),
    }
}
