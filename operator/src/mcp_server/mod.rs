//! MCPServer: an MCP server in pods of its own.

mod address;
mod build;
mod status;
#[cfg(test)]
mod tests;
mod validate;

use std::sync::Arc;

use futures::{FutureExt as _, future::BoxFuture};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{ResourceExt as _, runtime::controller::Action};
use vmcp_crds::MCPServer;

pub use self::address::{backend, child_name};
use self::validate::secret_references;
use crate::{
    references::{self, Secrets},
    report::report,
    runtime::{ApplyError, ChildKind, Context, Desired, Settings, Triggers, labels, run_controller},
    workload::{self, health::Counts, refusal::Refusal},
};

/// What the pods are called by, in `app.kubernetes.io/name`.
pub const NAME: &str = "mcp-server";

/// Reconciles MCPServers until the process is to end.
pub fn controller(context: &Arc<Context>) -> BoxFuture<'static, ()> {
    let all = &context.resources;
    let triggers = Triggers::new(context, &all.mcp_servers)
        .on(&all.pods, |change, _| workload::owner_of(change, NAME))
        .on(&all.mcp_groups, |change, context| {
            let servers = &context.resources.mcp_servers;
            references::members_of(change, servers, |server| server.spec.group_ref.as_ref())
        })
        .on(&all.secrets, |change, context| {
            references::users_of(change, &context.resources.mcp_servers, secret_references)
        });
    run_controller(triggers, reconcile).boxed()
}

async fn reconcile(server: Arc<MCPServer>, context: Arc<Context>) -> Result<Action, ApplyError> {
    let (namespace, name) = (server.namespace().unwrap_or_default(), server.name_any());
    let secrets = Secrets::read(&context, &namespace, &secret_references(&server)).await?;
    let group = references::group_exists(&context, &namespace, server.spec.group_ref.as_ref());
    let (desired, refusal) = match plan(&server, &secrets, &context.settings) {
        Ok(desired) => (desired, None),
        Err(refusal) => (keep(&name), Some(refusal)),
    };
    context.apply(server.as_ref(), desired).await?;
    let uid = server.uid().unwrap_or_default();
    let deployment = context.children.typed::<Deployment>(&uid, &child_name(&name));
    let found = status::Found {
        group,
        refusal: refusal.as_ref(),
        counts: deployment.as_ref().map(Counts::from),
        pods: &context.pods(&namespace, &labels(NAME, &name)),
        url: backend(&server, &context.settings.cluster_domain).url,
    };
    let status = status::of(&server, &found);
    let before = server.status.as_ref().map_or(&[][..], |status| &status.conditions);
    report(&context, server.as_ref(), before, &status.conditions, &status).await?;
    Ok(Action::await_change())
}

/// What should exist, or why that cannot be told.
fn plan(server: &MCPServer, secrets: &Secrets, settings: &Settings) -> Result<Desired, Refusal> {
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    if let Some(missing) = secrets.missing(namespace, &secret_references(server)) {
        return Err(Refusal::SecretNotFound(missing));
    }
    Ok(build::build(&validate::validate(server, secrets)?, &settings.bridge_image)?)
}

fn keep(name: &str) -> Desired {
    let kinds = [ChildKind::Deployment, ChildKind::Service];
    Desired { children: Vec::new(), keep: kinds.map(|kind| (kind, child_name(name))).to_vec() }
}
