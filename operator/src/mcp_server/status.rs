//! Step 6 of a reconcile, status: the status of an MCPServer, from the applied objects and the states of its
//! pods. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use vmcp_crds::mcp_server::MCPServerPhase;
use vmcp_crds::{MCPServer, MCPServerStatus};

use super::names::{WORKLOAD_NAME, backend};
use super::permission_profile::{self, ProfileText};
use crate::references::group_condition;
use crate::runtime::{Conditions, lacks_a_guard, set_pending};
use crate::workload::health::{PODS_READY, PodCounts, UNAUTHENTICATED, WorkloadHealth, WorkloadState};
use crate::workload::network::NAMESPACE_LABEL;
use crate::workload::pod_selector;
use crate::workload::rollout::set_progress;
use crate::workload::spec_refusal::{SpecRefusal, set_validity};

/// The state of a server that its status is computed from.
pub(super) struct ObservedMCPServer<'a> {
    /// Missing values of Secrets that the pods bring.
    pub awaited_secrets: Option<String>,
    /// True if the MCPGroup exists; `None` if none is named.
    pub group_exists: Option<bool>,
    /// The text of the permission profile.
    pub permission_profile: &'a ProfileText,
    /// The refusal, if the resource cannot run as it is written.
    pub refusal: Option<&'a SpecRefusal>,
    /// The pods that the Deployment counts.
    pub counts: PodCounts,
    /// The state of the pods, in words.
    pub health: WorkloadHealth,
}

/// Computes the status.
pub(super) fn compute(
    server: &MCPServer,
    observed: &ObservedMCPServer<'_>,
    cluster_domain: &str,
) -> MCPServerStatus {
    let generation = server.metadata.generation.unwrap_or_default();
    let before = server.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let mut conditions = Conditions::new(before, generation);
    let ObservedMCPServer { awaited_secrets, group_exists, permission_profile, refusal, counts, health } =
        observed;
    let WorkloadHealth { state, reason, message, rollout } = &without_guard(server, health);
    let is_up = counts.ready > 0 && *state != WorkloadState::Stopped;
    // Pods from before the refusal may lack the guards that the resource asks for.
    let is_followed = !lacks_a_guard(server) && (refusal.is_none() || !server.spec.is_guarded());
    conditions.set("Ready", is_up && is_followed, reason, message.clone());
    set_validity(&mut conditions, !server.spec.secrets.is_empty(), awaited_secrets.as_deref(), *refusal);
    set_progress(&mut conditions, rollout);
    permission_profile::set_condition(
        &mut conditions,
        server.spec.permission_profile.as_ref(),
        permission_profile,
    );
    set_pending(&mut conditions, server);
    let group = group_condition(&mut conditions, server.spec.group_ref.as_ref(), *group_exists);
    let is_news = *state != WorkloadState::Ready || reason != PODS_READY;
    let messages: Vec<_> = is_news.then(|| message.clone()).into_iter().chain(group).collect();
    MCPServerStatus {
        phase: Some(match state {
            WorkloadState::Stopped => MCPServerPhase::Stopped,
            WorkloadState::Ready => MCPServerPhase::Ready,
            WorkloadState::Starting | WorkloadState::NotAnswering => MCPServerPhase::Pending,
            WorkloadState::Degraded => MCPServerPhase::Degraded,
            WorkloadState::Failed => MCPServerPhase::Failed,
        }),
        url: Some(backend(server, cluster_domain).url),
        message: (!messages.is_empty()).then(|| messages.join(" | ")),
        observed_generation: Some(generation),
        replicas: counts.existing,
        ready_replicas: counts.ready,
        selector: Some(pod_selector(WORKLOAD_NAME, server.metadata.name.as_deref().unwrap_or_default())),
        conditions: conditions.finish(),
    }
}

/// Returns the health of a server. Without a NetworkPolicy that excludes some pods, its reason says
/// that every pod may call it.
fn without_guard(server: &MCPServer, health: &WorkloadHealth) -> WorkloadHealth {
    if server.spec.asks_for_tokens() {
        return health.clone();
    }
    let remedy = match &server.spec.network_policy {
        Some(policy) if !policy.enabled => "remove `networkPolicy.enabled: false`",
        Some(policy) if policy.ingress_from.iter().any(admits_every_pod) => {
            "name fewer peers in `networkPolicy.ingressFrom`"
        }
        _ => return health.clone(),
    };
    if health.state != WorkloadState::Ready || health.reason != PODS_READY {
        return health.clone();
    }
    let message = format!(
        "{}; every pod of the cluster may call the server, without credentials; {remedy}",
        health.message
    );
    WorkloadHealth { reason: UNAUTHENTICATED.to_owned(), message, ..health.clone() }
}

/// Prefixes of this length and more name a part of the addresses. Two halves, as in `0.0.0.0/1`, are all.
const SHORTEST_PREFIX: u8 = 8;

/// Returns true for a peer that stands for every pod of the cluster, but for a few that it excludes: all of
/// all namespaces, or all addresses.
fn admits_every_pod(peer: &NetworkPolicyPeer) -> bool {
    let excludes = |requirement: &LabelSelectorRequirement| match requirement.operator.as_str() {
        // The API server gives this label to every namespace.
        "Exists" => requirement.key == NAMESPACE_LABEL,
        "NotIn" | "DoesNotExist" => true,
        _ => false,
    };
    let selects_all = |selector: &LabelSelector| {
        selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
            && selector.match_expressions.iter().flatten().all(excludes)
    };
    let all_pods = peer.pod_selector.as_ref().is_none_or(selects_all);
    let all_namespaces = peer.namespace_selector.as_ref().is_some_and(selects_all);
    let prefix = peer.ip_block.as_ref().and_then(|block| block.cidr.rsplit_once('/')?.1.parse::<u8>().ok());
    let all_addresses = prefix.is_some_and(|length| length < SHORTEST_PREFIX);
    (all_namespaces && all_pods) || all_addresses
}
