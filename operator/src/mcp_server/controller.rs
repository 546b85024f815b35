//! Reconciles an MCPServer: dereference -> validate -> build -> apply -> observe -> status.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use vmcp_crds::fields::references::SecretKeyReference;
use vmcp_crds::lower::PolicyCheck;
use vmcp_crds::{Invalid, MCPServer};

use super::bridge_report;
use super::build::{CONTAINER, build};
use super::dereference::{
    GuardReferences, References, dereference, has_bridge, mounted_classes, secret_references,
    uses_auth_config,
};
use super::guards;
use super::image_program::{ImageProgramState, ImagePrograms, follows_tag};
use super::names::{WORKLOAD_NAME, child_name, config_map_name, secret_name};
use super::network_policy::without_removed_callers;
use super::permission_profile::config_map_of;
use super::status::{self, ObservedMCPServer};
use super::validate::validate;
use crate::references::{self, adder};
use crate::registry::FAILURE_TTL;
use crate::runtime::{
    BuildSettings, Change, Child, ChildKind, Context, Desired, Triggers, WatchedResource, report,
    run_controller, unchecked, unfollowed, workload_labels,
};
use crate::workload::admin_poller::AdminPoller;
use crate::workload::cluster_events;
use crate::workload::health::{PodCounts, WorkloadState, resource_health};
use crate::workload::spec_refusal::SpecRefusal;
use crate::workload::{ReconcileError, of_deployment, workload_of_pod};

/// The interval at which the registry is asked whether a tag moved.
const TAG_INTERVAL: Duration = Duration::from_hours(1);

/// Reconciles MCPServers until the process is to end.
pub(crate) fn controller(context: &Arc<Context>) -> BoxFuture<'static, ()> {
    let all = &context.resources;
    let triggers = Triggers::new(context, &all.mcp_servers)
        .on(&all.pods, |change, _| workload_of_pod(change, WORKLOAD_NAME))
        .on(&all.mcp_groups, |change, context| {
            let servers = &context.resources.mcp_servers;
            references::members_of(change, servers, |server| server.spec.group_ref.as_ref())
        })
        .on(&all.secrets, |change, context| {
            servers(change, context, |server, name| {
                let of_guards = GuardReferences::from_stores(server, context).secret_references(server);
                let mut wanted = secret_references(server).into_iter().chain(of_guards);
                wanted.any(|reference: SecretKeyReference| reference.name == name)
            })
        })
        .on(&all.config_maps, |change, context| {
            servers(change, context, |server, name| {
                config_map_of(server) == Some(name)
                    || GuardReferences::from_stores(server, context).uses_config_map(server, name)
            })
        })
        .on(&all.oidc_configs, |change, context| {
            servers(change, context, |server, name| {
                server.spec.oidc_config_ref.as_ref().is_some_and(|reference| reference.name == name)
            })
        })
        .on(&all.authz_configs, |change, context| {
            servers(change, context, |server, name| {
                server.spec.authz_config_ref.as_ref().is_some_and(|reference| reference.name == name)
            })
        })
        .on(&all.telemetry_configs, |change, context| {
            servers(change, context, |server, name| {
                server.spec.telemetry_config_ref.as_ref().is_some_and(|reference| reference.name == name)
            })
        })
        .on(&all.external_auth_configs, |change, context| servers(change, context, uses_auth_config))
        .on(&all.virtual_mcp_servers, |change, context| {
            servers(change, context, |server, name| change.substantial && adder(server) == Some(name))
        })
        .on(&all.reference_grants, |change, context| servers(change, context, |_, _| true));
    let poller = AdminPoller::new();
    let (context, requeue, reports) = (context.clone(), triggers.requeue(), poller.clone());
    let programs = Arc::new(ImagePrograms::new(&context.settings, triggers.requeue()));
    async move {
        let poll = poller.run(&context, &requeue);
        let reconcile = move |server, context| reconcile(server, context, reports.clone(), programs.clone());
        tokio::join!(run_controller(triggers, reconcile), poll);
    }
    .boxed()
}

/// Returns the servers of the changed object's namespace that it concerns.
fn servers<K: WatchedResource>(
    change: &Change<K>,
    context: &Context,
    concerned: impl Fn(&MCPServer, &str) -> bool,
) -> Vec<(String, String)> {
    references::concerned(change, &context.resources.mcp_servers, concerned)
}

async fn reconcile(
    server: Arc<MCPServer>,
    context: Arc<Context>,
    poller: Arc<AdminPoller>,
    programs: Arc<ImagePrograms>,
) -> Result<Action, ReconcileError> {
    let (namespace, name) = (server.namespace().unwrap_or_default(), server.name_any());
    let references = dereference(&server, &context, &programs).await?;
    if matches!(references.image_program, ImageProgramState::Pending) {
        // The answer of the registry reconciles the server; until then everything stays as it is.
        return Ok(Action::await_change());
    }
    let planned = |policies: PolicyCheck<'_>| plan(&server, &references, policies, &context.settings);
    let (desired, refusal) = match context.policies.settle(planned).await {
        Ok(desired) => (desired, None),
        Err(refusal) => (keep(&server, &references, &context), Some(refusal)),
    };
    context.apply(server.as_ref(), desired).await.entirely()?;
    let uid = server.uid().unwrap_or_default();
    let pods = context.pods(&namespace, &workload_labels(WORKLOAD_NAME, &name));
    let pods = of_deployment(pods, &child_name(&name));
    let counts = match context.children.typed::<Deployment>(&uid, &child_name(&name)) {
        Some(deployment) => {
            let counts = PodCounts::from(&deployment).with_existing(&pods);
            Some(counts.with_cluster_events(&context, None, &pods).await)
        }
        None => None,
    };
    let mut health = resource_health(refusal.as_ref(), counts.as_ref(), &pods, CONTAINER);
    let again = match health.state {
        _ if matches!(references.image_program, ImageProgramState::Failed(_)) => Action::requeue(FAILURE_TTL),
        WorkloadState::Starting if cluster_events::need_polls(&pods) => {
            Action::requeue(cluster_events::POLL_INTERVAL)
        }
        // No watch tells of rotated keys of the cluster.
        _ if references.guards.takes_cluster_keys() => Action::requeue(context.settings.resync_interval),
        _ if follows_tag(&server) => Action::requeue(TAG_INTERVAL),
        _ => Action::await_change(),
    };
    // The container of a bridge runs whatever its program does: only the bridge itself knows why nothing
    // answers.
    if health.state == WorkloadState::NotAnswering && has_bridge(&server) {
        health = bridge_report::explain(&poller, &server, &references.bridge_token, &pods, health);
    } else {
        bridge_report::stop(&poller, &server);
    }
    let (wanted, classes) = (secret_references(&server), mounted_classes(&server));
    let observed = ObservedMCPServer {
        awaited_secrets: references.secrets.awaited(&namespace, &wanted, &classes),
        group_exists: references.group_exists,
        permission_profile: &references.permission_profile,
        refusal: refusal.as_ref(),
        counts: counts.unwrap_or_default(),
        health,
    };
    let status = status::compute(&server, &observed, &context.settings.cluster_domain);
    let before = server.status.as_ref().map_or(&[][..], |status| &status.conditions);
    report(&context, server.as_ref(), before, &status.conditions, &status).await?;
    Ok(again)
}

/// Returns the children that should exist, or why the resource cannot run as it is written.
pub(super) fn plan(
    server: &MCPServer,
    references: &References,
    policies: PolicyCheck<'_>,
    settings: &BuildSettings,
) -> Result<Desired, SpecRefusal> {
    let unfollowed = unfollowed(server);
    if !unfollowed.is_empty() {
        return Err(SpecRefusal::Invalid(Invalid(unfollowed)));
    }
    if let Some(problem) = unchecked("MCPServer", &server.spec, settings) {
        return Err(SpecRefusal::Invalid(Invalid(vec![problem])));
    }
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    // Pods that mount a SecretProviderClass may bring the Secret: its driver makes the Secret for them.
    if mounted_classes(server).is_empty()
        && let Some(missing) = references.secrets.missing(namespace, &secret_references(server))
    {
        return Err(SpecRefusal::SecretNotFound(missing));
    }
    if let Some(refusal) = references.image_program.refusal(&server.spec.image) {
        return Err(refusal);
    }
    let guards = guards::validate(server, references, policies, settings)?;
    let valid = validate(server, references, guards)?;
    Ok(build(&valid, references, settings)?)
}

/// Leaves all children as they are, but for removed callers: pods of the previous version serve on while the
/// resource is refused.
fn keep(server: &MCPServer, references: &References, context: &Context) -> Desired {
    let name = server.name_any();
    let keep = vec![
        (ChildKind::Secret, secret_name(&name)),
        (ChildKind::ConfigMap, config_map_name(&name)),
        (ChildKind::Deployment, child_name(&name)),
        (ChildKind::Service, child_name(&name)),
        (ChildKind::NetworkPolicy, child_name(&name)),
    ];
    let policy = without_removed_callers(context, server, &references.granted_namespaces);
    Desired { children: policy.iter().map(Child::from_object).collect(), keep }
}
