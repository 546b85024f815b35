//! Reconciles an MCPOIDCConfig: dereference -> validate -> status.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use vmcp_crds::MCPOIDCConfig;

use super::certificates::{OidcCertificates, certificates, config_map_of};
use super::status;
use super::validate::validate;
use crate::runtime::{CallError, Context, Triggers, report, run_controller};

/// Reconciles MCPOIDCConfigs until the process is to end.
pub(crate) fn controller(context: &Arc<Context>) -> BoxFuture<'static, ()> {
    let triggers = Triggers::new(context, &context.resources.oidc_configs).on(
        &context.resources.config_maps,
        |change, context| {
            let (namespace, map) = (change.object.namespace().unwrap_or_default(), change.object.name_any());
            let mut configs = context.resources.oidc_configs.list(&namespace);
            configs.retain(|config| config_map_of(config) == Some(map.as_str()));
            configs.iter().map(|config| (namespace.clone(), config.name_any())).collect::<Vec<_>>()
        },
    );
    run_controller(triggers, reconcile).boxed()
}

async fn reconcile(config: Arc<MCPOIDCConfig>, context: Arc<Context>) -> Result<Action, CallError> {
    let validated = match certificates(&context, &config).await? {
        OidcCertificates::Unusable(message) => validate(&config.spec).and(Err(message)),
        OidcCertificates::OfTheSystem | OidcCertificates::Found(_) => validate(&config.spec),
    };
    let status = status::compute(&config, validated);
    let before = config.status.as_ref().map_or(&[][..], |status| &status.conditions);
    report(&context, config.as_ref(), before, &status.conditions, &status).await?;
    Ok(Action::await_change())
}
