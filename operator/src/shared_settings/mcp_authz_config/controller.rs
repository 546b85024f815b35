//! Reconciles an MCPAuthzConfig: validate -> status.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::runtime::controller::Action;
use vmcp_crds::MCPAuthzConfig;

use super::status;
use super::validate::validate;
use crate::runtime::{CallError, Context, Triggers, report, run_controller};

/// Reconciles MCPAuthzConfigs until the process is to end.
pub(crate) fn controller(context: &Arc<Context>) -> BoxFuture<'static, ()> {
    let triggers = Triggers::new(context, &context.resources.authz_configs);
    run_controller(triggers, reconcile).boxed()
}

async fn reconcile(config: Arc<MCPAuthzConfig>, context: Arc<Context>) -> Result<Action, CallError> {
    let validated = context.policies.settle(|policies| validate(&config, policies)).await;
    // A check that failed may succeed later.
    let again = validated.is_err();
    let status = status::compute(&config, validated);
    let before = config.status.as_ref().map_or(&[][..], |status| &status.conditions);
    report(&context, config.as_ref(), before, &status.conditions, &status).await?;
    Ok(if again { Action::requeue(context.settings.resync_interval) } else { Action::await_change() })
}
