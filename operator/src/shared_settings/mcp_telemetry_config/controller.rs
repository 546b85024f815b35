//! Reconciles an MCPTelemetryConfig: dereference -> validate -> status.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use vmcp_crds::MCPTelemetryConfig;

use super::dereference::{dereference, secret_references};
use super::status;
use super::validate::validate;
use super::{CA_BUNDLE_PATH, ca_bundle_of};
use crate::references::{self, CaBundle};
use crate::runtime::{CallError, Context, Triggers, report, run_controller};

/// Reconciles MCPTelemetryConfigs until the process is to end.
pub(crate) fn controller(context: &Arc<Context>) -> BoxFuture<'static, ()> {
    let all = &context.resources;
    let triggers = Triggers::new(context, &all.telemetry_configs)
        .on(&all.secrets, |change, context| {
            references::users_of(change, &context.resources.telemetry_configs, secret_references)
        })
        .on(&all.config_maps, |change, context| {
            references::users_of_config_map(change, &context.resources.telemetry_configs, ca_bundle_of)
        });
    run_controller(triggers, reconcile).boxed()
}

async fn reconcile(config: Arc<MCPTelemetryConfig>, context: Arc<Context>) -> Result<Action, CallError> {
    let secrets = dereference(&config, &context).await?;
    let namespace = config.namespace().unwrap_or_default();
    let certificates = CaBundle::read(&context, &namespace, ca_bundle_of(&config), CA_BUNDLE_PATH).await?;
    let validated = validate(&config, &secrets, &certificates, &context.settings);
    let status = status::compute(&config, validated);
    let before = config.status.as_ref().map_or(&[][..], |status| &status.conditions);
    report(&context, config.as_ref(), before, &status.conditions, &status).await?;
    Ok(Action::await_change())
}
