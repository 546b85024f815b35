//! Peers and ports of NetworkPolicies.

pub(crate) mod sources;

use k8s_openapi::api::networking::v1::{NetworkPolicyPeer, NetworkPolicyPort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::runtime::{BuildSettings, OPERATOR_NAME};

/// The label of a namespace with its name, which the API server sets.
pub(crate) const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";
/// The port of Istio's tunnels between pods (HBONE): in ambient mode the policy sees no other port. See
/// <https://istio.io/latest/docs/ambient/usage/networkpolicy/>.
pub(crate) const TUNNEL_PORT: u16 = 15008;

/// Returns the pods of the operator, in its own namespace where it is known.
pub(crate) fn operator_pods(settings: &BuildSettings) -> NetworkPolicyPeer {
    let namespace = settings.operator_namespace.as_ref().map(|name| LabelSelector {
        match_labels: Some([(NAMESPACE_LABEL.to_owned(), name.clone())].into()),
        match_expressions: None,
    });
    NetworkPolicyPeer {
        namespace_selector: Some(namespace.unwrap_or_default()),
        pod_selector: Some(LabelSelector {
            match_labels: Some([("app.kubernetes.io/name".to_owned(), OPERATOR_NAME.to_owned())].into()),
            match_expressions: None,
        }),
        ip_block: None,
    }
}

/// Returns a port of a protocol, such as `TCP`.
pub(crate) fn port(protocol: &str, number: u16) -> NetworkPolicyPort {
    NetworkPolicyPort {
        port: Some(IntOrString::Int(number.into())),
        protocol: Some(protocol.to_owned()),
        ..NetworkPolicyPort::default()
    }
}
