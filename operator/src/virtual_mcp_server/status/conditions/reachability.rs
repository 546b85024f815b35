//! `RouteAccepted` and `LoadBalancerReady`: the answers of Gateways to the HTTPRoute, and of the cloud to the
//! Service.

use kube::ResourceExt as _;
use serde_json::Value;
use vmcp_crds::virtual_mcp_server::ServiceType;

use super::Degradations;
use crate::runtime::Conditions;
use crate::virtual_mcp_server::status::ObservedVirtualMCPServer;

/// Conditions of a parent of an HTTPRoute that are `True` once the route leads traffic.
const PARENT_CONDITIONS: [&str; 2] = [ACCEPTED, "ResolvedRefs"];
/// Condition by which a Gateway takes the route.
const ACCEPTED: &str = "Accepted";
/// Fields of a reference to a parent, with the values that they have by default. The default of the namespace
/// is the route's own.
const REFERENCE_FIELDS: [(&str, &str); 5] = [
    ("group", "gateway.networking.k8s.io"),
    ("kind", "Gateway"),
    ("namespace", ""),
    ("name", ""),
    ("sectionName", ""),
];

/// Sets `RouteAccepted` with `spec.httpRoute`, and `LoadBalancerReady` with a load balancer. A refused route
/// is a degradation.
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
    if order.server.http_route.is_some()
        && let Some(route) = &exposure.route
    {
        let generation = exposure.route_generation;
        let namespace = observed.server.namespace().unwrap_or_default();
        let references =
            route.get("parentRefs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let waits = |wanted: &&Value| {
            let mut answers =
                exposure.route_parents.iter().filter(|parent| is_about(parent, wanted, &namespace));
            !answers.any(|parent| accepts(parent, generation))
        };
        let refusal = exposure.route_parents.iter().find_map(|parent| refusal(parent, generation));
        if let Some(refusal) = refusal {
            let message = format!("the HTTPRoute leads no traffic here: {refusal}");
            conditions.set(ROUTE, false, "RouteRefused", message.clone());
            degradations.push(("RouteRefused", message));
        } else if exposure.route_parents.is_empty() {
            let message = "no Gateway has answered yet; do the ones of spec.httpRoute.parentRefs exist, and does a \
                           controller run them?";
            conditions.unknown(ROUTE, "RoutePending", message);
        } else if let Some(waiting) = references.iter().find(waits) {
            let gateway = waiting.get("name").and_then(Value::as_str).unwrap_or_default();
            let message = format!(
                "Gateway {gateway} has not accepted the HTTPRoute yet; does it exist, and does a controller run it?"
            );
            conditions.unknown(ROUTE, "RoutePending", message);
        } else {
            conditions.set(ROUTE, true, "RouteAccepted", "every Gateway accepts the HTTPRoute");
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
fn refusal(parent: &Value, generation: Option<i64>) -> Option<String> {
    let refused = current_conditions(parent, generation).find(|condition| {
        PARENT_CONDITIONS.contains(&text(condition, "type")) && text(condition, "status") == "False"
    })?;
    let gateway = parent.pointer("/parentRef/name").and_then(Value::as_str).unwrap_or_default();
    Some(format!("Gateway {gateway}: {}: {}", text(refused, "reason"), text(refused, "message")))
}

/// Returns true if a parent takes the route.
fn accepts(parent: &Value, generation: Option<i64>) -> bool {
    current_conditions(parent, generation)
        .any(|condition| text(condition, "type") == ACCEPTED && text(condition, "status") == "True")
}

/// Returns the conditions of a parent that are about this generation of the route, or say nothing of it.
fn current_conditions(parent: &Value, generation: Option<i64>) -> impl Iterator<Item = &Value> {
    let conditions = parent.get("conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.filter(move |condition| {
        let observed = condition.get("observedGeneration").and_then(Value::as_i64);
        observed.zip(generation).is_none_or(|(observed, generation)| observed >= generation)
    })
}

/// Returns true if an entry of `status.parents` answers this reference of a route in `namespace`.
fn is_about(parent: &Value, wanted: &Value, namespace: &str) -> bool {
    let Some(reference) = parent.get("parentRef") else { return false };
    let is_same = |(field, default): (&str, &str)| {
        let default = if field == "namespace" { namespace } else { default };
        let of = |reference: &Value| {
            let value = reference.get(field).and_then(Value::as_str).unwrap_or(default);
            value.to_owned()
        };
        of(reference) == of(wanted)
    };
    REFERENCE_FIELDS.into_iter().all(is_same) && reference.get("port") == wanted.get("port")
}

/// Returns the text of a field; empty without one.
fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
