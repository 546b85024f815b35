//! MCPGroup: who belongs to it, written into its status. It has no children.

mod status;

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use vmcp_crds::MCPGroup;

use crate::report::report;
use crate::runtime::{CallError, Change, Context, Triggers, Watched, run_controller};

/// Reconciles MCPGroups until the process is to end.
pub fn controller(context: &Arc<Context>) -> BoxFuture<'static, ()> {
    let all = &context.resources;
    let triggers = Triggers::new(context, &all.mcp_groups)
        .on(&all.mcp_servers, beside)
        .on(&all.mcp_server_entries, beside);
    run_controller(triggers, reconcile).boxed()
}

/// The groups next to a possible member. All of them: which one it left is not known any more.
fn beside<Member: Watched>(change: &Change<Member>, context: &Context) -> Vec<(String, String)> {
    if !change.substantial {
        return Vec::new();
    }
    let namespace = change.object.namespace().unwrap_or_default();
    let groups = context.resources.mcp_groups.list(&namespace);
    groups.into_iter().map(|group| (namespace.clone(), group.name_any())).collect()
}

async fn reconcile(group: Arc<MCPGroup>, context: Arc<Context>) -> Result<Action, CallError> {
    let namespace = group.namespace().unwrap_or_default();
    let servers = context.resources.mcp_servers.list(&namespace);
    let entries = context.resources.mcp_server_entries.list(&namespace);
    let status = status::of(&group, &servers, &entries);
    let before = group.status.as_ref().map_or(&[][..], |status| &status.conditions);
    report(&context, group.as_ref(), before, &status.conditions, &status).await?;
    Ok(Action::await_change())
}
