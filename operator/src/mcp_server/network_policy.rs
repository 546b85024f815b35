//! The NetworkPolicy of an MCPServer, a part of step 3, build: who may connect to its pods, and where they
//! may connect to. Pure.

mod removed_callers;

use std::collections::BTreeSet;

use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
    NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use vmcp_crds::lower::ADMIN_PORT;
use vmcp_crds::mcp_server::MCPServerNetworkPolicy;

pub(super) use self::removed_callers::without_removed_callers;
use super::dereference::RunningIngress;
use super::names::{WORKLOAD_NAME, metadata};
use super::permission_profile::Egress;
use super::validate::ValidMCPServer;
use crate::runtime::{BuildSettings, workload_labels};
use crate::workload::network::{NAMESPACE_LABEL, TUNNEL_PORT, operator_pods, port};
use crate::workload::{GROUP_LABEL, group_label};

/// The port of the DNS.
const DNS_PORT: u16 = 53;

/// Returns the NetworkPolicy; `None` if neither direction is limited. `guards` is the digest of the server's
/// guards.
pub(super) fn network_policy(
    server: &ValidMCPServer,
    running: &RunningIngress,
    guards: Option<&str>,
    settings: &BuildSettings,
) -> Option<NetworkPolicy> {
    let policy = &server.network_policy;
    let wanted = policy.enabled.then(|| callers(server.group.as_deref(), &server.granted_namespaces, policy));
    let admitted = running.admitted(guards, wanted);
    let ingress = admitted.map(|callers| ingress(server, callers, settings));
    let egress = egress(&server.egress);
    let types = [("Ingress", ingress.is_some()), ("Egress", egress.is_some())];
    let types: Vec<_> =
        types.iter().filter(|(_, limited)| *limited).map(|(kind, _)| (*kind).to_owned()).collect();
    (!types.is_empty()).then(|| NetworkPolicy {
        metadata: metadata(&server.name),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(LabelSelector {
                match_labels: Some(workload_labels(WORKLOAD_NAME, &server.name)),
                match_expressions: None,
            }),
            policy_types: Some(types),
            ingress,
            egress,
        }),
    })
}

/// Returns the callers that a server admits: the VirtualMCPServers that serve its group, of its namespace and
/// of granted ones, and the callers that the resource names.
fn callers(
    group: Option<&str>,
    granted_namespaces: &BTreeSet<String>,
    policy: &MCPServerNetworkPolicy,
) -> Vec<NetworkPolicyPeer> {
    // A VirtualMCPServer without a group serves all servers of its namespace.
    let groups = group.into_iter().map(group_label).chain([String::new()]).collect();
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
    std::iter::once(vmcp)
        .chain(granted(granted_namespaces))
        .chain(policy.ingress_from.iter().cloned())
        .collect()
}

/// Returns the rules for incoming connections: the callers may call the server, and the operator may ask a
/// bridge for its status.
fn ingress(
    server: &ValidMCPServer,
    callers: Vec<NetworkPolicyPeer>,
    settings: &BuildSettings,
) -> Vec<NetworkPolicyIngressRule> {
    // Of a guarded server, no caller reaches its own port.
    let target = server.client_port();
    let mut ports = vec![port("TCP", target)];
    if !server.listens_beside_bridge() {
        // A tunnel leads to every port of the pod, also past the bridge.
        ports.push(port("TCP", TUNNEL_PORT));
    }
    let mut ingress = vec![NetworkPolicyIngressRule { from: Some(callers), ports: Some(ports) }];
    if server.has_bridge() {
        ingress.push(NetworkPolicyIngressRule {
            from: Some(vec![operator_pods(settings)]),
            ports: Some(vec![port("TCP", ADMIN_PORT), port("TCP", TUNNEL_PORT)]),
        });
    }
    ingress
}

/// Returns the VirtualMCPServers of namespaces that a ReferenceGrant names.
fn granted(namespaces: &BTreeSet<String>) -> Option<NetworkPolicyPeer> {
    (!namespaces.is_empty()).then(|| NetworkPolicyPeer {
        namespace_selector: Some(LabelSelector {
            match_labels: None,
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: NAMESPACE_LABEL.to_owned(),
                operator: "In".to_owned(),
                values: Some(namespaces.iter().cloned().collect()),
            }]),
        }),
        pod_selector: Some(LabelSelector {
            match_labels: Some([("app.kubernetes.io/name".to_owned(), "vmcp".to_owned())].into()),
            match_expressions: None,
        }),
        ip_block: None,
    })
}

/// Returns the rules for outgoing connections; `None` if all are allowed. Where any is allowed, names can be
/// resolved: the DNS may be anywhere, such as in `kube-system` or at a link-local address of the node.
fn egress(egress: &Egress) -> Option<Vec<NetworkPolicyEgressRule>> {
    let (ports, blocks) = match egress {
        Egress::Open => return None,
        Egress::Closed => return Some(Vec::new()),
        Egress::To { ports, blocks } => (ports, blocks),
    };
    let dns = ["UDP", "TCP"].map(|protocol| port(protocol, DNS_PORT)).to_vec();
    let ports: Vec<_> = ports.iter().map(|number| port("TCP", *number)).collect();
    let to = blocks.iter().map(|cidr| NetworkPolicyPeer {
        ip_block: Some(IPBlock { cidr: cidr.clone(), except: None }),
        ..NetworkPolicyPeer::default()
    });
    let to: Vec<_> = to.collect();
    Some(vec![
        NetworkPolicyEgressRule { ports: Some(dns), to: None },
        NetworkPolicyEgressRule {
            ports: (!ports.is_empty()).then_some(ports),
            to: (!to.is_empty()).then_some(to),
        },
    ])
}

#[cfg(test)]
mod tests;
