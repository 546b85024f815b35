//! Step 6 of a reconcile, nudge: a nudge for the kubelet: a changed annotation of a pod makes it sync mounted
//! files at once and restarts nothing.
//!
//! Without it, a changed ConfigMap or Secret reaches the pod up to a minute later, at the kubelet's next
//! regular sync.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use vmcp_crds::VirtualMCPServer;

use super::names;
use super::observe::ObservedPod;
use super::validate::Plan;
use crate::runtime::{Applied, CallError, ChildKind, Context, Verb};

/// Nudges the kubelet for pods that do not have the newest ConfigMap and Secret yet, once for each version of
/// these two.
pub(super) async fn nudge(
    server: &VirtualMCPServer,
    plan: &Plan,
    applied: &Applied,
    pods: &[ObservedPod],
    context: &Context,
) -> Result<(), CallError> {
    let configuration = plan.configuration.as_ref().ok();
    let digest = configuration.map(|found| vmcp_config::status::digest(&found.lowered.text));
    let (uid, name) = (server.uid().unwrap_or_default(), server.name_any());
    let mounted =
        [(ChildKind::ConfigMap, names::config_map(&name)), (ChildKind::Secret, names::secret(&name))];
    let wrote = mounted.iter().any(|(kind, name)| applied.wrote(*kind, name));
    let version = |(kind, name): &(ChildKind, String)| {
        context
            .children
            .get(&uid, *kind, name)
            .and_then(|object| object.resource_version())
            .unwrap_or_default()
    };
    let versions = mounted.iter().map(version).collect::<Vec<_>>().join("-");
    for observed in pods {
        // The report tells the digest of the text in force; a change of the Secret alone shows in `wrote`
        // only.
        let has = observed.report.as_ref().map(|report| &report.configuration.digest);
        let behind = digest.as_ref().is_some_and(|digest| has.is_some_and(|has| has != digest));
        let nudged = observed.pod.annotations().get(names::MOUNTED_VERSIONS) == Some(&versions);
        if (wrote || behind) && !nudged && observed.pod.metadata.deletion_timestamp.is_none() {
            nudge_one(&observed.pod, &versions, context).await?;
        }
    }
    Ok(())
}

async fn nudge_one(pod: &Pod, versions: &str, context: &Context) -> Result<(), CallError> {
    let name = pod.name_any();
    let api: Api<Pod> = Api::namespaced(context.client.clone(), &pod.namespace().unwrap_or_default());
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { names::MOUNTED_VERSIONS: versions } } }));
    let params = PatchParams::default();
    match context.call(Verb::Patch, "Pod", &name, api.patch_metadata(&name, &params, &patch)).await {
        // The pod is gone; its successor mounts the new version.
        Err(error) if error.code() == Some(404) => Ok(()),
        patched => patched.map(drop),
    }
}
