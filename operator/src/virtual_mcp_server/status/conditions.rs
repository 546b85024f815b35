//! The conditions of a VirtualMCPServer, each with a message that tells a person the remedy.
//!
//! Everything that is wrong while pods serve is collected as a degradation; the first of them becomes the
//! condition `Degraded`.

mod composite_tools;
mod configuration;
mod definitions;
mod embeddings;
mod exposure;
mod reachability;
mod references;
mod trusted_tools;
mod volumes;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use vmcp_crds::virtual_mcp_server::{BackendState, DiscoveredBackend};

use super::{ObservedVirtualMCPServer, is_callable, is_network_symptom, refusal};
use crate::runtime::{ChildKind, Conditions, Failure as _, lacks_a_guard, set_pending};
use crate::virtual_mcp_server::dereference::group_of;
use crate::workload::health::{PODS_READY, SOME_PODS_FAIL, UNAUTHENTICATED, WorkloadHealth};
use crate::workload::network_limits::named;
use crate::workload::rollout::{Rollout, set_progress};
use vmcp_error_chain::error_chain;

/// The condition that sums up everything that is wrong while pods serve.
pub(super) const DEGRADED: &str = "Degraded";
/// The reason of `EmbeddingsReady` while vectors are computed.
pub(super) const EMBEDDING: &str = "Embedding";

/// The reason of `Ready` while the resource is suspended.
pub(super) const SUSPENDED: &str = "Suspended";

/// Returns all conditions, in the order of their importance to a reader.
pub(super) fn all(
    observed: &ObservedVirtualMCPServer<'_>,
    health: &WorkloadHealth,
    discovered: &[DiscoveredBackend],
) -> Vec<Condition> {
    let generation = observed.server.metadata.generation.unwrap_or_default();
    let mut conditions = Conditions::new(&observed.before().conditions, generation);
    ready(observed, health, &mut conditions);
    let mut degradations = Vec::new();
    some_pods_fail(health, &mut degradations);
    not_applied(observed, &mut conditions, &mut degradations);
    configuration::config_valid(observed, &mut conditions, &mut degradations);
    configuration::pod_template(observed, &mut conditions, &mut degradations);
    configuration::authz(observed, &mut conditions);
    references::references(observed, &mut conditions, &mut degradations);
    backends(observed, discovered, &mut conditions, &mut degradations);
    definitions::definitions(observed, &mut conditions, &mut degradations);
    trusted_tools::trusted_tools(observed, &mut conditions, &mut degradations);
    volumes::volumes(observed, &mut conditions, &mut degradations);
    composite_tools::composite_tools(observed, &mut conditions);
    embeddings::embeddings(observed, &mut conditions, &mut degradations);
    references::language_model(observed, &mut conditions, &mut degradations);
    pods_reachable(observed, &mut conditions, &mut degradations);
    exposure::exposure(observed, &mut conditions, &mut degradations);
    reachability::reachability(observed, &mut conditions, &mut degradations);
    missing_kinds(observed, &mut degradations);
    set_progress(&mut conditions, &progress(observed, health));
    set_pending(&mut conditions, observed.server);
    if let Some((reason, message)) = degradations.first() {
        let more = match degradations.len() {
            1 => String::new(),
            many => format!(" (and {} more; see the other conditions)", many - 1),
        };
        conditions.set(DEGRADED, true, reason, format!("{message}{more}"));
    } else {
        conditions.set(DEGRADED, false, "AllWell", "nothing is wrong");
    }
    conditions.finish()
}

/// Everything that is wrong whether or not pods serve: reason and message.
type Degradations = Vec<(&'static str, String)>;

/// Sets `Ready`: at least one pod serves, and none without a guard that the resource names. The reason tells
/// a server that asks clients for no credentials.
fn ready(observed: &ObservedVirtualMCPServer<'_>, health: &WorkloadHealth, conditions: &mut Conditions) {
    let serves = observed.ready() > 0;
    if observed.is_suspended() {
        conditions.set("Ready", false, SUSPENDED, suspended_message(observed));
        return;
    }
    if let (true, true, Some(refusal)) = (serves, lacks_a_guard(observed.server), refusal(observed.plan)) {
        conditions.set("Ready", false, refusal.reason, refusal.message.clone());
        return;
    }
    let is_anonymous = observed.order.is_some_and(|order| !order.authenticates);
    if serves && is_anonymous && health.reason == PODS_READY {
        let message = format!("{}; clients need no credentials, by spec.incomingAuth", health.message);
        conditions.set("Ready", true, UNAUTHENTICATED, message);
        return;
    }
    conditions.set("Ready", serves, &health.reason, health.message.clone());
}

/// Explains a suspension, with the pods that still end.
fn suspended_message(observed: &ObservedVirtualMCPServer<'_>) -> String {
    let name = observed.server.name_any();
    let remedy = format!("set it to false, or run `vmcp start --kubernetes {name}`");
    match observed.pods.len() {
        0 => format!("no pods run: spec.suspend is true; {remedy}"),
        ending => format!("spec.suspend is true, and pods are ending ({ending}); {remedy}"),
    }
}

/// Reports that the newest pods fail while older ones serve.
fn some_pods_fail(health: &WorkloadHealth, degradations: &mut Degradations) {
    if health.reason == SOME_PODS_FAIL {
        degradations.push((SOME_PODS_FAIL, health.message.clone()));
    }
}

/// Returns the progress towards the newest spec: of the resource, the objects, the pods, and the
/// configuration that these have in force.
fn progress(observed: &ObservedVirtualMCPServer<'_>, health: &WorkloadHealth) -> Rollout {
    let stalled = |reason: &str, message: String| Rollout::Stalled { reason: reason.to_owned(), message };
    if let Some(refusal) = refusal(observed.plan) {
        return stalled(refusal.reason, refusal.message.clone());
    }
    if let Err(message) = &observed.plan.template {
        return stalled("InvalidPodTemplateSpec", message.clone());
    }
    if let Some(error) = &observed.applied.failed {
        return stalled(error.category(), error_chain(error));
    }
    if let (Rollout::Complete, Some(message)) = (&health.rollout, volumes::replacement(observed)) {
        return Rollout::UnderWay(message);
    }
    if health.rollout == Rollout::Complete && observed.is_behind() {
        return Rollout::UnderWay("pods take up the newest configuration".to_owned());
    }
    health.rollout.clone()
}

/// Sets `PodsReachable`: the admin port of every ready pod answers the operator.
fn pods_reachable(
    observed: &ObservedVirtualMCPServer<'_>,
    conditions: &mut Conditions,
    degradations: &mut Degradations,
) {
    const KIND: &str = "PodsReachable";
    let ready = || observed.pods.iter().filter(|pod| pod.ready);
    let mut failing = ready().filter_map(|pod| Some((pod, pod.failure.as_ref()?)));
    if let Some((pod, failure)) = failing.next() {
        let more = match failing.count() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let limits = named(&observed.limits.ingress).filter(|_| failure.reason == "ConnectionTimedOut");
        let limits = limits
            .map(|policies| format!("; connections to it are limited by {policies}"))
            .unwrap_or_default();
        let message = format!(
            "the admin port of pod {}{more} cannot be asked, so that nothing is known of its backends and its \
             configuration: {}{limits}",
            pod.pod.name_any(),
            failure.message
        );
        conditions.set(KIND, false, failure.reason, message.clone());
        degradations.push((failure.reason, message));
    } else if ready().next().is_none() {
        conditions.unknown(KIND, "NoPods", "no pod is ready");
    } else if ready().any(|pod| pod.report.is_some()) {
        conditions.set(KIND, true, "PodsReachable", "the admin port of every ready pod answers");
    } else {
        conditions.keep(KIND);
    }
}

/// Reports a child that cannot be written; while no pod serves, it is the reason of `Ready` as well.
fn not_applied(
    observed: &ObservedVirtualMCPServer<'_>,
    conditions: &mut Conditions,
    degradations: &mut Degradations,
) {
    let Some(error) = &observed.applied.failed else { return };
    if observed.ready() == 0 {
        conditions.set("Ready", false, error.category(), error_chain(error));
    }
    degradations.push((error.category(), error_chain(error)));
}

/// Sets `BackendsDiscovered`; backends that cannot be called are a degradation.
fn backends(
    observed: &ObservedVirtualMCPServer<'_>,
    discovered: &[DiscoveredBackend],
    conditions: &mut Conditions,
    degradations: &mut Degradations,
) {
    const KIND: &str = "BackendsDiscovered";
    if let Some(name) = observed.plan.duplicates.first() {
        let message = format!(
            "more than one of MCPServer, `spec.backends`, MCPServerEntry and MCPRemoteProxy is called {name}; the first in this order is used; create the others under another name"
        );
        conditions.set(KIND, false, "DuplicateBackendName", message.clone());
        degradations.push(("DuplicateBackendName", message));
    } else if discovered.is_empty() {
        let message = match group_of(observed.server) {
            Some(group) => {
                format!("no MCPServer or MCPServerEntry has `groupRef: {{name: {group}}}`; give one to each")
            }
            None => "there is no MCPServer or MCPServerEntry in this namespace; create one".to_owned(),
        };
        conditions.set(KIND, true, "NoBackends", message);
    } else {
        let callable = discovered.iter().filter(|backend| is_callable(backend)).count();
        let missed = definitions::missed_names(observed);
        let missed = missed.map(|issue| format!("; clients miss: {issue}")).unwrap_or_default();
        let message = format!("{callable} of {} backends can be called{missed}", discovered.len());
        conditions.set(KIND, true, "BackendsDiscovered", message);
    }
    let cannot_be_called =
        |backend: &&DiscoveredBackend| !matches!(backend.status, BackendState::Ready | BackendState::Unknown);
    let mut uncallable = discovered.iter().filter(cannot_be_called);
    if let Some(backend) = uncallable.next() {
        let why = backend.message.as_deref().unwrap_or("see status.discoveredBackends");
        let more = match uncallable.count() {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let limits = named(&observed.limits.egress).filter(|_| is_network_symptom(why));
        let limits = limits.map(|policies| {
            format!(
                "; connections of the pods are limited by {policies}: allow them the backend's port, and port 53 for its name"
            )
        });
        let message = format!("backend {}{more}: {why}{}", backend.name, limits.unwrap_or_default());
        degradations.push(("BackendsUnavailable", message));
    }
}

/// Reports optional kinds that the resource asks for and the cluster lacks.
fn missing_kinds(observed: &ObservedVirtualMCPServer<'_>, degradations: &mut Degradations) {
    let missing = observed.applied.missing.iter().map(|kind| {
        let (api, field, value) = match kind {
            ChildKind::ServiceMonitor => {
                ("the Prometheus operator", "spec.serviceMonitor", "serviceMonitors.enabled")
            }
            _ => ("the Gateway API", "spec.httpRoute", "httpRoutes.enabled"),
        };
        if !observed.settings.enables(*kind) {
            let kind = kind.as_str();
            return format!(
                "this operator makes no {kind}s, and deletes those that it made before; set `{value}` of its chart, or remove {field} and make your own"
            );
        }
        format!("this cluster has no kind {}; install {api}, or remove {field}", kind.as_str())
    });
    let missing: Vec<_> = missing.collect();
    if !missing.is_empty() {
        degradations.push(("ApiMissing", missing.join(" | ")));
    }
}
