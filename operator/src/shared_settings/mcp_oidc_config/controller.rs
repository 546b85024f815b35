//! Reconciles an MCPOIDCConfig: dereference -> validate -> status.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use vmcp_crds::MCPOIDCConfig;
use vmcp_crds::fields::references::SecretKeyReference;

use super::status;
use super::validate::validate;
use super::{CA_BUNDLE_PATH, ca_bundle_of};
use crate::references::{self, CaBundle, ReferencedSecrets};
use crate::runtime::{CallError, Context, Triggers, report, run_controller, unchecked};

/// Reconciles MCPOIDCConfigs until the process is to end.
pub(crate) fn controller(context: &Arc<Context>) -> BoxFuture<'static, ()> {
    let all = &context.resources;
    let triggers = Triggers::new(context, &all.oidc_configs)
        .on(&all.config_maps, |change, context| {
            references::users_of_config_map(change, &context.resources.oidc_configs, ca_bundle_of)
        })
        .on(&all.secrets, |change, context| {
            references::users_of(change, &context.resources.oidc_configs, secret_references)
        });
    run_controller(triggers, reconcile).boxed()
}

async fn reconcile(config: Arc<MCPOIDCConfig>, context: Arc<Context>) -> Result<Action, CallError> {
    let namespace = config.namespace().unwrap_or_default();
    let reference = ca_bundle_of(&config);
    let wanted = secret_references(&config);
    let secrets = ReferencedSecrets::read(&context, &namespace, &wanted).await?;
    let unusable = match CaBundle::read(&context, &namespace, reference, CA_BUNDLE_PATH).await? {
        CaBundle::Unusable(message) => Some(message),
        CaBundle::OfTheSystem | CaBundle::Found(_) => secrets.missing(&namespace, &wanted),
    };
    let cluster = context.cluster_issuer(config.spec.takes_cluster_keys()).await;
    let unusable = unusable.or_else(|| cluster.fault().map(str::to_owned));
    let unchecked = unchecked("MCPOIDCConfig", &config.spec, &context.settings);
    let unusable = unchecked.map(|problem| problem.to_string()).or(unusable);
    let validated = validate(&config.spec).and(unusable.map_or(Ok(()), Err));
    let status = status::compute(&config, validated);
    let before = config.status.as_ref().map_or(&[][..], |status| &status.conditions);
    report(&context, config.as_ref(), before, &status.conditions, &status).await?;
    // No change tells of the API server's answer.
    let again = cluster.fault().map(|_| Action::requeue(context.settings.resync_interval));
    Ok(again.unwrap_or_else(Action::await_change))
}

/// Returns the Secrets that the settings refer to.
fn secret_references(config: &MCPOIDCConfig) -> Vec<SecretKeyReference> {
    config.spec.secret_reference().cloned().into_iter().collect()
}
