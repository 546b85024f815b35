//! Reconciles an MCPExternalAuthConfig: dereference -> validate -> status.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use vmcp_crds::MCPExternalAuthConfig;

use super::status;
use super::validate::validate;
use crate::references::{self, ReferencedSecrets};
use crate::runtime::{CallError, Context, Triggers, report, run_controller};

/// Reconciles MCPExternalAuthConfigs until the process is to end.
pub(crate) fn controller(context: &Arc<Context>) -> BoxFuture<'static, ()> {
    let all = &context.resources;
    let triggers = Triggers::new(context, &all.external_auth_configs).on(&all.secrets, |change, context| {
        let configs = &context.resources.external_auth_configs;
        references::users_of(change, configs, |config: &MCPExternalAuthConfig| {
            config.spec.secret_references()
        })
    });
    run_controller(triggers, reconcile).boxed()
}

async fn reconcile(config: Arc<MCPExternalAuthConfig>, context: Arc<Context>) -> Result<Action, CallError> {
    let namespace = config.namespace().unwrap_or_default();
    let secrets = ReferencedSecrets::read(&context, &namespace, &config.spec.secret_references()).await?;
    let validated = validate(&config, &secrets, &context.settings);
    let status = status::compute(&config, validated);
    let before = config.status.as_ref().map_or(&[][..], |status| &status.conditions);
    report(&context, config.as_ref(), before, &status.conditions, &status).await?;
    Ok(Action::await_change())
}
