//! Fields of the Service for clients.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::VirtualMCPServerSpec;
use crate::problem::Problem;

/// Type of a Service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
// In the order of their reach: a greater one is reachable from further away.
pub enum ServiceType {
    /// Reachable inside the cluster.
    #[default]
    ClusterIP,
    /// Reachable at a port of every node.
    NodePort,
    /// Reachable through a load balancer of the cloud.
    LoadBalancer,
}

impl ServiceType {
    /// Returns the value of `spec.type` in a Service.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClusterIP => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::LoadBalancer => "LoadBalancer",
        }
    }
}

/// Settings of the Service for clients.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientService {
    /// Addresses that may connect to the load balancer, such as `203.0.113.0/24`; the provider of the load
    /// balancer enforces it. Empty: all. With `serviceType: LoadBalancer` only. At most 64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(max = 43), regex(pattern = r"^[0-9a-fA-F.:]+/[0-9]{1,3}$")),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub load_balancer_source_ranges: Vec<String>,
    /// Class of the load balancer, such as `service.k8s.aws/nlb`. Default: the cluster's own. Kubernetes
    /// refuses another one while the Service is a load balancer. With `serviceType: LoadBalancer` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 316))]
    pub load_balancer_class: Option<String>,
    /// Pods that connections from outside of the cluster may be sent to. Not with `serviceType: ClusterIP`.
    /// Default: `Cluster`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<ExternalTrafficPolicy>,
}

/// Pods that a node may send connections from outside of the cluster to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ExternalTrafficPolicy {
    /// Pods of all nodes, which see the address of a node in place of the client's.
    Cluster,
    /// Pods of the same node, which see the address of the client: limits by address count clients then.
    Local,
}

impl ExternalTrafficPolicy {
    /// Returns the value of `spec.externalTrafficPolicy` in a Service.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Local => "Local",
        }
    }
}

/// Finds settings without a meaning for the type of the Service, and invalid ranges.
pub(super) fn check(spec: &VirtualMCPServerSpec, problems: &mut Vec<Problem>) {
    let service = &spec.service;
    for (field, is_given) in [
        ("loadBalancerSourceRanges", !service.load_balancer_source_ranges.is_empty()),
        ("loadBalancerClass", service.load_balancer_class.is_some()),
    ] {
        if is_given && spec.service_type != ServiceType::LoadBalancer {
            let remedy = "set `spec.serviceType: LoadBalancer`, or remove it";
            problems.push(Problem::new(format!("spec.service.{field}"), "there is no load balancer", remedy));
        }
    }
    if service.external_traffic_policy.is_some() && spec.service_type == ServiceType::ClusterIP {
        let message = "nothing leads to the Service from outside of the cluster";
        let remedy = "set `spec.serviceType: LoadBalancer` or `NodePort`, or remove it";
        problems.push(Problem::new("spec.service.externalTrafficPolicy", message, remedy));
    }
    for range in service.load_balancer_source_ranges.iter().filter(|range| !is_range(range)) {
        let message = format!("`{range}` is no range of addresses");
        let remedy = "write an address and the length of its prefix, such as `203.0.113.0/24`";
        problems.push(Problem::new("spec.service.loadBalancerSourceRanges", message, remedy));
    }
}

/// Returns true for a CIDR of IPv4 or IPv6.
fn is_range(range: &str) -> bool {
    let Some((address, prefix)) = range.split_once('/') else { return false };
    let longest = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    prefix.bytes().all(|byte| byte.is_ascii_digit())
        && prefix.parse::<u8>().is_ok_and(|length| length <= longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_an_address_and_the_length_of_its_prefix() {
        for range in ["203.0.113.0/24", "0.0.0.0/0", "2001:db8::/32", "::/128"] {
            assert!(is_range(range), "{range}");
        }
        for text in
            ["203.0.113.0", "203.0.113.0/33", "203.0.113/24", "2001:db8::/129", "10.0.0.0/+8", "/8", "a/8"]
        {
            assert!(!is_range(text), "{text}");
        }
    }
}
