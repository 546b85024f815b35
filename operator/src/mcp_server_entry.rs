//! MCPServerEntry: an MCP server that runs elsewhere. It has no children; what is decided here is whether it can be used.

mod endpoint;
mod judge;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use vmcp_crds::MCPServerEntry;

pub use self::judge::{Judged, judge, secret_references};
use crate::references::{self, Secrets};
use crate::report::report;
use crate::runtime::{CallError, Context, Triggers, run_controller};

/// Reconciles MCPServerEntries until the process is to end.
pub fn controller(context: &Arc<Context>) -> BoxFuture<'static, ()> {
    let all = &context.resources;
    let triggers = Triggers::new(context, &all.mcp_server_entries)
        .on(&all.mcp_groups, |change, context| {
            let entries = &context.resources.mcp_server_entries;
            references::members_of(change, entries, |entry| entry.spec.group_ref.as_ref())
        })
        .on(&all.secrets, |change, context| {
            references::users_of(change, &context.resources.mcp_server_entries, secret_references)
        });
    run_controller(triggers, reconcile).boxed()
}

async fn reconcile(entry: Arc<MCPServerEntry>, context: Arc<Context>) -> Result<Action, CallError> {
    let namespace = entry.namespace().unwrap_or_default();
    let secrets = Secrets::read(&context, &namespace, &secret_references(&entry)).await?;
    let group = references::group_exists(&context, &namespace, entry.spec.group_ref.as_ref());
    let status = status::of(&entry, &judge(&entry, &secrets), group);
    let before = entry.status.as_ref().map_or(&[][..], |status| &status.conditions);
    report(&context, entry.as_ref(), before, &status.conditions, &status).await?;
    Ok(Action::await_change())
}
