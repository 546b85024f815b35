//! Backends that their resources switch off.

use super::*;

#[test]
fn a_backend_that_is_switched_off_is_no_fault_and_nothing_is_awaited_of_it() {
    let mut world = World::new("{}");
    let entry = "metadata: {name: docs, namespace: n}\nspec: {remoteUrl: 'https://docs.example.com/mcp', enabled: false}";
    world.references.entries.push(Arc::new(yaml(entry)));
    let program = "metadata: {name: c, namespace: n}\nspec: {image: i, enabled: false}";
    world.references.servers.push(Arc::new(yaml(program)));
    let computed = world.pod(all_well()).computed();
    assert_eq!(
        (computed.status.phase, computed.in_flux),
        (Some(Phase::Ready), false),
        "no report is awaited"
    );
    for name in ["c", "docs"] {
        let found = computed.status.discovered_backends.iter().find(|backend| backend.name == name);
        let found = found.expect("the backend is listed");
        assert_eq!(found.status, BackendState::Unknown, "{name}");
        assert!(
            found.message.as_deref().is_some_and(|text| text.contains("`spec.enabled: false`")),
            "{found:?}"
        );
    }
    let listed = &condition(&computed.status, "BackendsDiscovered").message;
    assert_eq!(listed, "2 of 4 backends can be called");
}
