//! Objects of a server whose scripts run as Jobs: the right to make them, and the isolation of their pods.

use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use vmcp_crds::lower::SCRIPT_PORT;
use vmcp_crds::virtual_mcp_server::Validated;

use super::{meta, role_binding};
use crate::runtime::{BuildSettings, Child, ChildKind, RoleName};
use crate::virtual_mcp_server::names;

/// Returns the role that the server's pods get; `None` if its scripts do not run as Jobs, or the installation
/// lets none.
pub(in crate::virtual_mcp_server) fn role<'a>(
    server: &Validated,
    settings: &'a BuildSettings,
) -> Option<&'a RoleName> {
    settings.script_jobs_role.as_ref().filter(|_| server.has_script_jobs())
}

/// Returns the role, if the pods run as the account that the operator makes for them. An account that the
/// resource names gets none: its other pods would have the right too.
pub(super) fn granted_role<'a>(server: &Validated, settings: &'a BuildSettings) -> Option<&'a RoleName> {
    role(server, settings).filter(|_| server.pods.service_account.is_none())
}

/// Returns the NetworkPolicy of the pods of scripts.
pub(in crate::virtual_mcp_server) fn script_isolation(
    server: &Validated,
    settings: &BuildSettings,
) -> Option<Child> {
    role(server, settings).map(|_| Child::from_object(&isolation(server)))
}

/// Returns the RoleBinding, which waits for the NetworkPolicy and for the ServiceAccount: no script runs
/// without isolation, and a foreign account of this name gets no right.
pub(in crate::virtual_mcp_server) fn script_right(
    server: &Validated,
    settings: &BuildSettings,
) -> Option<Child> {
    let role = granted_role(server, settings)?;
    let needed = [
        (ChildKind::NetworkPolicy, names::scripts(&server.name)),
        (ChildKind::ServiceAccount, names::auxiliary(&server.name)),
    ];
    let binding = role_binding(server, names::scripts(&server.name), role);
    Some(Child::from_object(&binding).only_after(needed))
}

/// Returns the NetworkPolicy of the pods of scripts: the server connects to them, and they connect to
/// nothing, not even to the DNS.
fn isolation(server: &Validated) -> NetworkPolicy {
    let labels = |labels| LabelSelector { match_labels: Some(labels), ..LabelSelector::default() };
    NetworkPolicy {
        metadata: meta(server, names::scripts(&server.name)),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(labels(names::script_selector(&server.name))),
            policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
            ingress: Some(vec![NetworkPolicyIngressRule {
                from: Some(vec![NetworkPolicyPeer {
                    pod_selector: Some(labels(names::selector(&server.name))),
                    ..NetworkPolicyPeer::default()
                }]),
                ports: Some(vec![NetworkPolicyPort {
                    port: Some(IntOrString::Int(SCRIPT_PORT.into())),
                    protocol: Some("TCP".to_owned()),
                    ..NetworkPolicyPort::default()
                }]),
            }]),
            egress: None,
        }),
    }
}
