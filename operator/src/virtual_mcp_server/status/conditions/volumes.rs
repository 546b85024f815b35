//! `VolumesReady`: the claims of the pods, and the replacement of a Deployment by a StatefulSet, or back.

use kube::ResourceExt as _;
use vmcp_config::status::CACHE_IN_MEMORY;

use super::Degradations;
use crate::runtime::Conditions;
use crate::virtual_mcp_server::objects::has_claims;
use crate::virtual_mcp_server::objects::workload_form::{WorkloadForm, kept_volume};
use crate::virtual_mcp_server::status::ObservedVirtualMCPServer;
use crate::workload::claim_templates::UNCHANGEABLE;

/// Sets the condition with `spec.optimizer.storage.volume`, while the workload changes its form, and while a
/// pod cannot write to its volume. Claims that a person edits are a degradation, as they stay as they are.
pub(super) fn volumes(
    observed: &ObservedVirtualMCPServer<'_>,
    conditions: &mut Conditions,
    degradations: &mut Degradations,
) {
    const KIND: &str = "VolumesReady";
    let Some(order) = observed.order else { return conditions.keep(KIND) };
    if observed.reports().any(|report| report.issues.iter().any(|issue| issue == CACHE_IN_MEMORY)) {
        let message = "a pod keeps its cache in memory, and its counts end with its process: it cannot write to its volume. \
                       `kubectl logs` of the pods says why";
        conditions.set(KIND, false, "CacheInMemory", message);
        degradations.push(("CacheInMemory", message.to_owned()));
        return;
    }
    let (name, namespace) = (observed.server.name_any(), observed.server.namespace().unwrap_or_default());
    if let (Some(volume), Some(set)) = (kept_volume(&order.server), &observed.running.set)
        && !has_claims(set, volume)
    {
        let message = format!(
            "spec.optimizer.storage.volume.persistentVolumeClaim: {UNCHANGEABLE}; everything else is in force. To replace \
             the StatefulSet while its pods serve, run `kubectl delete statefulset {name} -n {namespace} --cascade=orphan`: \
             pods without a claim get the new one. Claims that exist keep their size and class: enlarge each with \
             `kubectl edit pvc`, or delete it and its pod"
        );
        conditions.set(KIND, false, "ClaimsUnchangeable", message.clone());
        degradations.push(("ClaimsUnchangeable", message));
    } else if let Some(message) = replacement(observed) {
        conditions.unknown(KIND, "WorkloadReplacing", message);
    } else if kept_volume(&order.server).is_some() {
        let message = format!("each pod keeps its data in a claim of its own, cache-{name}-0 and so on");
        conditions.set(KIND, true, "ClaimPerPod", message);
    }
}

/// Returns the word about a workload that changes its form; `None` if it does not.
pub(super) fn replacement(observed: &ObservedVirtualMCPServer<'_>) -> Option<String> {
    let server = &observed.order?.server;
    let form = WorkloadForm::wanted(server);
    let (new, old) = (form.kind().as_str(), form.other().kind().as_str());
    observed.running.waits_for_pods(server).then(|| {
        format!("a {new} replaces the {old}, whose pods serve until every pod of the {new} is ready")
    })
}
