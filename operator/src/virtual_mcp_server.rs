//! VirtualMCPServer: a Deployment of `vmcp`, what it mounts, how it is reached, and how it is.

mod build;
mod dereference;
mod last_good;
mod names;
mod observe;
mod status;
#[cfg(test)]
mod testing;
mod touch;
mod validate;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use vmcp_crds::VirtualMCPServer;

use self::build::build;
use self::dereference::{DereferenceError, dereference, embedding_server_of, group_of, refers_to_secret};
use self::last_good::LastGood;
use self::observe::Observer;
use self::status::Seen;
use self::touch::touch;
use self::validate::validate;
use crate::report::report;
use crate::runtime::{
    Applied, ApplyError, CallError, Change, Context, Failure, Retry, Triggers, Watched, run_controller,
};
use crate::workload::health::Counts;
use crate::workload::owner_of;

/// How often pods are asked how they are: no watch tells.
const AT_REST: Duration = Duration::from_secs(10);
/// The same while something is about to change.
const IN_FLUX: Duration = Duration::from_millis(1500);

/// Why a server could not be reconciled.
#[derive(Debug, thiserror::Error)]
enum ReconcileError {
    #[error(transparent)]
    Dereference(#[from] DereferenceError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error(transparent)]
    Call(#[from] CallError),
}

impl Failure for ReconcileError {
    fn category(&self) -> &'static str {
        match self {
            Self::Dereference(DereferenceError::Call(call)) | Self::Call(call) => call.category(),
            Self::Dereference(DereferenceError::Randomness(_)) => "NoRandomness",
            Self::Apply(apply) => apply.category(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Dereference(DereferenceError::Call(call)) | Self::Call(call) => call.retry(),
            Self::Dereference(DereferenceError::Randomness(_)) => Retry::Backoff,
            Self::Apply(apply) => apply.retry(),
        }
    }

    fn is_told(&self) -> bool {
        matches!(self, Self::Apply(apply) if apply.needs_somebody())
    }
}

/// The controller.
pub fn controller(context: &Arc<Context>) -> BoxFuture<'static, ()> {
    let memory = Arc::new(Memory { observer: Observer::new(), last_good: LastGood::default() });
    let reconcile = move |server, context| reconcile(server, context, memory.clone());
    run_controller(triggers(context), reconcile).boxed()
}

/// What makes it look at a server besides the server and its children.
fn triggers(context: &Arc<Context>) -> Triggers<VirtualMCPServer> {
    let all = &context.resources;
    Triggers::new(context, &all.virtual_mcp_servers)
        .on(&all.pods, |change, _| owner_of(change, names::NAME))
        .on(&all.mcp_groups, |change, context| {
            servers(change, context, |server, name| group_of(server) == Some(name))
        })
        // A backend that left a group concerns servers that it names no more.
        .on(&all.mcp_servers, |change, context| servers(change, context, |_, _| true))
        .on(&all.mcp_server_entries, |change, context| servers(change, context, |_, _| true))
        .on(&all.embedding_servers, |change, context| {
            servers(change, context, |server, name| embedding_server_of(server) == name)
        })
        .on(&all.telemetry_configs, |change, context| {
            servers(change, context, |server, name| {
                server.spec.telemetry_config_ref.as_ref().is_some_and(|reference| reference.name == name)
            })
        })
        .on(&all.secrets, |change, context| {
            servers(change, context, |server, name| refers_to_secret(server, context, name))
        })
}

/// The servers of the changed object's namespace that are concerned by it.
fn servers<K: Watched>(
    change: &Change<K>,
    context: &Context,
    concerned: impl Fn(&VirtualMCPServer, &str) -> bool,
) -> Vec<(String, String)> {
    let namespace = change.object.namespace().unwrap_or_default();
    let name = change.object.name_any();
    let mut servers = context.resources.virtual_mcp_servers.list(&namespace);
    servers.retain(|server| concerned(server, &name));
    servers.iter().map(|server| (namespace.clone(), server.name_any())).collect()
}

/// What is known from one reconcile to the next.
struct Memory {
    observer: Observer,
    last_good: LastGood,
}

async fn reconcile(
    server: Arc<VirtualMCPServer>,
    context: Arc<Context>,
    memory: Arc<Memory>,
) -> Result<Action, ReconcileError> {
    let Memory { observer, last_good } = memory.as_ref();
    let references = dereference(&server, &context, last_good).await?;
    let plan = validate(&server, &references, &context.settings);
    let before = plan.configuration.as_ref().err().and(references.mounted.as_ref());
    last_good.remember(&server, before, &context);
    let mut applied = match &plan.server {
        Ok(valid) => {
            let desired = build(valid, &plan, &references, &context.settings);
            context.apply(server.as_ref(), desired).await
        }
        Err(_) => Applied::default(),
    };
    // What lasts is told with everything else; what does not is soon over.
    if let Some(error) = applied.failed.take_if(|error| !error.needs_somebody()) {
        return Err(error.into());
    }
    let (uid, name) = (server.uid().unwrap_or_default(), server.name_any());
    let pods = context.pods(&server.namespace().unwrap_or_default(), &names::selector(&name));
    let deployment = context.children.typed::<Deployment>(&uid, &name);
    let counts = match &deployment {
        Some(deployment) => Some(Counts::from(deployment).with_notices(&context, None, &pods).await),
        None => None,
    };
    let pods = observer.observe(pods, &references.generated.admin_token, &context.metrics).await;
    touch(&server, &plan, &applied, &pods, &context).await?;

    let seen = Seen {
        server: &server,
        plan: &plan,
        references: &references,
        applied: &applied,
        counts: counts.as_ref(),
        pods: &pods,
        settings: &context.settings,
    };
    let outcome = seen.status();
    let before = server.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    report(&context, server.as_ref(), before, &outcome.status.conditions, &outcome.status).await?;
    applied.entirely()?;
    Ok(Action::requeue(if outcome.in_flux { IN_FLUX } else { AT_REST }))
}
