//! Tests of `ToolChangesApproved`.

use vmcp_config::rules::trusted_tools::Fingerprint;

use super::*;

#[test]
fn a_changed_tool_that_waits_says_how_it_is_approved() {
    let quarantine = "{config: {aggregation: {onToolChange: Quarantine}}}";
    let mut world = World::new(quarantine).pod(all_well());
    world.trust = Some(KeptTrust { tools: 6, ..KeptTrust::default() });
    let status = world.status();
    assert_eq!(condition(&status, "ToolChangesApproved").status, "True");
    assert_eq!(status.phase, Some(Phase::Ready));
    let left = ["a/create_note@f".to_owned(), "a/z@f".to_owned()];
    world.trust = Some(KeptTrust { approvals: left.into(), ..KeptTrust::default() });
    let status = world.status();
    let message = &condition(&status, "ToolChangesApproved").message;
    assert!(
        message.contains("a/create_note@f and 1 more: remove the annotation (`kubectl annotate vmcp x "),
        "{message}"
    );
    world.pods[0].trust_unread = Some("the answer broke off".to_owned());
    let unread = world.status();
    assert_eq!(condition(&unread, "ToolChangesApproved").reason, "TrustUnread");
    assert_eq!(condition(&unread, "ToolChangesApproved").status, "False");
    world.pods[0].trust_unread = None;

    let fingerprint = Fingerprint::of_hash("changed");
    let pending = ("a".to_owned(), "create_note".to_owned(), fingerprint.clone());
    world.trust = Some(KeptTrust { pending: [pending].into(), ..KeptTrust::default() });
    let status = world.status();
    let message = &condition(&status, "ToolChangesApproved").message;
    let annotation = format!("'toolhive.stacklok.com/approve-tools=a/create_note@{fingerprint}'");
    assert!(message.contains("create_note of a has changed") && message.contains(&annotation), "{message}");
    assert_eq!(condition(&status, "Degraded").reason, "ApprovalPending");

    world.trust = Some(KeptTrust { omitted: [("a".to_owned(), 3)].into(), ..KeptTrust::default() });
    assert_eq!(condition(&world.status(), "ToolChangesApproved").reason, "TrustTooLarge");
    world.trust = Some(KeptTrust { is_unreadable: true, ..KeptTrust::default() });
    let status = world.status();
    let message = &condition(&status, "ToolChangesApproved").message;
    assert!(message.contains("the key `trusted-tools` of the Secret x-vmcp-secrets"), "{message}");
}
