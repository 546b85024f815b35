//! Tests of `DefinitionsListed`.

use super::*;

#[test]
fn definitions_that_clients_do_not_see_as_they_are_are_named() {
    let reported = |issues: Value| {
        let mut report = all_well();
        report["issues"] = issues;
        report
    };
    let listed = |issues: Value| {
        let status = World::new("{}").pod(reported(issues)).status();
        let condition = condition(&status, "DefinitionsListed");
        (status.phase, condition.status.clone(), condition.reason.clone(), condition.message.clone())
    };
    let (_, is_true, reason, _) = listed(json!([]));
    assert_eq!((is_true.as_str(), reason.as_str()), ("True", "DefinitionsListed"));
    // Mended definitions and other lines leave the condition true.
    let mended = "MendedDefinition: tool x of backend a: listed without its outputSchema";
    let (phase, is_true, reason, message) = listed(json!([mended, "the cache of vectors is read-only"]));
    assert_eq!((phase, is_true.as_str(), reason.as_str()), (Some(Phase::Ready), "True", "MendedDefinition"));
    assert_eq!(message, mended);
    let unlisted = |n: u32| format!("UnlistedDefinition: tool t{n} of backend a: {}", "long ".repeat(100));
    let incomplete = "IncompleteList: backend b: prompts/list answered HTTP 404";
    let (phase, is_true, reason, message) =
        listed(json!([mended, unlisted(1), unlisted(2), unlisted(3), incomplete]));
    assert_eq!((phase, is_true.as_str(), reason.as_str()), (Some(Phase::Ready), "False", "IncompleteList"));
    assert!(message.starts_with(incomplete) && message.contains("UnlistedDefinition: tool t1"), "{message}");
    assert!(message.contains("(and 2 more") && message.len() < 1000, "{message}");
    let conflict = "UnresolvedConflict: tool x of backend a: also of b";
    let (phase, is_true, reason, _) = listed(json!([mended, conflict]));
    assert_eq!((phase, is_true.as_str()), (Some(Phase::Degraded), "False"));
    assert_eq!(reason, "UnresolvedConflict");
    // Pods are asked in any order; the condition is that of all of them.
    let two = |first: &str, second: &str| {
        World::new("{replicas: 2}").pod(reported(json!([first]))).pod(reported(json!([second]))).status()
    };
    let of = |status: &VirtualMCPServerStatus| condition(status, "DefinitionsListed").message.clone();
    assert_eq!(of(&two(mended, incomplete)), of(&two(incomplete, mended)));
}

#[test]
fn names_that_clients_miss_are_in_the_condition_and_its_event() {
    let listed = |issue: &str| {
        let mut report = all_well();
        report["issues"] = json!([issue]);
        let status = World::new("{}").pod(report).status();
        let condition = condition(&status, "DefinitionsListed");
        (condition.status.clone(), condition.reason.clone(), condition.message.clone())
    };
    let reserved = "ReservedToolName: tool optim.find_tool of backend a: the name is reserved";
    assert_eq!(listed(reserved), ("False".to_owned(), "ReservedToolName".to_owned(), reserved.to_owned()));
    let mut report = all_well();
    report["issues"] = json!([reserved, "UnresolvedConflict: tool x of backend a: also of b"]);
    let status = World::new("{}").pod(report).status();
    let backends = &condition(&status, "BackendsDiscovered").message;
    assert!(backends.contains("; clients miss: ReservedToolName: tool optim.find_tool"), "{backends}");
    assert!(backends.ends_with("(and 1 more)"), "{backends}");
    // A tool whose name looks like a reason.
    let pinned = format!("Search{}", vmcp_config::status::PINNED_TOOL_MISSING);
    let (status, reason, message) = listed(&pinned);
    assert_eq!((status.as_str(), reason.as_str()), ("False", "PinnedToolMissing"));
    assert!(message.contains("Search: pinned"), "{message}");
}
