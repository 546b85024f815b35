//! Making the kubelet look at mounted files at once: a touched annotation of a pod does, and restarts nothing.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use vmcp_crds::VirtualMCPServer;

use super::names;
use super::observe::Observed;
use super::validate::Plan;
use crate::runtime::{Applied, CallError, ChildKind, Context, Verb};

/// Touches the pods that do not have yet what is mounted, once for each version of it.
pub(super) async fn touch(
    server: &VirtualMCPServer,
    plan: &Plan,
    applied: &Applied,
    pods: &[Observed],
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
        let has = observed.report.as_ref().map(|report| &report.configuration.digest);
        let behind = digest.as_ref().is_some_and(|digest| has.is_some_and(|has| has != digest));
        let touched = observed.pod.annotations().get(names::TOUCHED) == Some(&versions);
        if (wrote || behind) && !touched && observed.pod.metadata.deletion_timestamp.is_none() {
            touch_one(&observed.pod, &versions, context).await?;
        }
    }
    Ok(())
}

async fn touch_one(pod: &Pod, versions: &str, context: &Context) -> Result<(), CallError> {
    let name = pod.name_any();
    let api: Api<Pod> = Api::namespaced(context.client.clone(), &pod.namespace().unwrap_or_default());
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { names::TOUCHED: versions } } }));
    let params = PatchParams::default();
    match context.call(Verb::Patch, "Pod", &name, api.patch_metadata(&name, &params, &patch)).await {
        // It is gone, and what comes after it mounts the new version.
        Err(error) if error.code() == Some(404) => Ok(()),
        patched => patched.map(drop),
    }
}
