//! Reconciles an MCPGroup: list the members -> status.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use vmcp_crds::MCPGroup;

use super::status;
use crate::references::concerned;
use crate::runtime::{CallError, Change, Context, Triggers, WatchedResource, report, run_controller};

/// Reconciles MCPGroups until the process is to end.
pub(crate) fn controller(context: &Arc<Context>) -> BoxFuture<'static, ()> {
    let all = &context.resources;
    let triggers = Triggers::new(context, &all.mcp_groups)
        .on(&all.mcp_servers, groups_of_namespace)
        .on(&all.mcp_server_entries, groups_of_namespace)
        .on(&all.mcp_remote_proxies, groups_of_namespace);
    run_controller(triggers, reconcile).boxed()
}

/// Returns all groups of the namespace of a possible member: the group that it left is not known any more.
fn groups_of_namespace<Member: WatchedResource>(
    change: &Change<Member>,
    context: &Context,
) -> Vec<(String, String)> {
    concerned(change, &context.resources.mcp_groups, |_, _| change.substantial)
}

async fn reconcile(group: Arc<MCPGroup>, context: Arc<Context>) -> Result<Action, CallError> {
    let namespace = group.namespace().unwrap_or_default();
    let servers = context.resources.mcp_servers.list(&namespace);
    let entries = context.resources.mcp_server_entries.list(&namespace);
    let proxies = context.resources.mcp_remote_proxies.list(&namespace);
    let status = status::compute(&group, &servers, &entries, &proxies);
    let before = group.status.as_ref().map_or(&[][..], |status| &status.conditions);
    report(&context, group.as_ref(), before, &status.conditions, &status).await?;
    Ok(Action::await_change())
}
