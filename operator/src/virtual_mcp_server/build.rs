//! The build step of a VirtualMCPServer (step 3 of 7): returns every object that should exist, such as
//! Deployment or StatefulSet, Service, ConfigMap and Secret. Pure: it asks no API.

use vmcp_crds::lower;
use vmcp_crds::virtual_mcp_server::Validated;

use super::dereference::References;
use super::exposure_order::ExposureOrder;
use super::objects::workload_form::WorkloadForm;
use super::observe::running_workload::RunningWorkload;
use super::validate::Plan;
use super::{names, objects, start_settings};
use crate::runtime::{BuildSettings, Child, ChildKind, Desired};

/// Returns every object that should exist: with the last good configuration while the new one is refused. An
/// object that cannot be built now, or whose turn has not come, is kept as it is. So is a workload in its
/// former form, until the pods of the new one are ready.
pub(super) fn build(
    order: &ExposureOrder,
    plan: &Plan,
    references: &References,
    running: &RunningWorkload,
    settings: &BuildSettings,
) -> Desired {
    let server = &order.server;
    let mut desired = Desired { keep: order.keep.clone(), ..Desired::default() };
    // First, so that the pods of scripts are closed from the beginning.
    desired.children.extend(objects::script_isolation(server, settings));
    desired.children.extend(objects::network_policy(server, settings));
    if server.pods.service_account.is_none() {
        desired.children.push(Child::from_object(&objects::service_account(server)));
    }
    let mounted = match &plan.configuration {
        Ok(configuration) if !order.holds_configuration => {
            Some((&configuration.mounted, Some(configuration.lowered.termination_grace_period())))
        }
        _ => references
            .mounted
            .as_ref()
            .map(|mounted| (mounted, lower::termination_grace_period(&mounted.text))),
    };
    if let Some((mounted, _)) = mounted {
        desired.children.push(Child::from_object(&objects::config_map(server, mounted)));
        desired.children.push(Child::from_object(&objects::secret(server, mounted, &references.generated)));
    } else {
        desired.keep.push((ChildKind::ConfigMap, names::config_map(&server.name)));
        desired.keep.push((ChildKind::Secret, names::secret(&server.name)));
    }
    desired.children.push(Child::from_object(&objects::client_service(server)));
    desired.children.push(Child::from_object(&objects::peers_service(server)));
    desired.children.extend(objects::console_service(server).as_ref().map(Child::from_object));
    if let Some(managed) = objects::managed_embedding_server(server) {
        desired.children.push(Child::from_object(&managed));
    }
    let form = WorkloadForm::wanted(server);
    if let (Some((mounted, Some(grace))), Ok(())) = (mounted, &plan.template) {
        let start_settings = start_settings::digest(mounted, &references.generated.session_key);
        let workload = objects::workload(server, running, grace, start_settings, settings);
        desired.children.push(workload.only_after(needed_by_pods(server)));
        if running.waits_for_pods(server) {
            desired.keep.push((form.other().kind(), server.name.clone()));
        }
    } else {
        let kinds = [ChildKind::Deployment, ChildKind::StatefulSet];
        desired.keep.extend(kinds.map(|kind| (kind, server.name.clone())));
    }
    desired.children.extend(objects::optional(server));
    desired.children.extend(objects::script_right(server, settings));
    desired.children.extend(objects::rights_to_add_servers(server, settings));
    desired
}

/// Returns the objects that must be stored before the pods: a quota, or an object of others, may stand in
/// their way. Pods would take files and rights of others, or serve more clients than the resource says. At a
/// headless Service of others, replicas would present their admin token.
fn needed_by_pods(server: &Validated) -> Vec<(ChildKind, String)> {
    let auxiliary = || names::auxiliary(&server.name);
    let mut needed = vec![
        (ChildKind::ConfigMap, names::config_map(&server.name)),
        (ChildKind::Secret, names::secret(&server.name)),
        (ChildKind::Service, names::service(&server.name)),
        (ChildKind::Service, names::peers(&server.name)),
    ];
    needed.extend(server.ingress_from.is_some().then(|| (ChildKind::NetworkPolicy, auxiliary())));
    needed.extend(server.pods.service_account.is_none().then(|| (ChildKind::ServiceAccount, auxiliary())));
    needed
}
