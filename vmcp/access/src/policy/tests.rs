//! Tests of policies: entities and attributes as ToolHive has them, lists, and ways to mislead a policy.

use serde_json::{Value, json};
use vmcp_config::{Authz, load};

use super::*;

mod agreement;
mod record_keys;
mod security;
mod shadow;

fn authz(settings: &Value) -> Arc<Authz> {
    let config = json!({"incomingAuth": {"authz": settings}});
    load(&config.to_string(), "vmcp.yaml", &|_| None).unwrap().config.authz.unwrap()
}

fn policy(texts: &[&str]) -> CedarPolicy {
    CedarPolicy::new(&authz(&json!({ "policies": texts }))).unwrap()
}

fn identity(subject: &str, claims: Value) -> Identity {
    let Value::Object(claims) = claims else { unreachable!() };
    Identity::known("https://idp", subject, claims, None)
}

fn tool<'a>(name: &'a str, arguments: Option<&'a str>) -> Question<'a> {
    let backend = Some(name.split('_').next().unwrap());
    let attributes = vec![("readOnlyHint", Attribute::Flag(name.ends_with("read")))];
    Question { kind: Kind::Tool, name, backend, attributes, arguments }
}

#[track_caller]
fn check(policy: &CedarPolicy, who: &Identity, question: &Question<'_>, expected: Result<&str, &str>) {
    let verdict = policy.decide(&policy.subject(who), question);
    let decided = if verdict.allowed { Ok(&*verdict.policy) } else { Err(&*verdict.policy) };
    assert_eq!(decided, expected, "{question:?}: {verdict:?}");
}

#[test]
fn what_no_policy_permits_is_denied_and_a_forbid_wins() {
    let policy = policy(&[
        r#"permit(principal == Client::"alice", action == Action::"call_tool", resource);"#,
        r#"@id("no-drop") forbid(principal, action, resource == Tool::"db_drop");"#,
    ]);
    let (alice, bob) = (identity("alice", json!({})), identity("bob", json!({})));
    check(&policy, &alice, &tool("db_read", None), Ok("policy0"));
    check(&policy, &alice, &tool("db_drop", None), Err("no-drop"));
    check(&policy, &bob, &tool("db_read", None), Err(DEFAULT_DENY));
    check(&policy, &Identity::Anonymous, &tool("db_read", None), Err(DEFAULT_DENY));
    let prompt = Question { kind: Kind::Prompt, ..tool("db_read", None) };
    check(&policy, &alice, &prompt, Err(DEFAULT_DENY));
}

#[test]
fn groups_claims_hints_backends_and_servers_are_known_to_policies() {
    let policy = CedarPolicy::new(&authz(&json!({
        "policies": [
            r#"permit(principal in THVGroup::"all", action, resource in Backend::"git");"#,
            r#"permit(principal, action, resource) when { principal.claim_dept == "x" && resource.readOnlyHint };"#,
            r#"permit(principal, action, resource in MCP::"prod") when { context.claim_level.greaterThan(decimal("4.5")) };"#,
            r#"permit(principal in THVGroup::"op", action, resource in Kind::"risky");"#,
        ],
        "entitiesJson": r#"[
            {"uid": {"type": "THVGroup", "id": "dev"}, "attrs": {}, "parents": [{"type": "THVGroup", "id": "all"}]},
            {"uid": {"type": "Tool", "id": "db_drop"}, "attrs": {}, "parents": [{"type": "Kind", "id": "risky"}]}
        ]"#,
        "groupClaimName": "realm.groups",
        "roleClaimName": "duties",
        "serverName": "prod",
    }))).unwrap();
    let dev = identity("d", json!({"realm": {"groups": ["dev"]}, "groups": ["ignored"]}));
    check(&policy, &dev, &tool("git_push", None), Ok("policy0"));
    check(&policy, &dev, &tool("db_read", None), Err(DEFAULT_DENY));
    let x = identity("x", json!({"dept": "x"}));
    check(&policy, &x, &tool("db_read", None), Ok("policy1"));
    check(&policy, &x, &tool("db_drop", None), Err(DEFAULT_DENY));
    check(&policy, &identity("l", json!({"level": 5})), &tool("db_drop", None), Ok("policy2"));
    let operator = identity("o", json!({"duties": ["op"]}));
    check(&policy, &operator, &tool("db_drop", None), Ok("policy3"));
    check(&policy, &operator, &tool("db_read", None), Err(DEFAULT_DENY));
}

#[test]
fn arguments_decide_and_lists_show_what_could_be_allowed() {
    let policy = policy(&[
        r#"permit(principal, action, resource) when { context.arg_path like "/tmp/*" };"#,
        r#"forbid(principal, action, resource == Tool::"fs_write") when { resource has arg_force && resource.arg_force };"#,
        r#"forbid(principal, action, resource == Tool::"fs_never") unless { principal.claim_admin && context has arg_x };"#,
        r#"permit(principal, action, resource == Tool::"fs_deep") when { context.arguments.a.b == "c" };"#,
        r#"permit(principal, action, resource == Tool::"fs_set") when { context has arg_list_present };"#,
    ]);
    let who = identity("a", json!({"admin": false}));
    check(&policy, &who, &tool("fs_write", Some(r#"{"path":"/tmp/x"}"#)), Ok("policy0"));
    check(&policy, &who, &tool("fs_write", Some(r#"{"path":"/etc/x"}"#)), Err(DEFAULT_DENY));
    check(&policy, &who, &tool("fs_write", Some(r#"{"path":"/tmp/x","force":true}"#)), Err("policy1"));
    check(&policy, &who, &tool("fs_write", None), Err(DEFAULT_DENY));
    check(&policy, &who, &tool("fs_deep", Some(r#"{"a":{"b":"c"}}"#)), Ok("policy3"));
    check(&policy, &who, &tool("fs_set", Some(r#"{"list":[],"path":"/x"}"#)), Ok("policy4"));
    let subject = policy.subject(&who);
    assert!(policy.could_allow(&subject, &tool("fs_write", None)));
    assert!(!policy.could_allow(&subject, &tool("fs_never", None)));
}

#[test]
fn a_policy_cannot_be_misled_by_arguments() {
    let policy = policy(&[
        "permit(principal, action, resource);",
        r#"forbid(principal, action, resource) when { context has arg_path && context.arg_path == "/etc" };"#,
        r#"forbid(principal, action, resource) when { resource.backend == "db" };"#,
    ]);
    let who = identity("a", json!({}));
    check(&policy, &who, &tool("fs_read", Some(r#"{"path":"/etc","path":"/tmp"}"#)), Err(UNREADABLE));
    check(&policy, &who, &tool("fs_read", Some(r#"{"\u0070ath":"/etc"}"#)), Err("policy1"));
    check(&policy, &who, &tool("fs_read", Some("[]")), Err(UNREADABLE));
    check(&policy, &who, &tool("fs_read", Some(" null ")), Ok("policy0"));
    check(&policy, &who, &tool("db_read", Some(r#"{"backend":"fs"}"#)), Err("policy2"));
}

#[test]
fn own_tools_are_allowed_unless_a_policy_forbids_them_in_any_spelling() {
    let own = Question { name: "optim.call_tool", ..Question::default() };
    let who = identity("bob", json!({}));
    for spelling in ["optim.call_tool", "optim_call_tool", "call_tool"] {
        let forbid =
            format!(r#"forbid(principal == Client::"bob", action, resource == Tool::"{spelling}");"#);
        let policy = policy(&[&forbid]);
        check(&policy, &who, &own, Err("policy0"));
        assert!(!policy.could_allow(&policy.subject(&who), &own));
        check(&policy, &identity("eve", json!({})), &own, Ok(OWN_TOOLS));
    }
    let named = policy(&[
        r#"forbid(principal, action, resource) when { context has arg_tool_name && context.arg_tool_name like "db*" };"#,
    ]);
    let arguments = Some(r#"{"tool_name":"db_drop"}"#);
    check(&named, &who, &Question { arguments, ..own.clone() }, Err("policy0"));
    assert!(named.could_allow(&named.subject(&who), &own));
}

#[test]
fn the_verdict_about_an_own_tool_is_kept_unless_arguments_may_matter() {
    let who = identity("bob", json!({}));
    let own = |arguments| Question { name: "optim.find_tool", arguments, ..Question::default() };
    let plain = policy(&["permit(principal, action, resource);"]);
    let reads = |policy: &CedarPolicy| policy.reads_arguments(&policy.subject(&who), &own(None));
    assert!(!reads(&plain));
    for _ in 0..2 {
        check(&plain, &who, &own(Some(r#"{"q":"any"}"#)), Ok("policy0"));
    }
    check(&plain, &who, &own(Some(r#"{"q":1,"q":2}"#)), Err(UNREADABLE));
    let careful = policy(&[
        "permit(principal, action, resource);",
        r#"forbid(principal, action, resource) when { context has arg_q && context.arg_q == "secret" };"#,
    ]);
    check(&careful, &who, &own(Some(r#"{"q":"any"}"#)), Ok("policy0"));
    check(&careful, &who, &own(Some(r#"{"q":"secret"}"#)), Err("policy1"));
    check(&careful, &who, &own(Some(r#"{"q":"any"}"#)), Ok("policy0"));
    for condition in ["context.arguments.a == 1", "context == {}", "resource has arg_a"] {
        let depends = policy(&[&format!("permit(principal, action, resource) when {{ {condition} }};")]);
        assert!(reads(&depends), "{condition}");
    }
    for (scope, item) in
        [("principal == Client::\"eve\"", "resource"), ("principal", "resource == Tool::\"other\"")]
    {
        let of_others = format!("forbid({scope}, action, {item}) when {{ context has arg_q }};");
        assert!(!reads(&policy(&[&of_others])), "{scope}");
    }
}

#[test]
fn a_resource_is_known_by_its_uri_and_by_the_form_that_toolhive_gives_it() {
    let note =
        Question { kind: Kind::Resource, name: "file:///a.txt", backend: Some("fs"), ..tool("fs", None) };
    let who = identity("a", json!({}));
    for id in ["file:///a.txt", "file____a_txt"] {
        let permit = format!(r#"permit(principal, action, resource == Resource::"{id}");"#);
        let settings = json!({"policies": [permit], "resourceIds": "toolhive"});
        let permitted = CedarPolicy::new(&authz(&settings)).unwrap();
        check(&permitted, &who, &note, Ok("policy0"));
        let both = format!(r#"forbid(principal, action, resource == Resource::"{id}");"#);
        let forbidden = policy(&["permit(principal, action, resource);", &both]);
        check(&forbidden, &who, &note, Err("policy1"));
    }
}

#[test]
fn scopes_of_a_token_are_a_set() {
    let by_client =
        policy(&[r#"permit(principal, action, resource) when { principal.scopes.contains("write") };"#]);
    let by_context = policy(&[
        r#"forbid(principal, action, resource) unless { context.scopes.containsAll(["read", "write"]) };"#,
        "permit(principal, action, resource);",
    ]);
    for (claims, write, both) in [
        (json!({"scope": "read write"}), true, true),
        (json!({"scp": ["write"], "scopes": ["read"]}), true, false),
        (json!({"scope": "rewrite"}), false, false),
        (json!({"scope": 7}), false, false),
        (json!({}), false, false),
    ] {
        let who = identity("a", claims);
        check(
            &by_client,
            &who,
            &tool("db_read", None),
            if write { Ok("policy0") } else { Err(DEFAULT_DENY) },
        );
        check(&by_context, &who, &tool("db_read", None), if both { Ok("policy1") } else { Err("policy0") });
    }
}

#[test]
fn a_renewed_token_has_the_rights_of_the_one_before() {
    let at = |exp: u64| identity("a", json!({"exp": exp, "jti": exp.to_string(), "role": "dev"}));
    let indifferent =
        policy(&["permit(principal, action, resource) when { principal.claim_role == \"dev\" };"]);
    assert_eq!(indifferent.key(&at(1)), indifferent.key(&at(2)));
    assert_ne!(indifferent.key(&at(1)), indifferent.key(&identity("a", json!({"role": "ops"}))));
    let reads_expiry = policy(&["permit(principal, action, resource) when { principal has claim_exp };"]);
    assert_ne!(reads_expiry.key(&at(1)), reads_expiry.key(&at(2)));
}
