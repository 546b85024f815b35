//! Tests of the status of a suspended server, and of a restarted one.

use vmcp_crds::virtual_mcp_server::RESTARTED_AT;

use super::*;

#[test]
fn a_suspended_server_says_so_and_how_it_is_started() {
    let status = World::new("{suspend: true}").status();
    let ready = condition(&status, "Ready");
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "Suspended"));
    assert!(ready.message.contains("`vmcp start --kubernetes x`"), "{}", ready.message);
    assert_eq!((status.phase, status.message.as_ref()), (Some(Phase::Suspended), Some(&ready.message)));
    assert_eq!(condition(&status, "Reconciling").status, "False");
    assert_eq!(condition(&status, "Stalled").status, "False");
}

/// The Deployment of a resource that cannot be built is kept as it is, pods and all.
#[test]
fn a_suspension_that_is_not_in_force_is_not_reported() {
    let status = World::new("{suspend: true}").pod(all_well()).status();
    assert_ne!(condition(&status, "Ready").reason, "Suspended");
    assert_ne!(status.phase, Some(Phase::Suspended));
}

#[test]
fn the_restart_that_the_pod_template_has_is_in_the_status() {
    let mut world = World::new("{}");
    assert_eq!(world.status().restarted_at, None);
    let restart = |time: &str| Some([(RESTARTED_AT.to_owned(), time.to_owned())].into());
    world.server.metadata.annotations = restart("2026-01-02T03:04:05Z");
    assert_eq!(world.status().restarted_at.as_deref(), Some("2026-01-02T03:04:05Z"));
    let mut world = world.later();
    world.server.metadata.annotations = restart("2026-01-02T04:00:00Z");
    world.server.spec.replicas = Some(2);
    world.server.spec.autoscaling = Some(yaml("{maxReplicas: 3}"));
    let refused = world.status().restarted_at;
    assert_eq!(refused.as_deref(), Some("2026-01-02T03:04:05Z"), "nothing is built of a refused resource");
}
