//! Reconciles an MCPWebhookConfig: dereference -> validate -> list the servers that refer to it -> status.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use vmcp_crds::MCPWebhookConfig;
use vmcp_crds::fields::references::SecretKeyReference;

use super::status;
use super::validate::validate;
use crate::references::{self, ReferencedSecrets};
use crate::runtime::{CallError, Change, Context, CustomResource, Triggers, report, run_controller};

/// Reconciles MCPWebhookConfigs until the process is to end.
pub(crate) fn controller(context: &Arc<Context>) -> BoxFuture<'static, ()> {
    let all = &context.resources;
    let triggers = Triggers::new(context, &all.webhook_configs)
        .on(&all.secrets, |change, context| {
            references::users_of(change, &context.resources.webhook_configs, secret_references)
        })
        .on(&all.mcp_servers, configs_of_namespace)
        .on(&all.virtual_mcp_servers, configs_of_namespace);
    run_controller(triggers, reconcile).boxed()
}

/// Returns all configurations of a server's namespace, because the server's earlier reference is unknown.
fn configs_of_namespace<K: CustomResource>(change: &Change<K>, context: &Context) -> Vec<(String, String)> {
    references::concerned(change, &context.resources.webhook_configs, |_, _| change.substantial)
}

async fn reconcile(config: Arc<MCPWebhookConfig>, context: Arc<Context>) -> Result<Action, CallError> {
    let namespace = config.namespace().unwrap_or_default();
    let secrets = ReferencedSecrets::read(&context, &namespace, &secret_references(&config)).await?;
    let validated = validate(&config.spec, &namespace, &secrets, &context.settings);
    let servers = context.resources.mcp_servers.list(&namespace);
    let virtual_servers = context.resources.virtual_mcp_servers.list(&namespace);
    let referenced_by = status::referencing_resources(
        &config.name_any(),
        servers.iter().map(AsRef::as_ref),
        virtual_servers.iter().map(AsRef::as_ref),
    );
    let status = status::compute(&config, validated, referenced_by);
    let before = config.status.as_ref().map_or(&[][..], |status| &status.conditions);
    report(&context, config.as_ref(), before, &status.conditions, &status).await?;
    Ok(Action::await_change())
}

/// Returns the Secrets that the settings refer to.
fn secret_references(config: &MCPWebhookConfig) -> Vec<SecretKeyReference> {
    config.spec.secret_references()
}
