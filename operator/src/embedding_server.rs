//! EmbeddingServer: Text Embeddings Inference in pods of its own.

mod address;
mod build;
mod status;
#[cfg(test)]
mod tests;
mod validate;

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use vmcp_crds::EmbeddingServer;

pub use self::address::{child_name, url};
use self::validate::secret_references;
use crate::references::{self, Secrets};
use crate::report::report;
use crate::runtime::{ApplyError, ChildKind, Context, Desired, Triggers, labels, run_controller};
use crate::workload::health::Counts;
use crate::workload::refusal::Refusal;
use crate::workload::{self, notices};

/// What the pods are called by, in `app.kubernetes.io/name`.
pub const NAME: &str = "embedding-server";

/// Reconciles EmbeddingServers until the process is to end.
pub fn controller(context: &Arc<Context>) -> BoxFuture<'static, ()> {
    let all = &context.resources;
    let triggers = Triggers::new(context, &all.embedding_servers)
        .on(&all.pods, |change, _| workload::owner_of(change, NAME))
        .on(&all.secrets, |change, context| {
            references::users_of(change, &context.resources.embedding_servers, secret_references)
        });
    run_controller(triggers, reconcile).boxed()
}

async fn reconcile(server: Arc<EmbeddingServer>, context: Arc<Context>) -> Result<Action, ApplyError> {
    let (namespace, name) = (server.namespace().unwrap_or_default(), server.name_any());
    let secrets = Secrets::read(&context, &namespace, &secret_references(&server)).await?;
    let (desired, refusal) = match plan(&server, &secrets) {
        Ok(desired) => (desired, None),
        Err(refusal) => (keep(&name), Some(refusal)),
    };
    context.apply(server.as_ref(), desired).await.entirely()?;
    let (uid, child) = (server.uid().unwrap_or_default(), child_name(&name));
    let claim = context.children.typed::<PersistentVolumeClaim>(&uid, &child);
    let pods = context.pods(&namespace, &labels(NAME, &name));
    let set = context.children.typed::<StatefulSet>(&uid, &child);
    let counts = match &set {
        Some(set) => Some(Counts::from(set).with_notices(&context, Some(set), &pods).await),
        None => None,
    };
    let again = counts.as_ref().is_some_and(|counts| counts.ready < counts.desired);
    let found = status::Found {
        refusal: refusal.as_ref(),
        counts,
        pods: &pods,
        claim: claim.as_ref(),
        url: url(&name, &namespace, server.spec.port, &context.settings.cluster_domain),
    };
    let status = status::of(&server, &found);
    let before = server.status.as_ref().map_or(&[][..], |status| &status.conditions);
    report(&context, server.as_ref(), before, &status.conditions, &status).await?;
    Ok(if again { Action::requeue(notices::AGAIN) } else { Action::await_change() })
}

/// What should exist, or why that cannot be told.
fn plan(server: &EmbeddingServer, secrets: &Secrets) -> Result<Desired, Refusal> {
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    if let Some(missing) = secrets.missing(namespace, &secret_references(server)) {
        return Err(Refusal::SecretNotFound(missing));
    }
    Ok(build::build(&validate::validate(server, secrets)?)?)
}

fn keep(name: &str) -> Desired {
    let kinds = [ChildKind::PersistentVolumeClaim, ChildKind::StatefulSet, ChildKind::Service];
    Desired { children: Vec::new(), keep: kinds.map(|kind| (kind, child_name(name))).to_vec() }
}
