//! Policies that are tried out before they are enforced.

use super::*;

fn shadow(policy: &CedarPolicy, who: &Identity, question: &Question<'_>) -> (bool, Option<(bool, String)>) {
    let verdict = policy.decide(&policy.subject(who), question);
    (verdict.allowed, verdict.shadow.map(|shadow| (shadow.allowed, shadow.policy)))
}

#[test]
fn a_policy_that_is_not_enforced_takes_part_in_the_shadow_decision_only() {
    let policy = policy(&[
        "permit(principal, action, resource in Backend::\"fs\");",
        r#"@id("new") @enforce("false") forbid(principal, action, resource) when { context has arg_force };"#,
        r#"@id("wider") @enforce("false") permit(principal == Client::"ann", action, resource in Backend::"db");"#,
    ]);
    let who = identity("bob", json!({}));
    let force = Some(r#"{"force":true}"#);
    assert_eq!(shadow(&policy, &who, &tool("fs_read", force)), (true, Some((false, "new".to_owned()))));
    assert_eq!(shadow(&policy, &who, &tool("fs_read", None)), (true, Some((true, "policy0".to_owned()))));
    assert!(policy.could_allow(&policy.subject(&who), &tool("fs_read", None)));
    let ann = identity("ann", json!({}));
    assert_eq!(shadow(&policy, &ann, &tool("db_read", None)), (false, Some((true, "wider".to_owned()))));
    assert!(!policy.could_allow(&policy.subject(&ann), &tool("db_read", None)));
    let own = Question { name: "optim.find_tool", arguments: force, ..Question::default() };
    assert_eq!(shadow(&policy, &who, &own), (true, Some((false, "new".to_owned()))));
}

#[test]
fn a_server_in_shadow_mode_denies_and_hides_nothing() {
    let policy = CedarPolicy::new(&authz(&json!({
        "policies": [r#"permit(principal == Client::"ann", action, resource);"#],
        "enforce": false,
    })))
    .unwrap();
    let (ann, bob) = (identity("ann", json!({})), identity("bob", json!({"groups": true})));
    assert_eq!(shadow(&policy, &ann, &tool("fs_read", None)), (true, Some((true, "policy0".to_owned()))));
    assert_eq!(shadow(&policy, &bob, &tool("fs_read", None)), (true, Some((false, DEFAULT_DENY.to_owned()))));
    assert!(policy.could_allow(&policy.subject(&bob), &tool("fs_read", None)));
    let enforced = super::policy(&["permit(principal, action, resource);"]);
    assert_eq!(shadow(&enforced, &bob, &tool("fs_read", None)), (true, None));
}
