//! Reconciles a VirtualMCPServer: dereference -> validate -> observe -> build -> apply -> nudge -> status.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use vmcp_config::rules::trusted_tools::MAX_TRUSTED_TOOLS_BYTES;
use vmcp_crds::VirtualMCPServer;
use vmcp_crds::fields::references::LocalReference;
use vmcp_crds::lower::PolicyCheck;
use vmcp_crds::virtual_mcp_server::authz;

use super::build::build;
use super::dereference::{
    References, composite_tool_refs_of, dereference, embedding_server_of, group_elsewhere, group_of,
    oidc_config_of, refers_to_config_map, refers_to_namespace, refers_to_secret,
};
use super::exposure_order::{ConfigurationWrites, CurrentExposure, ExposureOrder, Uptake, order, uptake};
use super::kubelet_nudge::nudge;
use super::last_good::{LastGood, MountedConfiguration};
use super::names;
use super::objects::workload_form::WorkloadForm;
use super::observe::running_workload::RunningWorkload;
use super::observe::trust_memory::TrustMemory;
use super::observe::trusted_tools::{KeptTrust, approval_annotation, join, quarantined};
use super::observe::{ObservedPod, Polls, hasten, observe};
use super::status::{ObservedVirtualMCPServer, is_network_symptom};
use super::validate::{Plan, validate};
use crate::references::{self, MAX_SECRET_BYTES};
use crate::runtime::{
    Applied, Change, ChildKind, Context, Failure, Retry, Triggers, WatchedResource, report, run_controller,
};
use crate::workload::admin_poller::AdminPoller;
use crate::workload::cluster_events;
use crate::workload::network_limits::NetworkLimits;
use crate::workload::{ReconcileError, workload_of_pod};

/// Error of a reconcile. Children that wait for a person stand in the status.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct VirtualReconcileError(ReconcileError);

impl Failure for VirtualReconcileError {
    fn category(&self) -> &'static str {
        self.0.category()
    }

    fn retry(&self) -> Retry {
        self.0.retry()
    }

    fn is_in_status(&self) -> bool {
        matches!(&self.0, ReconcileError::Apply(apply) if apply.needs_person())
    }
}

/// Reconciles VirtualMCPServers until the process is to end.
pub(crate) fn controller(context: &Arc<Context>) -> BoxFuture<'static, ()> {
    let poller = AdminPoller::new();
    let memory = Arc::new(ControllerMemory {
        poller: poller.clone(),
        last_good: LastGood::default(),
        writes: ConfigurationWrites::default(),
        trust: TrustMemory::default(),
    });
    let reconcile = move |server, context| {
        let done = Box::pin(reconcile(server, context, memory.clone()));
        async move { done.await.map_err(VirtualReconcileError) }
    };
    let triggers = triggers(context);
    let (context, requeue) = (context.clone(), triggers.requeue());
    async move {
        let poll = poller.run(&context, &requeue);
        tokio::join!(run_controller(triggers, reconcile), poll);
    }
    .boxed()
}

/// Returns what triggers a reconcile besides the server and its children: its pods, and everything that it
/// refers to.
fn triggers(context: &Arc<Context>) -> Triggers<VirtualMCPServer> {
    let all = &context.resources;
    Triggers::new(context, &all.virtual_mcp_servers)
        .on(&all.pods, |change, _| workload_of_pod(change, names::WORKLOAD_NAME))
        .on(&all.mcp_groups, |change, context| {
            servers(change, context, |server, name| group_of(server) == Some(name))
        })
        .on(&all.mcp_groups, servers_elsewhere)
        .on(&all.reference_grants, servers_elsewhere)
        // Their status too: it changes once the Service exists to which credentials may go.
        .on(&all.mcp_servers, referring_servers)
        .on(&all.mcp_server_entries, servers_elsewhere)
        .on(&all.mcp_remote_proxies, servers_elsewhere)
        .on(&all.tool_configs, servers_elsewhere)
        .on(&all.mcp_servers, |change, context| {
            // The group of a malformed backend cannot be read.
            let backend = change.object.well_formed();
            servers(change, context, |server, name| {
                backend.is_none_or(|backend| has_backend(server, name, backend.spec.group_ref.as_ref()))
            })
        })
        .on(&all.mcp_server_entries, |change, context| {
            let backend = change.object.well_formed();
            servers(change, context, |server, name| {
                backend.is_none_or(|backend| has_backend(server, name, backend.spec.group_ref.as_ref()))
            })
        })
        .on(&all.mcp_remote_proxies, |change, context| {
            let backend = change.object.well_formed();
            servers(change, context, |server, name| {
                backend
                    .is_none_or(|backend| has_backend(server, name, backend.spec.remote.group_ref.as_ref()))
            })
        })
        .on(&all.embedding_servers, |change, context| {
            servers(change, context, |server, name| embedding_server_of(server) == name)
        })
        .on(&all.authz_configs, |change, context| {
            servers(change, context, |server, name| {
                authz::reference(&server.spec.incoming_auth) == Some(name)
            })
        })
        .on(&all.external_auth_configs, |change, context| {
            // Which backends name it takes the stores: a reconcile without a change costs less.
            servers(change, context, |_, _| true)
        })
        .on(&all.tool_configs, |change, context| servers(change, context, |_, _| change.substantial))
        .on(&all.webhook_configs, |change, context| servers(change, context, |_, _| change.substantial))
        .on(&all.composite_tool_definitions, |change, context| {
            servers(change, context, |server, name| {
                change.substantial && composite_tool_refs_of(server).any(|reference| reference == name)
            })
        })
        .on(&all.telemetry_configs, |change, context| {
            servers(change, context, |server, name| {
                server.spec.telemetry_config_ref.as_ref().is_some_and(|reference| reference.name == name)
            })
        })
        .on(&all.oidc_configs, |change, context| {
            servers(change, context, |server, name| oidc_config_of(server) == Some(name))
        })
        .on(&all.secrets, |change, context| {
            servers(change, context, |server, name| refers_to_secret(server, context, name))
        })
        .on(&all.config_maps, |change, context| {
            servers(change, context, |server, name| refers_to_config_map(server, context, name))
        })
}

/// Returns true if the server has this backend, or had it when its status was written: a backend that left
/// the group names it no more.
fn has_backend(server: &VirtualMCPServer, name: &str, group: Option<&LocalReference>) -> bool {
    if group_elsewhere(server).is_some() {
        return false;
    }
    // A server without a group has all backends of the namespace.
    let Some(own) = group_of(server) else { return true };
    let discovered = server.status.iter().flat_map(|status| &status.discovered_backends);
    group.is_some_and(|group| group.name == own)
        // The status leaves some out: this may be one of them.
        || server.status.as_ref().is_some_and(|status| status.omitted_backends.is_some())
        || discovered.into_iter().any(|backend| backend.name == name)
        // Not reconciled since its last edit: the status may lack a backend that the configuration has.
        || server.status.as_ref().and_then(|status| status.observed_generation) != server.metadata.generation
}

/// Returns the servers of the changed object's namespace that it concerns.
fn servers<K: WatchedResource>(
    change: &Change<K>,
    context: &Context,
    concerned: impl Fn(&VirtualMCPServer, &str) -> bool,
) -> Vec<(String, String)> {
    references::concerned(change, &context.resources.virtual_mcp_servers, concerned)
}

/// Returns the servers of other namespaces that refer to the namespace of the changed object.
fn servers_elsewhere<K: WatchedResource>(change: &Change<K>, context: &Context) -> Vec<(String, String)> {
    if change.substantial { referring_servers(change, context) } else { Vec::new() }
}

/// As [`servers_elsewhere`], also for a change of the status alone.
fn referring_servers<K: WatchedResource>(change: &Change<K>, context: &Context) -> Vec<(String, String)> {
    let namespace = change.object.namespace().unwrap_or_default();
    let refers = |server: &VirtualMCPServer| refers_to_namespace(server, &namespace);
    let servers = context.resources.virtual_mcp_servers.select(refers).into_iter();
    servers.map(|server| (server.namespace().unwrap_or_default(), server.name_any())).collect()
}

/// The state that lives from one reconcile to the next.
struct ControllerMemory {
    poller: Arc<AdminPoller>,
    last_good: LastGood,
    writes: ConfigurationWrites,
    trust: TrustMemory,
}

/// The interval after which a server is looked at again whose ConfigMap was written: its exposure may follow.
const MOUNT_INTERVAL: Duration = Duration::from_secs(1);
/// The interval while the exposure waits for reports of pods, or the configuration for a narrower exposure. A
/// report with news, and a change of a child, trigger a reconcile by themselves.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// The interval after which the former workload of a suspended server goes: no watch tells of the operator's
/// own write of the new one.
const HANDOVER_INTERVAL: Duration = Duration::from_secs(1);

/// Returns the digest of the trusted definitions that the Secret has; `None` if the configuration wants none.
fn kept_trust(plan: &Plan, references: &References) -> Option<String> {
    let wanted = plan.configuration.as_ref().ok().map(|configuration| &configuration.mounted);
    let in_force = wanted.or(references.mounted.as_ref())?;
    let kept = references.generated.trusted_tools.as_deref().unwrap_or(b"{}");
    in_force.reads_trusted_tools().then(|| vmcp_config::status::digest(&String::from_utf8_lossy(kept)))
}

/// Joins the trusted definitions of the Secret with those of the pods.
fn join_trust(
    server: &VirtualMCPServer,
    plan: &Plan,
    references: &References,
    pods: &[ObservedPod],
) -> KeptTrust {
    let reports: Vec<_> = pods.iter().filter_map(|pod| pod.trusted.clone()).collect();
    let approvals = server.annotations().get(&approval_annotation()).map(String::as_str).unwrap_or_default();
    let kept = references.generated.trusted_tools.as_deref();
    let mounted = plan.configuration.as_ref().ok().map(|configuration| &configuration.mounted);
    let mounted = mounted.or(references.mounted.as_ref());
    let other_bytes = mounted.map_or(0, MountedConfiguration::secret_bytes);
    let budget = MAX_TRUSTED_TOOLS_BYTES.min(MAX_SECRET_BYTES.saturating_sub(other_bytes));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    join(kept, &reports, approvals, quarantined(plan).as_ref(), (budget, now))
}

/// Returns true if connections to the pods, or of the pods to backends, fail as those do whose packets are
/// dropped.
fn has_network_symptom(pods: &[ObservedPod]) -> bool {
    let reports = pods.iter().filter_map(|pod| pod.report.as_ref());
    let mut backends = reports.flat_map(|report| &report.backends);
    pods.iter().any(|pod| pod.failure.as_ref().is_some_and(|it| it.reason == "ConnectionTimedOut"))
        || backends.any(|backend| backend.last_error.as_deref().is_some_and(is_network_symptom))
}

async fn reconcile(
    server: Arc<VirtualMCPServer>,
    context: Arc<Context>,
    memory: Arc<ControllerMemory>,
) -> Result<Action, ReconcileError> {
    let ControllerMemory { poller, last_good, writes, trust: trust_memory } = memory.as_ref();
    let mut references = dereference(&server, &context, last_good).await?;
    if let Some(kept) = trust_memory.kept(&server) {
        references.generated.trusted_tools = Some(kept);
    }
    let validated = |policies: PolicyCheck<'_>| validate(&server, &references, policies, &context.settings);
    let plan = context.policies.settle(validated).await;
    let before = plan.configuration.as_ref().err().and(references.mounted.as_ref());
    // Before apply, so that an edit by hand of the mounted configuration is repaired from memory.
    last_good.remember(&server, before, &context);
    let (uid, name) = (server.uid().unwrap_or_default(), server.name_any());
    let pods = context.pods(&server.namespace().unwrap_or_default(), &names::selector(&name));
    let running = RunningWorkload::read(&context, &uid, &name);
    let pods = running.pods(pods, &name);
    let token = references.generated.admin_token.clone();
    let kept_trust = kept_trust(&plan, &references);
    let polls = Polls { token: &token, kept_trust: kept_trust.as_deref() };
    // Before apply: the exposure follows what the pods have in force.
    let observed_pods = observe(poller, &server, pods.clone(), polls);
    let trust = kept_trust.is_some().then(|| join_trust(&server, &plan, &references, &observed_pods));
    if let Some(trust) = &trust {
        references.generated.trusted_tools = Some(trust.text.clone().into_bytes());
    }
    // Before apply, so that an edit by hand of the Secret is repaired.
    trust_memory.remember(&server, trust.as_ref(), &context);
    let mounted = references.mounted.as_ref();
    let exposure = CurrentExposure::read(&context, &uid, &name);
    let order = plan.server.as_ref().ok().map(|valid| {
        let uptake = uptake(&plan, mounted, &observed_pods, writes.last(&uid));
        order(valid, &plan, mounted, uptake, &exposure)
    });
    let hands_over = order.as_ref().is_some_and(|order| running.hands_over(&order.server));
    let mut applied = match &order {
        Some(order) => {
            let desired = build(order, &plan, &references, &running, &context.settings);
            context.apply(server.as_ref(), desired).await
        }
        None => Applied::default(),
    };
    if applied.wrote(ChildKind::ConfigMap, &names::config_map(&name)) {
        writes.note(&uid);
    }
    // Permanent errors are reported in the status below; transient ones only retry.
    if let Some(error) = applied.failed.take_if(|error| !error.needs_person()) {
        return Err(error.into());
    }
    // As this reconcile left it.
    let running = RunningWorkload::read(&context, &uid, &name);
    let hands_over = hands_over && running.deployment.is_some() && running.set.is_some();
    let form = plan.server.as_ref().map_or_else(|_| running.form(), WorkloadForm::wanted);
    let set = running.set.as_ref().filter(|_| form == WorkloadForm::StatefulSet);
    let counts = match running.counts(form, &pods, &name) {
        Some(counts) => Some(counts.with_cluster_events(&context, set, &pods).await),
        None => None,
    };
    // No watch tells why the pods of a StatefulSet are not made.
    let lacks_pods = set.is_some() && counts.as_ref().is_some_and(|counts| counts.existing < counts.desired);
    let limits = if has_network_symptom(&observed_pods) {
        let namespace = server.namespace().unwrap_or_default();
        NetworkLimits::of_pods(&context, &namespace, &names::selector(&name)).await
    } else {
        NetworkLimits::default()
    };
    let waits_for_events = lacks_pods || cluster_events::need_polls(&pods);
    let pods = observed_pods;
    nudge(&server, &plan, &applied, &pods, &context).await?;

    let observed = ObservedVirtualMCPServer {
        server: &server,
        plan: &plan,
        references: &references,
        order: order.as_ref(),
        applied: &applied,
        counts: counts.as_ref(),
        running: &running,
        limits: &limits,
        pods: &pods,
        trust: trust.as_ref(),
        exposure: &exposure,
        settings: &context.settings,
    };
    let computed = observed.status();
    let before = server.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    report(&context, server.as_ref(), before, &computed.status.conditions, &computed.status).await?;
    if computed.in_flux {
        hasten(poller, &server, &pods, polls);
    }
    applied.entirely()?;
    let again =
        if waits_for_events { cluster_events::POLL_INTERVAL } else { context.settings.resync_interval };
    let waiting = order.filter(ExposureOrder::is_under_way);
    let wait = waiting.map(|order| match order.uptake {
        Uptake::Unmounted if !order.holds_configuration => MOUNT_INTERVAL,
        _ => REPORT_INTERVAL,
    });
    let again = wait.map_or(again, |wait| again.min(wait));
    let again = if hands_over { again.min(HANDOVER_INTERVAL) } else { again };
    Ok(Action::requeue(again))
}
