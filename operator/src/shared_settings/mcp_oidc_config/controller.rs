//! Reconciles an MCPOIDCConfig: dereference -> validate -> status.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use vmcp_crds::MCPOIDCConfig;

use super::status;
use super::validate::validate;
use super::{CA_BUNDLE_PATH, ca_bundle_of};
use crate::references::{self, CaBundle};
use crate::runtime::{CallError, Context, Triggers, report, run_controller};

/// Reconciles MCPOIDCConfigs until the process is to end.
pub(crate) fn controller(context: &Arc<Context>) -> BoxFuture<'static, ()> {
    let triggers = Triggers::new(context, &context.resources.oidc_configs).on(
        &context.resources.config_maps,
        |change, context| {
            references::users_of_config_map(change, &context.resources.oidc_configs, ca_bundle_of)
        },
    );
    run_controller(triggers, reconcile).boxed()
}

async fn reconcile(config: Arc<MCPOIDCConfig>, context: Arc<Context>) -> Result<Action, CallError> {
    let namespace = config.namespace().unwrap_or_default();
    let reference = ca_bundle_of(&config);
    let validated = match CaBundle::read(&context, &namespace, reference, CA_BUNDLE_PATH).await? {
        CaBundle::Unusable(message) => validate(&config.spec).and(Err(message)),
        CaBundle::OfTheSystem | CaBundle::Found(_) => validate(&config.spec),
    };
    let status = status::compute(&config, validated);
    let before = config.status.as_ref().map_or(&[][..], |status| &status.conditions);
    report(&context, config.as_ref(), before, &status.conditions, &status).await?;
    Ok(Action::await_change())
}
