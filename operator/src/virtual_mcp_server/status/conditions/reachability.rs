//! `RouteAccepted` and `LoadBalancerReady`: the answers of Gateways to the HTTPRoute, and of the cloud to the
//! Service.

use serde_json::Value;
use vmcp_crds::virtual_mcp_server::ServiceType;

use super::Degradations;
use crate::runtime::Conditions;
use crate::virtual_mcp_server::status::ObservedVirtualMCPServer;

/// Conditions of a parent of an HTTPRoute that are `True` once the route leads traffic.
const PARENT_CONDITIONS: [&str; 2] = ["Accepted", "ResolvedRefs"];

/// Sets `RouteAccepted` with `spec.httpRoute`, and `LoadBalancerReady` with a load balancer. A refused route is
/// a degradation.
pub(super) fn reachability(
    observed: &ObservedVirtualMCPServer<'_>,
    conditions: &mut Conditions,
    degradations: &mut Degradations,
) {
    const ROUTE: &str = "RouteAccepted";
    const BALANCER: &str = "LoadBalancerReady";
    let Some(order) = observed.order else {
        conditions.keep(ROUTE);
        return conditions.keep(BALANCER);
    };
    let exposure = observed.exposure;
    if order.server.http_route.is_some() && exposure.route.is_some() {
        let refusal = exposure.route_parents.iter().find_map(refusal);
        if let Some(refusal) = refusal {
            let message = format!("the HTTPRoute leads no traffic here: {refusal}");
            conditions.set(ROUTE, false, "RouteRefused", message.clone());
            degradations.push(("RouteRefused", message));
        } else if exposure.route_parents.is_empty() {
            let message = "no Gateway has answered yet; do the ones of spec.httpRoute.parentRefs exist, and does a \
                           controller run them?";
            conditions.unknown(ROUTE, "RoutePending", message);
        } else {
            conditions.set(ROUTE, true, "RouteAccepted", "the Gateway accepts the HTTPRoute");
        }
    }
    if order.server.service_type == ServiceType::LoadBalancer {
        if exposure.is_balanced {
            conditions.set(BALANCER, true, "AddressAssigned", "the load balancer has an address");
        } else {
            let message = "the load balancer has no address yet; if this lasts, `kubectl describe service` shows the \
                           events of the cloud";
            conditions.unknown(BALANCER, "AddressPending", message);
        }
    }
}

/// Returns the refusal of a parent of an HTTPRoute, an entry of its `status.parents`, in the parent's words.
fn refusal(parent: &Value) -> Option<String> {
    let conditions = parent.get("conditions")?.as_array()?;
    let text =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let refused = conditions.iter().find(|condition| {
        PARENT_CONDITIONS.contains(&text(condition, "type").as_str()) && text(condition, "status") == "False"
    })?;
    let gateway = parent.pointer("/parentRef/name").and_then(Value::as_str).unwrap_or_default();
    Some(format!("Gateway {gateway}: {}: {}", text(refused, "reason"), text(refused, "message")))
}
