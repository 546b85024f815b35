//! Reconciles an EmbeddingServer: dereference -> validate -> build -> apply -> observe -> status.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use vmcp_crds::{EmbeddingServer, Invalid};

use super::build::build;
use super::dereference::{References, dereference, mounted_classes, secret_references};
use super::names::{WORKLOAD_NAME, child_name, digest_secret_name, url};
use super::status::{self, ObservedEmbeddingServer};
use super::validate::validate;
use crate::references;
use crate::runtime::{
    BuildSettings, ChildKind, Context, Desired, Triggers, report, run_controller, unchecked, workload_labels,
};
use crate::workload::cluster_events;
use crate::workload::health::PodCounts;
use crate::workload::spec_refusal::SpecRefusal;
use crate::workload::{ReconcileError, workload_of_pod};

/// Reconciles EmbeddingServers until the process is to end.
pub(crate) fn controller(context: &Arc<Context>) -> BoxFuture<'static, ()> {
    let all = &context.resources;
    let triggers = Triggers::new(context, &all.embedding_servers)
        .on(&all.pods, |change, _| workload_of_pod(change, WORKLOAD_NAME))
        .on(&all.secrets, |change, context| {
            references::users_of(change, &context.resources.embedding_servers, secret_references)
        });
    run_controller(triggers, reconcile).boxed()
}

async fn reconcile(server: Arc<EmbeddingServer>, context: Arc<Context>) -> Result<Action, ReconcileError> {
    let (namespace, name) = (server.namespace().unwrap_or_default(), server.name_any());
    let references = dereference(&server, &context).await?;
    let (uid, child) = (server.uid().unwrap_or_default(), child_name(&name));
    let running = context.children.typed::<StatefulSet>(&uid, &child);
    let unchecked = unchecked("EmbeddingServer", &server.spec, &context.settings);
    let planned = match unchecked {
        Some(problem) => Err(SpecRefusal::Invalid(Invalid(vec![problem]))),
        None => plan(&server, &references, running.as_ref(), &context.settings),
    };
    let (desired, refusal) = match planned {
        Ok(desired) => (desired, None),
        Err(refusal) => (keep(&name), Some(refusal)),
    };
    context.apply(server.as_ref(), desired).await.entirely()?;
    let claim = context.children.typed::<PersistentVolumeClaim>(&uid, &child);
    let pods = context.pods(&namespace, &workload_labels(WORKLOAD_NAME, &name));
    let set = context.children.typed::<StatefulSet>(&uid, &child);
    let counts = match &set {
        Some(set) => Some(PodCounts::from(set).with_cluster_events(&context, Some(set), &pods).await),
        None => None,
    };
    let waiting = counts.as_ref().is_some_and(|counts| counts.ready < counts.desired);
    let (wanted, classes) = (secret_references(&server), mounted_classes(&server));
    let observed = ObservedEmbeddingServer {
        awaited_secrets: references.secrets.awaited(&namespace, &wanted, &classes),
        refusal: refusal.as_ref(),
        counts,
        pods: &pods,
        claim: claim.as_ref(),
        url: url(&name, &namespace, server.spec.port, &context.settings.cluster_domain),
    };
    let status = status::compute(&server, &observed);
    let before = server.status.as_ref().map_or(&[][..], |status| &status.conditions);
    report(&context, server.as_ref(), before, &status.conditions, &status).await?;
    Ok(if waiting { Action::requeue(cluster_events::POLL_INTERVAL) } else { Action::await_change() })
}

/// Returns the children that should exist, or why the resource cannot run as it is written.
pub(super) fn plan(
    server: &EmbeddingServer,
    references: &References,
    running: Option<&StatefulSet>,
    settings: &BuildSettings,
) -> Result<Desired, SpecRefusal> {
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    // Pods that mount a SecretProviderClass may bring the Secret: its driver makes the Secret for them.
    if mounted_classes(server).is_empty()
        && let Some(missing) = references.secrets.missing(namespace, &secret_references(server))
    {
        return Err(SpecRefusal::SecretNotFound(missing));
    }
    Ok(build(&validate(server, references, running)?, settings)?)
}

/// Leaves all children as they are: pods of the previous version serve on while the resource is refused.
fn keep(name: &str) -> Desired {
    let kinds = [ChildKind::PersistentVolumeClaim, ChildKind::StatefulSet, ChildKind::Service];
    let mut keep = kinds.map(|kind| (kind, child_name(name))).to_vec();
    keep.push((ChildKind::Secret, digest_secret_name(name)));
    Desired { children: Vec::new(), keep }
}
