//! The guards of the pods that run, and the callers that they have.
//!
//! The NetworkPolicy changes in one call of the API server; guards take effect when the last pod from before
//! them is gone. Callers that an edit adds wait for this moment: they would reach pods that do not ask who
//! calls. Callers that it removes go at once. Everything is decided from stored objects, so that a restart of
//! the operator changes nothing.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicyPeer};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use vmcp_crds::MCPServer;

use crate::mcp_server::guards::valid_guards::ValidGuards;
use crate::mcp_server::names::{WORKLOAD_NAME, child_name};
use crate::runtime::{Context, workload_labels};
use crate::workload::network::sources::{Source as _, narrow};
use crate::workload::of_deployment;

/// The pods of a server, and the callers that its NetworkPolicy admits.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::mcp_server) struct RunningIngress {
    /// True if there is a Deployment.
    has_pods: bool,
    /// The digest of the guards that every pod has; `None` if one lacks it, or has another.
    guards: Option<String>,
    /// Callers of the client port; `None`: all.
    callers: Option<Vec<NetworkPolicyPeer>>,
}

impl RunningIngress {
    /// Reads the stored objects of a server with guards. Another one waits for nothing.
    pub(in crate::mcp_server) fn read(
        context: &Context,
        server: &MCPServer,
        deployment: Option<&Deployment>,
    ) -> Self {
        let Some(deployment) = deployment.filter(|_| server.spec.is_guarded()) else {
            return Self::default();
        };
        let name = server.name_any();
        let labels = workload_labels(WORKLOAD_NAME, &name);
        let pods = context.pods(&server.namespace().unwrap_or_default(), &labels);
        let pods = of_deployment(pods, &child_name(&name));
        let uid = server.metadata.uid.as_deref().unwrap_or_default();
        let policy = context.children.typed::<NetworkPolicy>(uid, &child_name(&name));
        Self::from_objects(deployment, &pods, policy)
    }

    /// Returns the state of these objects.
    pub(in crate::mcp_server) fn from_objects(
        deployment: &Deployment,
        pods: &[Arc<Pod>],
        policy: Option<NetworkPolicy>,
    ) -> Self {
        Self {
            has_pods: true,
            guards: guards_of_all(deployment, pods),
            callers: policy.and_then(callers_of).filter(|callers| !callers.is_empty()),
        }
    }

    /// Returns the callers that may be admitted now; `None`: all. `guards` is the digest of the wanted
    /// guards.
    pub(in crate::mcp_server) fn admitted(
        &self,
        guards: Option<&str>,
        wanted: Option<Vec<NetworkPolicyPeer>>,
    ) -> Option<Vec<NetworkPolicyPeer>> {
        let waits = guards.is_some() && self.has_pods && self.guards.as_deref() != guards;
        let Some(stored) = self.callers.as_ref().filter(|_| waits) else { return wanted };
        let Some(mut callers) = wanted else { return Some(stored.clone()) };
        narrow_callers(&mut callers, stored);
        Some(callers)
    }
}

/// Keeps the callers that are admitted already. A NetworkPolicy without callers would admit all: of two lists
/// without a common caller, the first stored one stays, the VirtualMCPServers of the former group.
pub(in crate::mcp_server) fn narrow_callers(
    wanted: &mut Vec<NetworkPolicyPeer>,
    stored: &[NetworkPolicyPeer],
) {
    let is_common =
        |caller: &NetworkPolicyPeer| wanted.iter().any(|other| other.covers(caller) || caller.covers(other));
    let first = stored.get(..1).unwrap_or(stored);
    let kept = if stored.iter().any(is_common) { stored } else { first };
    narrow(wanted, kept, false);
}

/// Returns the digest of the guards that the template and every pod have. Before the Deployment's controller
/// has seen the template, pods of an older one may come.
fn guards_of_all(deployment: &Deployment, pods: &[Arc<Pod>]) -> Option<String> {
    let seen = deployment.status.as_ref().and_then(|status| status.observed_generation);
    let template = deployment.spec.as_ref()?.template.metadata.as_ref()?;
    let wanted = guards_of(template).filter(|_| seen >= deployment.metadata.generation)?;
    pods.iter()
        .filter(|pod| !has_ended(pod))
        .all(|pod| guards_of(&pod.metadata) == Some(wanted))
        .then(|| wanted.to_owned())
}

fn guards_of(metadata: &ObjectMeta) -> Option<&str> {
    metadata.annotations.as_ref()?.get(&ValidGuards::annotation()).map(String::as_str)
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Returns the peers of the first rule, that of the client port; `None` if incoming connections are not
/// limited.
pub(in crate::mcp_server) fn callers_of(policy: NetworkPolicy) -> Option<Vec<NetworkPolicyPeer>> {
    let spec = policy.spec?;
    let is_limited = spec.policy_types.iter().flatten().any(|direction| direction == "Ingress");
    let first = spec.ingress.filter(|_| is_limited)?.into_iter().next()?;
    first.from
}
