//! Reconciles a VirtualMCPCompositeToolDefinition: list the servers that refer to it -> status.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use vmcp_crds::{VirtualMCPCompositeToolDefinition, VirtualMCPServer};

use super::status;
use crate::runtime::{CallError, Change, Context, Triggers, report, run_controller};

/// Reconciles VirtualMCPCompositeToolDefinitions until the process is to end.
pub(crate) fn controller(context: &Arc<Context>) -> BoxFuture<'static, ()> {
    let all = &context.resources;
    let triggers = Triggers::new(context, &all.composite_tool_definitions)
        .on(&all.virtual_mcp_servers, definitions_of_namespace);
    run_controller(triggers, reconcile).boxed()
}

/// Returns all definitions of a server's namespace, because the server's earlier references are unknown.
/// After a change of its status alone, returns the definitions that it refers to.
fn definitions_of_namespace(change: &Change<VirtualMCPServer>, context: &Context) -> Vec<(String, String)> {
    let namespace = change.object.namespace().unwrap_or_default();
    if !change.substantial {
        let config = change.object.well_formed().and_then(|server| server.spec.config.as_ref());
        let references = config.iter().flat_map(|config| &config.composite_tool_refs);
        return references.map(|reference| (namespace.clone(), reference.name.clone())).collect();
    }
    let definitions = context.resources.composite_tool_definitions.list(&namespace);
    definitions.into_iter().map(|definition| (namespace.clone(), definition.name_any())).collect()
}

async fn reconcile(
    definition: Arc<VirtualMCPCompositeToolDefinition>,
    context: Arc<Context>,
) -> Result<Action, CallError> {
    let servers = context.resources.virtual_mcp_servers.list(&definition.namespace().unwrap_or_default());
    let status = status::compute(&definition, &servers);
    let before = definition.status.as_ref().map_or(&[][..], |status| &status.conditions);
    report(&context, definition.as_ref(), before, &status.conditions, &status).await?;
    Ok(Action::await_change())
}
