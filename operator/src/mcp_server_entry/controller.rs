//! Reconciles an MCPServerEntry: dereference -> validate -> status.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::runtime::controller::Action;
use vmcp_crds::MCPServerEntry;

use super::added_address;
use super::dereference::{dereference, secret_references};
use super::status;
use super::validate::validate;
use crate::references::{self, adder};
use crate::runtime::{CallError, Context, Triggers, report, run_controller, unchecked};

/// Reconciles MCPServerEntries until the process is to end.
pub(crate) fn controller(context: &Arc<Context>) -> BoxFuture<'static, ()> {
    let all = &context.resources;
    let triggers = Triggers::new(context, &all.mcp_server_entries)
        .on(&all.mcp_groups, |change, context| {
            let entries = &context.resources.mcp_server_entries;
            references::members_of(change, entries, |entry| entry.spec.group_ref.as_ref())
        })
        .on(&all.secrets, |change, context| {
            references::users_of(change, &context.resources.mcp_server_entries, secret_references)
        })
        .on(&all.config_maps, |change, context| {
            let entries = &context.resources.mcp_server_entries;
            references::users_of_config_map(change, entries, |entry| entry.spec.ca_bundle_ref.as_ref())
        })
        .on(&all.virtual_mcp_servers, |change, context| {
            references::concerned(change, &context.resources.mcp_server_entries, |entry, name| {
                change.substantial && adder(entry) == Some(name)
            })
        });
    run_controller(triggers, reconcile).boxed()
}

async fn reconcile(entry: Arc<MCPServerEntry>, context: Arc<Context>) -> Result<Action, CallError> {
    let references = dereference(&entry, &context).await?;
    let mut validated = validate(&entry, &references.secrets, &references.ca_bundle);
    validated.header_problems.extend(unchecked("MCPServerEntry", &entry.spec, &context.settings));
    validated.address_problems.extend(added_address::problem_in(&entry, &context));
    let status = status::compute(&entry, &validated, references.group_exists);
    let before = entry.status.as_ref().map_or(&[][..], |status| &status.conditions);
    report(&context, entry.as_ref(), before, &status.conditions, &status).await?;
    Ok(Action::await_change())
}
