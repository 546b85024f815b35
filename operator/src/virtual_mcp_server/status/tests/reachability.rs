//! Tests of `RouteAccepted` and `LoadBalancerReady`.

use super::*;

/// An entry of `status.parents` of an HTTPRoute.
fn parent(condition: &str, status: &str) -> Value {
    json!({
        "parentRef": { "name": "gw" },
        "conditions": [{
            "type": condition, "status": status, "reason": "NotAllowedByListeners", "message": "hostname not allowed",
        }],
    })
}

#[test]
fn a_route_that_the_gateway_refuses_degrades_and_is_quoted() {
    let spec = "{httpRoute: {parentRefs: [{name: gw}]}, allowAnonymousExposure: true}";
    let mut world = World::new(spec).pod(all_well());
    let absent = |status: &VirtualMCPServerStatus| {
        !status.conditions.iter().any(|condition| condition.type_ == "RouteAccepted")
    };
    assert!(absent(&world.status()), "no route is stored yet");
    world.exposure.route = Some(json!({ "parentRefs": [{ "name": "gw" }] }));
    let pending = world.status();
    assert_eq!(condition(&pending, "RouteAccepted").reason, "RoutePending");
    assert_ne!(condition(&pending, "Degraded").reason, "RouteRefused");
    world.exposure.route_parents = vec![parent("Accepted", "True"), parent("Accepted", "False")];
    let refused = world.status();
    let message = &condition(&refused, "RouteAccepted").message;
    assert!(message.contains("Gateway gw: NotAllowedByListeners: hostname not allowed"), "{message}");
    assert_eq!(condition(&refused, "RouteAccepted").status, "False");
    assert_eq!(condition(&refused, "Degraded").reason, "RouteRefused");
    world.exposure.route_parents = vec![parent("ResolvedRefs", "False")];
    assert_eq!(condition(&world.status(), "RouteAccepted").status, "False");
    world.exposure.route_parents = vec![parent("Accepted", "True")];
    assert_eq!(condition(&world.status(), "RouteAccepted").status, "True");
}

#[test]
fn a_load_balancer_is_ready_once_it_has_an_address() {
    let mut world = World::new("{serviceType: LoadBalancer, allowAnonymousExposure: true}").pod(all_well());
    assert_eq!(condition(&world.status(), "LoadBalancerReady").status, "Unknown");
    world.exposure.is_balanced = true;
    assert_eq!(condition(&world.status(), "LoadBalancerReady").status, "True");
}

#[test]
fn a_route_is_accepted_once_every_gateway_has_accepted_its_present_form() {
    let spec = "{httpRoute: {parentRefs: [{name: gw}, {name: other}]}, allowAnonymousExposure: true}";
    let mut world = World::new(spec).pod(all_well());
    world.exposure.route = Some(json!({ "parentRefs": [{ "name": "gw" }, { "name": "other" }] }));
    let of_other = |conditions: Value| {
        json!({
            "parentRef": { "kind": "Gateway", "name": "other", "namespace": "n" }, "conditions": conditions,
        })
    };
    let accepted =
        |generation: i64| json!([{ "type": "Accepted", "status": "True", "observedGeneration": generation }]);
    world.exposure.route_generation = Some(2);
    for waiting in [
        vec![parent("Accepted", "True")],
        vec![parent("Accepted", "Unknown"), of_other(accepted(2))],
        vec![parent("Accepted", "True"), of_other(json!([]))],
        vec![parent("Accepted", "True"), of_other(accepted(1))],
    ] {
        world.exposure.route_parents = waiting;
        let status = world.status();
        let accepted = condition(&status, "RouteAccepted");
        assert_eq!((accepted.status.as_str(), accepted.reason.as_str()), ("Unknown", "RoutePending"));
        assert!(accepted.message.starts_with("Gateway "), "{}", accepted.message);
    }
    world.exposure.route_parents = vec![parent("Accepted", "True"), of_other(accepted(2))];
    assert_eq!(condition(&world.status(), "RouteAccepted").status, "True");
}
