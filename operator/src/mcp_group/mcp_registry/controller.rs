//! Reconciles an MCPRegistry: dereference -> validate -> build -> apply -> observe -> status.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use vmcp_crds::fields::references::SecretKeyReference;
use vmcp_crds::{Invalid, MCPRegistry};

use super::build::build;
use super::status;
use super::validate::validate;
use super::{WORKLOAD_NAME, child_name, digest_secret_name};
use crate::references::{self, DereferenceError, ReferencedSecrets, digest_key, provider_classes};
use crate::runtime::{
    BuildSettings, ChildKind, Context, Desired, Triggers, report, run_controller, unchecked, workload_labels,
};
use crate::workload::cluster_events;
use crate::workload::health::PodCounts;
use crate::workload::pod::secrets_digest;
use crate::workload::spec_refusal::SpecRefusal;
use crate::workload::{ReconcileError, of_deployment, workload_of_pod};

/// Reconciles MCPRegistries until the process is to end.
pub(crate) fn controller(context: &Arc<Context>) -> BoxFuture<'static, ()> {
    let all = &context.resources;
    let triggers = Triggers::new(context, &all.mcp_registries)
        .on(&all.pods, |change, _| workload_of_pod(change, WORKLOAD_NAME))
        .on(&all.secrets, |change, context| {
            references::users_of(change, &context.resources.mcp_registries, secret_references)
        });
    run_controller(triggers, reconcile).boxed()
}

async fn reconcile(registry: Arc<MCPRegistry>, context: Arc<Context>) -> Result<Action, ReconcileError> {
    let (namespace, name) = (registry.namespace().unwrap_or_default(), registry.name_any());
    let wanted = secret_references(&registry);
    let secrets =
        ReferencedSecrets::read(&context, &namespace, &wanted).await.map_err(DereferenceError::from)?;
    let key = if wanted.is_empty() {
        None
    } else {
        Some(digest_key(&context, registry.as_ref(), &digest_secret_name(&name)).await?)
    };
    let (uid, child) = (registry.uid().unwrap_or_default(), child_name(&name));
    let running = context.children.typed::<Deployment>(&uid, &child);
    let template = running.as_ref().and_then(|deployment| Some(&deployment.spec.as_ref()?.template));
    let running_digest = template.and_then(secrets_digest);
    let (desired, refusal) = match plan(&registry, &secrets, key, running_digest, &context.settings) {
        Ok(desired) => (desired, None),
        Err(refusal) => (keep(&name), Some(refusal)),
    };
    context.apply(registry.as_ref(), desired).await.entirely()?;
    let pods = context.pods(&namespace, &workload_labels(WORKLOAD_NAME, &name));
    let pods = of_deployment(pods, &child);
    let counts = match context.children.typed::<Deployment>(&uid, &child) {
        Some(deployment) => {
            let counts = PodCounts::from(&deployment).with_existing(&pods);
            Some(counts.with_cluster_events(&context, None, &pods).await)
        }
        None => None,
    };
    let status = status::compute(
        &registry,
        secrets.awaited(&namespace, &wanted, &mounted_classes(&registry)).as_deref(),
        refusal.as_ref(),
        counts.as_ref(),
        &pods,
        &context.settings.cluster_domain,
    );
    let before = registry.status.as_ref().map_or(&[][..], |status| &status.conditions);
    report(&context, registry.as_ref(), before, &status.conditions, &status).await?;
    let waits = cluster_events::need_polls(&pods);
    Ok(if waits { Action::requeue(cluster_events::POLL_INTERVAL) } else { Action::await_change() })
}

/// Returns the children that should exist, or why the resource cannot run as it is written.
pub(super) fn plan(
    registry: &MCPRegistry,
    secrets: &ReferencedSecrets,
    digest_key: Option<Vec<u8>>,
    running_digest: Option<String>,
    settings: &BuildSettings,
) -> Result<Desired, SpecRefusal> {
    if let Some(problem) = unchecked("MCPRegistry", &registry.spec, settings) {
        return Err(SpecRefusal::Invalid(Invalid(vec![problem])));
    }
    let namespace = registry.metadata.namespace.as_deref().unwrap_or_default();
    // Pods that mount a SecretProviderClass may bring the Secret: its driver makes the Secret for them.
    if mounted_classes(registry).is_empty()
        && let Some(missing) = secrets.missing(namespace, &secret_references(registry))
    {
        return Err(SpecRefusal::SecretNotFound(missing));
    }
    Ok(build(&validate(registry, secrets, digest_key, running_digest)?, settings)?)
}

/// Leaves all children as they are: the pod of the previous version serves on while the resource is refused.
fn keep(name: &str) -> Desired {
    let kinds = [ChildKind::ConfigMap, ChildKind::Deployment, ChildKind::Service];
    let mut keep = kinds.map(|kind| (kind, child_name(name))).to_vec();
    keep.push((ChildKind::Secret, digest_secret_name(name)));
    Desired { children: Vec::new(), keep }
}

/// Returns the Secrets that the registry refers to. Those of its `volumes` are the kubelet's to find.
fn secret_references(registry: &MCPRegistry) -> Vec<SecretKeyReference> {
    registry.spec.pgpass_secret_ref.iter().cloned().collect()
}

/// Returns the SecretProviderClasses that the pod mounts: their driver makes Secrets.
fn mounted_classes(registry: &MCPRegistry) -> BTreeSet<String> {
    let spec = &registry.spec;
    provider_classes(&spec.pod_template_spec, &spec.volumes, &spec.volume_mounts)
}
