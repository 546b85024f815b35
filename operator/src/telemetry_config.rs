//! MCPTelemetryConfig: whether it can be used. It has no children.

mod judge;

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use vmcp_crds::{MCPTelemetryConfig, MCPTelemetryConfigStatus};

use self::judge::{judge, secret_references};
use crate::references::{self, Secrets};
use crate::report::report;
use crate::runtime::{CallError, Conditions, Context, Triggers, run_controller};

/// Reconciles MCPTelemetryConfigs until the process is to end.
pub fn controller(context: &Arc<Context>) -> BoxFuture<'static, ()> {
    let all = &context.resources;
    let triggers = Triggers::new(context, &all.telemetry_configs).on(&all.secrets, |change, context| {
        references::users_of(change, &context.resources.telemetry_configs, secret_references)
    });
    run_controller(triggers, reconcile).boxed()
}

async fn reconcile(config: Arc<MCPTelemetryConfig>, context: Arc<Context>) -> Result<Action, CallError> {
    let namespace = config.namespace().unwrap_or_default();
    let secrets = Secrets::read(&context, &namespace, &secret_references(&config)).await?;
    let before = config.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let generation = config.metadata.generation.unwrap_or_default();
    let mut conditions = Conditions::new(before, generation);
    match judge(&config, &secrets) {
        Ok(()) => conditions.set("Valid", true, "ConfigValid", "it makes sense, and its Secrets are there"),
        Err((reason, message)) => conditions.set("Valid", false, reason, message),
    }
    let status =
        MCPTelemetryConfigStatus { observed_generation: Some(generation), conditions: conditions.finish() };
    report(&context, config.as_ref(), before, &status.conditions, &status).await?;
    Ok(Action::await_change())
}
