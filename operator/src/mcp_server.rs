//! MCPServer: an MCP server in pods of its own.

mod address;
mod build;
mod program;
mod status;
#[cfg(test)]
mod tests;
mod validate;

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use vmcp_crds::MCPServer;
use vmcp_crds::lower::ADMIN_TOKEN;
use vmcp_crds::mcp_server::MCPServerTransport;

use self::address::secret_name;
pub use self::address::{backend, child_name};
use self::validate::secret_references;
use crate::references::{self, Secrets};
use crate::report::report;
use crate::runtime::{
    ApplyError, CallError, ChildKind, Context, Desired, Failure, Generated, Retry, Settings, Triggers,
    labels, run_controller,
};
use crate::workload::admin::AdminClient;
use crate::workload::health::{self, Counts, State};
use crate::workload::refusal::Refusal;
use crate::workload::{self, notices};

/// What the pods are called by, in `app.kubernetes.io/name`.
pub const NAME: &str = "mcp-server";

/// Why a server could not be reconciled.
#[derive(Debug, thiserror::Error)]
enum ReconcileError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error("no random bytes for a new token: {0}")]
    Randomness(getrandom::Error),
}

impl Failure for ReconcileError {
    fn category(&self) -> &'static str {
        match self {
            Self::Call(error) => error.category(),
            Self::Apply(error) => error.category(),
            Self::Randomness(_) => "NoRandomness",
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Call(error) => error.retry(),
            Self::Apply(error) => error.retry(),
            Self::Randomness(_) => Retry::Backoff,
        }
    }
}

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
    let client = Arc::new(AdminClient::default());
    run_controller(triggers, move |server, context| reconcile(server, context, client.clone())).boxed()
}

async fn reconcile(
    server: Arc<MCPServer>,
    context: Arc<Context>,
    client: Arc<AdminClient>,
) -> Result<Action, ReconcileError> {
    let (namespace, name) = (server.namespace().unwrap_or_default(), server.name_any());
    let secrets = Secrets::read(&context, &namespace, &secret_references(&server)).await?;
    let group = references::group_exists(&context, &namespace, server.spec.group_ref.as_ref());
    let bridged = server.spec.transport == MCPServerTransport::Stdio;
    let token = if bridged {
        let kept = context.child(server.as_ref(), &secret_name(&name)).await?;
        Generated::of(kept).take(ADMIN_TOKEN).map_err(ReconcileError::Randomness)?
    } else {
        Vec::new()
    };
    let (desired, refusal) = match plan(&server, &secrets, &token, &context.settings) {
        Ok(desired) => (desired, None),
        Err(refusal) => (keep(&name), Some(refusal)),
    };
    context.apply(server.as_ref(), desired).await.entirely()?;
    let uid = server.uid().unwrap_or_default();
    let pods = context.pods(&namespace, &labels(NAME, &name));
    let counts = match context.children.typed::<Deployment>(&uid, &child_name(&name)) {
        Some(deployment) => Some(Counts::from(&deployment).with_notices(&context, None, &pods).await),
        None => None,
    };
    let mut health = health::of_resource(refusal.as_ref(), counts.as_ref(), &pods, build::CONTAINER);
    let mut again = match health.state {
        State::Starting => Action::requeue(notices::AGAIN),
        _ => Action::await_change(),
    };
    if health.state == State::NotAnswering && bridged {
        health = program::explain(&client, &token, &pods, health).await;
        again = Action::requeue(program::AGAIN);
    }
    let found =
        status::Found { group, refusal: refusal.as_ref(), counts: counts.unwrap_or_default(), health };
    let status = status::of(&server, &found, &context.settings.cluster_domain);
    let before = server.status.as_ref().map_or(&[][..], |status| &status.conditions);
    report(&context, server.as_ref(), before, &status.conditions, &status).await?;
    Ok(again)
}

/// What should exist, or why that cannot be told.
fn plan(
    server: &MCPServer,
    secrets: &Secrets,
    token: &[u8],
    settings: &Settings,
) -> Result<Desired, Refusal> {
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    if let Some(missing) = secrets.missing(namespace, &secret_references(server)) {
        return Err(Refusal::SecretNotFound(missing));
    }
    Ok(build::build(&validate::validate(server, secrets)?, token, &settings.bridge_image)?)
}

fn keep(name: &str) -> Desired {
    let keep = vec![
        (ChildKind::Secret, secret_name(name)),
        (ChildKind::Deployment, child_name(name)),
        (ChildKind::Service, child_name(name)),
    ];
    Desired { children: Vec::new(), keep }
}
