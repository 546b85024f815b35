//! The NetworkPolicy of an MCPServer, a part of step 3, build: who may connect to its pods. Pure.

use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use vmcp_crds::lower::ADMIN_PORT;

use super::build::{BRIDGE_PORT, metadata};
use super::names::WORKLOAD_NAME;
use super::validate::{ProgramStart, ValidMCPServer};
use crate::runtime::{BuildSettings, OPERATOR_NAME, workload_labels};
use crate::workload::GROUP_LABEL;

/// Returns the NetworkPolicy: the VirtualMCPServers that serve the group may call the server, the operator
/// may ask a bridge for its status, and nobody else may connect.
pub(super) fn network_policy(server: &ValidMCPServer, settings: &BuildSettings) -> NetworkPolicy {
    let port = |port: u16| NetworkPolicyPort {
        port: Some(IntOrString::Int(port.into())),
        protocol: Some("TCP".to_owned()),
        ..NetworkPolicyPort::default()
    };
    // A VirtualMCPServer without a group serves all servers of its namespace.
    let groups = server.group.iter().cloned().chain([String::new()]).collect();
    let vmcp = NetworkPolicyPeer {
        pod_selector: Some(LabelSelector {
            match_labels: Some([("app.kubernetes.io/name".to_owned(), "vmcp".to_owned())].into()),
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: GROUP_LABEL.to_owned(),
                operator: "In".to_owned(),
                values: Some(groups),
            }]),
        }),
        ..NetworkPolicyPeer::default()
    };
    let target = match &server.start {
        ProgramStart::ByBridge(_) => BRIDGE_PORT,
        ProgramStart::ByImage { port, .. } => *port,
    };
    let callers = std::iter::once(vmcp).chain(server.network_policy.ingress_from.iter().cloned());
    let mut ingress =
        vec![NetworkPolicyIngressRule { from: Some(callers.collect()), ports: Some(vec![port(target)]) }];
    if let ProgramStart::ByBridge(_) = server.start {
        let namespace = settings.operator_namespace.as_ref().map(|name| LabelSelector {
            match_labels: Some([("kubernetes.io/metadata.name".to_owned(), name.clone())].into()),
            match_expressions: None,
        });
        let operator = NetworkPolicyPeer {
            namespace_selector: Some(namespace.unwrap_or_default()),
            pod_selector: Some(LabelSelector {
                match_labels: Some([("app.kubernetes.io/name".to_owned(), OPERATOR_NAME.to_owned())].into()),
                match_expressions: None,
            }),
            ip_block: None,
        };
        ingress.push(NetworkPolicyIngressRule {
            from: Some(vec![operator]),
            ports: Some(vec![port(ADMIN_PORT)]),
        });
    }
    NetworkPolicy {
        metadata: metadata(server),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(LabelSelector {
                match_labels: Some(workload_labels(WORKLOAD_NAME, &server.name)),
                match_expressions: None,
            }),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(ingress),
            ..NetworkPolicySpec::default()
        }),
    }
}
