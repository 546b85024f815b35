//! Tests of the words about NetworkPolicies of others.

use super::*;

fn limits(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn policies_that_may_drop_the_packets_are_named() {
    let failed =
        |error: &str| json!({ "backends": [{ "name": "a", "state": "failed", "lastError": error }] });
    let mut world = World::new("{}").pod(failed("no answer within 10 seconds"));
    let degraded = |world: &World| condition(&world.status(), "Degraded").message.clone();
    assert!(!degraded(&world).contains("NetworkPolic"));
    world.limits.egress = limits(&["default-deny", "zone"]);
    let message = degraded(&world);
    assert!(message.contains("limited by NetworkPolicies default-deny, zone: allow them"), "{message}");
    let mut refused = World::new("{}").pod(failed("connection refused"));
    refused.limits.egress = limits(&["default-deny"]);
    assert!(!degraded(&refused).contains("default-deny"), "its packets arrive");

    world.pods[0].failure =
        Some(PollFailure { reason: "ConnectionTimedOut", message: "the pod did not answer".to_owned() });
    world.limits.ingress = limits(&["default-deny"]);
    let status = world.status();
    let reachable = condition(&status, "PodsReachable");
    assert_eq!(reachable.status, "False");
    assert!(reachable.message.ends_with("connections to it are limited by NetworkPolicy default-deny"));
}
