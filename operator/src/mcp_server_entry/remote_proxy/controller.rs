//! Reconciles an MCPRemoteProxy: dereference -> validate -> status, by the steps of an MCPServerEntry.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::runtime::controller::Action;
use vmcp_crds::MCPRemoteProxy;

use super::status;
use crate::mcp_server_entry::{added_address, dereference, secret_references, validate};
use crate::references::{self, adder};
use crate::runtime::{CallError, Context, Triggers, report, run_controller, unchecked};

/// Reconciles MCPRemoteProxies until the process is to end.
pub(crate) fn controller(context: &Arc<Context>) -> BoxFuture<'static, ()> {
    let all = &context.resources;
    let triggers = Triggers::new(context, &all.mcp_remote_proxies)
        .on(&all.mcp_groups, |change, context| {
            let proxies = &context.resources.mcp_remote_proxies;
            references::members_of(change, proxies, |proxy: &MCPRemoteProxy| {
                proxy.spec.remote.group_ref.as_ref()
            })
        })
        .on(&all.secrets, |change, context| {
            references::users_of(change, &context.resources.mcp_remote_proxies, |proxy: &MCPRemoteProxy| {
                secret_references(&proxy.as_entry())
            })
        })
        .on(&all.config_maps, |change, context| {
            let proxies = &context.resources.mcp_remote_proxies;
            references::users_of_config_map(change, proxies, |proxy: &MCPRemoteProxy| {
                proxy.spec.remote.ca_bundle_ref.as_ref()
            })
        })
        .on(&all.virtual_mcp_servers, |change, context| {
            let proxies = &context.resources.mcp_remote_proxies;
            references::concerned(change, proxies, |proxy: &MCPRemoteProxy, name| {
                change.substantial && adder(proxy) == Some(name)
            })
        });
    run_controller(triggers, reconcile).boxed()
}

async fn reconcile(proxy: Arc<MCPRemoteProxy>, context: Arc<Context>) -> Result<Action, CallError> {
    let entry = proxy.as_entry();
    let references = dereference(&entry, &context).await?;
    let mut validated = validate(&entry, &references.secrets, &references.ca_bundle);
    validated.header_problems.extend(unchecked("MCPRemoteProxy", &entry.spec, &context.settings));
    validated.address_problems.extend(added_address::problem_in(&entry, &context));
    let status = status::compute(&proxy, &validated, references.group_exists);
    let before = proxy.status.as_ref().map_or(&[][..], |status| &status.conditions);
    report(&context, proxy.as_ref(), before, &status.conditions, &status).await?;
    Ok(Action::await_change())
}
