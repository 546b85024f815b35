//! Ways round a policy: values that it does not see as the backend does.

use super::*;

/// The idioms of the documentation, about an amount of at most 1000.
const IDIOMS: [[&str; 2]; 2] = [
    [
        "permit(principal, action, resource);",
        r#"forbid(principal, action, resource == Tool::"one_pay") when {
            context has arg_amount && context.arg_amount.greaterThan(decimal("1000.0")) };"#,
    ],
    [
        r#"permit(principal, action, resource) when {
            !(context has arg_amount) || context.arg_amount.lessThanOrEqual(decimal("1000.0")) };"#,
        r#"forbid(principal == Client::"nobody", action, resource);"#,
    ],
];

#[track_caller]
fn denied(policy: &CedarPolicy, who: &Identity, question: &Question<'_>) {
    let verdict = policy.decide(&policy.subject(who), question);
    assert!(!verdict.allowed, "{question:?}: {verdict:?}");
}

#[track_caller]
fn allowed(policy: &CedarPolicy, who: &Identity, question: &Question<'_>) {
    let verdict = policy.decide(&policy.subject(who), question);
    assert!(verdict.allowed, "{question:?}: {verdict:?}");
}

#[test]
fn an_amount_that_no_decimal_holds_is_denied() {
    let who = identity("a", json!({}));
    for idiom in IDIOMS {
        let policy = policy(&idiom);
        for amount in [
            "1e15",
            "922337203685478",
            "4111111111111111",
            "1e300",
            "18446744073709551616",
            "1e999999999",
            "1000.00001",
            "1000.0000000000000000000001",
            "\"5000\"",
            "[5000]",
            "{\"v\":5000}",
            "null",
            "true",
            "1001",
        ] {
            let arguments = format!("{{\"amount\":{amount}}}");
            denied(&policy, &who, &tool("one_pay", Some(&arguments)));
        }
        for amount in ["1000", "1e3", "999.9999", "0.1e4", "-5"] {
            let arguments = format!("{{\"amount\":{amount}}}");
            allowed(&policy, &who, &tool("one_pay", Some(&arguments)));
        }
        allowed(&policy, &who, &tool("one_pay", Some(r#"{"latitude":52.5200081,"note":null}"#)));
    }
    let of_one_pay = policy(&IDIOMS[0]);
    allowed(&of_one_pay, &who, &tool("two_pay", Some(r#"{"amount":1e15}"#)));
}

#[test]
fn an_argument_in_another_letter_case_than_a_policy_reads_is_denied() {
    let who = identity("a", json!({}));
    for idiom in IDIOMS {
        let policy = policy(&idiom);
        for arguments in
            [r#"{"Amount":5000}"#, r#"{"amount":1,"AMOUNT":5000}"#, r#"{"amount":1,"\u0041mount":5000}"#]
        {
            denied(&policy, &who, &tool("one_pay", Some(arguments)));
        }
        for arguments in [r#"{"amount":1,"Amounts":1,"note":"a","Note":"b"}"#, r#"{"a":{"Amount":5000}}"#] {
            allowed(&policy, &who, &tool("one_pay", Some(arguments)));
        }
    }
    let nested = policy(&[
        "permit(principal, action, resource);",
        r#"forbid(principal, action, resource) when { context.arguments has pay.task && context.arguments.pay.task == "go" };"#,
        "forbid(principal, action, resource) when { context has arg_id_long && context.arg_id_long > 5 };",
    ]);
    for arguments in [
        r#"{"pay":{"Task":"go"}}"#,
        "{\"pay\":{\"tas\u{212a}\":\"go\"}}",
        "{\"pay\":{\"ta\u{17f}k\":\"go\"}}",
        r#"{"Pay":{"task":"go"}}"#,
        r#"{"pay":{"task":2,"TASK":"go"}}"#,
        r#"{"pay":{"task":2,"x":1,"X":"go"}}"#,
        r#"{"pay":[{"task":2,"Task":"go"}]}"#,
        r#"{"ID":6}"#,
        r#"{"pay":{"task":"go"}}"#,
    ] {
        denied(&nested, &who, &tool("one_pay", Some(arguments)));
    }
    allowed(&nested, &who, &tool("one_pay", Some(r#"{"pay":{"task":2},"id":5,"Other":{"Task":"go"}}"#)));
}

#[test]
fn large_numbers_are_read_as_whole_numbers_or_as_text() {
    let who = identity("a", json!({}));
    let long =
        policy(&["permit(principal, action, resource) when { context.arg_id_long < 9000000000000000000 };"]);
    allowed(&long, &who, &tool("one_get", Some(r#"{"id":4111111111111111}"#)));
    denied(&long, &who, &tool("one_get", Some(r#"{"id":9223372036854775807}"#)));
    denied(&long, &who, &tool("one_get", Some(r#"{"id":1.5}"#)));
    let text = policy(&[
        r#"permit(principal, action, resource) when { context.arg_id_text == "18446744073709551616" };"#,
    ]);
    allowed(&text, &who, &tool("one_get", Some(r#"{"id":18446744073709551616}"#)));
    allowed(&text, &who, &tool("one_get", Some(r#"{"id":"18446744073709551616"}"#)));
    denied(&text, &who, &tool("one_get", Some(r#"{"id":18446744073709551617}"#)));
    denied(&text, &who, &tool("one_get", Some(r#"{"id":1,"id_text":"18446744073709551616"}"#)));
}

#[test]
fn the_record_of_arguments_is_whole_or_the_call_is_denied() {
    let who = identity("a", json!({}));
    let policy = policy(&[
        "permit(principal, action, resource);",
        r#"forbid(principal, action, resource) when {
            context.arguments has to && context.arguments.to has amount
            && context.arguments.to.amount.greaterThan(decimal("10.0")) };"#,
    ]);
    allowed(&policy, &who, &tool("one_pay", Some(r#"{"to":{"amount":1},"other":1e99}"#)));
    let deep = format!("{{\"to\":{}1{}}}", "[".repeat(11), "]".repeat(11));
    for arguments in [
        r#"{"to":{"amount":1e99}}"#,
        r#"{"to":{"amount":"11"}}"#,
        r#"{"to":{"amount":null}}"#,
        r#"{"to":{"amount":1,"list":[null]}}"#,
        r#"{"to":[{"amount":11}]}"#,
        &deep,
    ] {
        denied(&policy, &who, &tool("one_pay", Some(arguments)));
    }
}

#[test]
fn a_claim_that_cedar_cannot_hold_denies() {
    let policy = policy(&[
        "permit(principal, action, resource);",
        r#"forbid(principal, action, resource in Backend::"one") when {
            principal has claim_risk && context.claim_risk.greaterThan(decimal("5.0")) };"#,
    ]);
    for risk in [json!(1e15), json!("9"), json!(null), json!([9]), json!(9), json!(5.000_01)] {
        let who = identity("a", json!({ "risk": risk }));
        denied(&policy, &who, &tool("one_pay", None));
        assert!(!policy.could_allow(&policy.subject(&who), &tool("one_pay", None)), "{risk}");
        allowed(&policy, &who, &tool("two_pay", None));
    }
    allowed(&policy, &identity("a", json!({"risk": 5, "other": null})), &tool("one_pay", None));
}

#[test]
fn a_forbid_that_fails_to_evaluate_denies_unless_a_warning_is_wanted() {
    let policies = json!([
        "permit(principal, action, resource);",
        r#"@id("strict") forbid(principal, action, resource == Tool::"fs_write") when { context.arg_force };"#,
        "permit(principal, action, resource) when { principal.claim_missing };",
    ]);
    let who = identity("a", json!({}));
    let deny = CedarPolicy::new(&authz(&json!({ "policies": policies }))).unwrap();
    check(&deny, &who, &tool("fs_write", None), Err("strict"));
    check(&deny, &who, &tool("fs_write", Some(r#"{"force":"yes"}"#)), Err("strict"));
    check(&deny, &who, &tool("fs_write", Some(r#"{"force":false}"#)), Ok("policy0"));
    check(&deny, &who, &tool("fs_read", None), Ok("policy0"));
    let warn = CedarPolicy::new(&authz(&json!({ "policies": policies, "onPolicyError": "warn" }))).unwrap();
    let verdict = warn.decide(&warn.subject(&who), &tool("fs_write", None));
    assert!(verdict.allowed);
    assert!(verdict.failures.iter().any(|failure| failure.kind == FailureKind::Forbid), "{verdict:?}");
}

#[test]
fn a_circle_of_entities_denies() {
    let circle = CedarPolicy::new(&authz(&json!({
        "policies": [
            "permit(principal, action, resource);",
            r#"forbid(principal in THVGroup::"blocked", action, resource);"#,
        ],
        "entitiesJson": r#"[
            {"uid": {"type": "THVGroup", "id": "blocked"}, "attrs": {}, "parents": [{"type": "Client", "id": "bob"}]},
            {"uid": {"type": "MCP", "id": "vmcp"}, "attrs": {}, "parents": [{"type": "Tool", "id": "one_pay"}]}
        ]"#,
    }))).unwrap();
    let bob = identity("bob", json!({"groups": ["blocked"]}));
    denied(&circle, &bob, &tool("one_read", None));
    denied(&circle, &bob, &Question { name: "optim.find_tool", ..Question::default() });
    assert!(!circle.could_allow(&circle.subject(&bob), &tool("one_read", None)));
    let eve = identity("eve", json!({}));
    allowed(&circle, &eve, &tool("one_read", None));
    denied(&circle, &eve, &tool("one_pay", None));
}

fn resource(uri: &str) -> Question<'_> {
    Question { kind: Kind::Resource, name: uri, backend: Some("fs"), ..Question::default() }
}

#[test]
fn a_uri_is_judged_in_its_normal_form() {
    let who = identity("a", json!({}));
    let public = policy(&[
        r#"permit(principal, action == Action::"read_resource", resource) when { resource.uri like "file:///pub/*" };"#,
    ]);
    for uri in [
        "file:///pub/../priv/secret.txt",
        "file:///pub/%2e%2e/priv/secret.txt",
        "file:///pub/%2E%2E%2Fpriv/secret.txt",
        "file:///pub/..%2fpriv/secret.txt",
        "file:///pub/..\\priv\\secret.txt",
        "file:///pub/..%5cpriv/secret.txt",
        "file:///pub//../../priv/secret.txt",
        "file:///pub/%252e%252e/priv/secret.txt",
        "file:///pub/./../priv/secret.txt",
        "file:///pub/..;/priv/secret.txt",
        "file:///pub/a%00/../../priv",
        "file:///pub/..",
    ] {
        denied(&public, &who, &resource(uri));
        assert!(!public.could_allow(&public.subject(&who), &resource(uri)), "{uri}");
    }
    for uri in ["file:///pub/a.txt", "file:///pub/a/../b.txt", "file:///pub/a%20b.txt", "file:///x/../pub/b"]
    {
        allowed(&public, &who, &resource(uri));
    }
    let private = policy(&[
        "permit(principal, action, resource);",
        r#"forbid(principal, action, resource) when { resource has uri && resource.uri like "file:///priv/*" };"#,
    ]);
    for uri in [
        "file:///priv/x",
        "file:////priv/x",
        "FILE:///priv/x",
        "file://localhost/priv/x",
        "file:/priv/x",
        "file:///%70riv/x",
        "file:///%2570riv/x",
        "file:///a/../priv/x",
        "file:///priv%2Fx",
        "file:///\\priv\\x",
    ] {
        denied(&private, &who, &resource(uri));
    }
    allowed(&private, &who, &resource("file:///pub/priv"));
    let exact = policy(&[
        "permit(principal, action, resource);",
        r#"forbid(principal, action, resource == Resource::"file:///priv/x");"#,
    ]);
    denied(&exact, &who, &resource("file:///pub/../priv/x"));
}

#[test]
fn a_path_in_the_arguments_is_judged_in_its_normal_form() {
    let who = identity("a", json!({}));
    let srv = policy(&[
        r#"permit(principal, action, resource) when { context.arg_path like "/srv/*" };"#,
        r#"permit(principal, action, resource) when { context.arguments has paths && context.arguments.paths.contains("/srv/x") };"#,
        r#"forbid(principal, action, resource) when { context has arg_path && context.arg_path like "*..*" };"#,
    ]);
    for path in [
        "/srv/../etc/passwd",
        "/srv/%2e%2e/etc/passwd",
        "/srv/..%2fetc/passwd",
        "/srv/..\\\\etc",
        "/srv//x/../../../etc",
        "/srv/x/../y",
    ] {
        denied(&srv, &who, &tool("fs_read", Some(&format!("{{\"path\":\"{path}\"}}"))));
    }
    allowed(&srv, &who, &tool("fs_read", Some(r#"{"path":"/srv/x y%20z"}"#)));
    denied(&srv, &who, &tool("fs_read", Some(r#"{"paths":["/srv/x/../../etc"]}"#)));
    let etc = policy(&[
        "permit(principal, action, resource);",
        r#"forbid(principal, action, resource) when { context has arg_path && context.arg_path like "/etc/*" };"#,
    ]);
    for path in ["//etc/passwd", "/%65tc/passwd", "/x/../etc/passwd", "/etc%2fpasswd"] {
        denied(&etc, &who, &tool("fs_read", Some(&format!("{{\"path\":\"{path}\"}}"))));
    }
    allowed(&etc, &who, &tool("fs_read", Some(r#"{"path":"/srv/etc/x","text":"a/../b%2f"}"#)));
}

#[test]
fn a_host_is_judged_as_browsers_read_it() {
    let who = identity("a", json!({}));
    let inner = policy(&[
        "permit(principal, action, resource);",
        r#"forbid(principal, action, resource) when { context has arg_url && context.arg_url like "https://in.example/*" };"#,
    ]);
    let fetch = |url: &str| json!({ "url": url }).to_string();
    for url in [
        "https:///in.example/x",
        "https:in.example/%78",
        "https:\\\\in.example\\x",
        "\u{1}https://in.example/x",
        "https://a:b@IN.example.:443/x",
        "https://\u{24d8}n.example/x",
        "https://in%2Eexample/y/../x",
    ] {
        denied(&inner, &who, &tool("web_fetch", Some(&fetch(url))));
    }
    for url in
        ["https://out.example/in.example/x", "https://in.example.org/", "https://out.example/?in.example"]
    {
        allowed(&inner, &who, &tool("web_fetch", Some(&fetch(url))));
    }
}

#[test]
fn a_name_that_ends_early_for_a_server_is_denied() {
    let who = identity("a", json!({}));
    let texts = policy(&[
        r#"permit(principal, action, resource) when { context has arg_path && context.arg_path like "*.txt" };"#,
    ]);
    for path in [r"/srv/secret\u0000.txt", r"secret\u0000.txt", "/srv/secret%00.txt", "/srv/.. /x.txt"] {
        denied(&texts, &who, &tool("fs_read", Some(&format!("{{\"path\":\"{path}\"}}"))));
    }
    allowed(&texts, &who, &tool("fs_read", Some(r#"{"path":"/srv/a.txt"}"#)));
}

#[test]
fn groups_are_read_in_every_shape_or_the_client_is_denied() {
    let policy = |claim: Option<&str>| {
        CedarPolicy::new(&authz(&json!({
            "policies": [
                "permit(principal, action, resource);",
                r#"forbid(principal in THVGroup::"blocked", action, resource);"#,
            ],
            "groupClaimName": claim,
            "roleClaimName": "duty",
        })))
        .unwrap()
    };
    let (usual, nested) = (policy(None), policy(Some("/resource_access/my.app/roles")));
    for claims in [
        json!({"groups": "blocked"}),
        json!({"groups": "blocked", "roles": ["admin"]}),
        json!({"groups": ["a", "blocked"]}),
        json!({"groups": [{"name": "blocked"}]}),
        json!({"groups": [{"value": "blocked", "display": "Blocked people"}]}),
        json!({"groups": [{"display": "blocked"}]}),
        json!({"groups": {"name": "blocked"}}),
        json!({"groups": null, "roles": "blocked"}),
        json!({"cognito:groups": "blocked"}),
        json!({"groups": [], "duty": "blocked"}),
    ] {
        check(&usual, &identity("a", claims), &tool("one_read", None), Err("policy1"));
    }
    let of_app = json!({"resource_access": {"my.app": {"roles": ["blocked"]}}});
    check(&nested, &identity("a", of_app), &tool("one_read", None), Err("policy1"));
    for claims in [
        json!({"groups": [["blocked"]]}),
        json!({"groups": ["a", null]}),
        json!({"groups": {"blocked": true}}),
        json!({"groups": true}),
        json!({"groups": [{"id": "blocked"}]}),
        json!({"duty": [{}]}),
        json!({"_claim_names": {"groups": "src1"}}),
        json!({"hasgroups": true}),
    ] {
        let who = identity("a", claims);
        let verdict = usual.decide(&usual.subject(&who), &tool("one_read", None));
        assert_eq!(
            verdict.failures.first().map(|it| it.kind),
            Some(FailureKind::Groups),
            "{who:?} {verdict:?}"
        );
        assert!(!usual.could_allow(&usual.subject(&who), &tool("one_read", None)));
    }
    let indifferent = super::policy(&["permit(principal, action, resource);"]);
    allowed(&indifferent, &identity("a", json!({"groups": true})), &tool("one_read", None));
}

/// Policies of a server with a company's issuer, a partner's and keys.
fn federated(policies: &[&str], partner: &str) -> CedarPolicy {
    let config = json!({
        "incomingAuth": {
            "type": "oidc",
            "oidc": {"issuer": "https://company", "audience": "a"},
            "additionalIssuers": [serde_json::from_str::<Value>(partner).unwrap()],
            "apiKeys": [{"subject": "ci", "key": "0123456789abcdef", "groups": ["finance"]}],
            "authz": {"policies": policies},
        }
    });
    let loaded = load(&config.to_string(), "vmcp.yaml", &|_| None).unwrap();
    CedarPolicy::new(&loaded.config.authz.unwrap()).unwrap()
}

fn of(issuer: &str, subject: &str) -> Identity {
    let Value::Object(claims) = json!({"groups": ["finance"]}) else { unreachable!() };
    Identity::known(issuer, subject, claims, None)
}

#[test]
fn identities_of_different_sources_share_no_principal() {
    let partner = r#"{"issuer": "https://partner", "audience": "a"}"#;
    let named = federated(
        &[
            r#"permit(principal == Client::"cfo", action, resource);"#,
            r#"permit(principal == Client::"ci", action, resource);"#,
            r#"permit(principal == Client::"anonymous", action, resource);"#,
        ],
        partner,
    );
    let question = tool("one_pay", None);
    for (issuer, subject, may) in [
        ("https://company", "cfo", true),
        ("https://partner", "cfo", false),
        ("apiKeys", "cfo", true),
        ("apiKeys", "ci", true),
        ("https://company", "ci", false),
        ("https://partner", "ci", false),
        ("https://company", "anonymous", false),
        ("https://partner", "anonymous", false),
    ] {
        let who = of(issuer, subject);
        assert_eq!(named.decide(&named.subject(&who), &question).allowed, may, "{issuer} {subject}");
        assert_eq!(named.could_allow(&named.subject(&who), &question), may, "{issuer} {subject}");
    }
    allowed(&named, &Identity::Anonymous, &question);
    let finance = federated(&[r#"permit(principal in THVGroup::"finance", action, resource);"#], partner);
    allowed(&finance, &of("https://company", "x"), &question);
    allowed(&finance, &of("apiKeys", "x"), &question);
    denied(&finance, &of("https://partner", "x"), &question);
    let explicit = federated(
        &[
            r#"permit(principal == Client::"https://partner#cfo", action, resource in Backend::"one");"#,
            r#"permit(principal in THVGroup::"https://partner#finance", action, resource in Backend::"two");"#,
            r#"permit(principal in Issuer::"https://partner", action, resource in Backend::"three");"#,
        ],
        partner,
    );
    for (name, subject) in [("one_pay", "cfo"), ("two_pay", "x"), ("three_pay", "x")] {
        allowed(&explicit, &of("https://partner", subject), &tool(name, None));
        denied(&explicit, &of("https://company", subject), &tool(name, None));
        denied(&explicit, &of("https://company", &format!("https://partner#{subject}")), &tool(name, None));
    }
    let off = r#"{"issuer": "https://partner", "audience": "a", "subjectPrefix": "p:", "groups": "off"}"#;
    let off = federated(
        &[
            r#"permit(principal == Client::"p:cfo", action, resource); permit(principal in THVGroup::"finance", action, resource);"#,
        ],
        off,
    );
    allowed(&off, &of("https://partner", "cfo"), &question);
    denied(&off, &of("https://partner", "x"), &question);
}

#[test]
fn a_forbid_by_a_bare_name_holds_for_every_source() {
    let policies = [
        "permit(principal, action, resource);",
        r#"@id("person") forbid(principal == Client::"mallory", action, resource);"#,
        r#"@id("group") forbid(principal in THVGroup::"finance", action, resource == Tool::"one_pay");"#,
    ];
    for partner in [
        r#"{"issuer": "https://partner", "audience": "a"}"#,
        r#"{"issuer": "https://partner", "audience": "a", "subjectPrefix": "p:", "groups": "off"}"#,
    ] {
        let policy = federated(&policies, partner);
        for issuer in ["https://company", "https://partner", "apiKeys"] {
            check(&policy, &of(issuer, "mallory"), &tool("one_read", None), Err("person"));
            check(&policy, &of(issuer, "x"), &tool("one_pay", None), Err("group"));
            check(&policy, &of(issuer, "x"), &tool("one_read", None), Ok("policy0"));
        }
    }
}

#[test]
fn a_permit_by_a_form_that_many_uris_share_permits_none_of_them() {
    let who = identity("a", json!({}));
    let read = |uri| Question { kind: Kind::Resource, name: uri, backend: Some("fs"), ..tool("fs", None) };
    let shared = ["file:///a.txt", "file:///a/txt", "file:///a?txt", "file:///a=txt", "file://:a.txt"];
    let permit = r#"permit(principal, action, resource == Resource::"file____a_txt");"#;
    let permitting = policy(&[permit]);
    let forbidding = policy(&["permit(principal, action, resource);", &permit.replace("permit", "forbid")]);
    for uri in shared {
        denied(&permitting, &who, &read(uri));
        assert!(!permitting.could_allow(&permitting.subject(&who), &read(uri)), "{uri}");
        denied(&forbidding, &who, &read(uri));
    }
    // A URI is the id of one resource; a general permit is none by a form.
    let exact = policy(&[r#"permit(principal, action, resource == Resource::"file:///a.txt");"#]);
    allowed(&exact, &who, &read("file:///a.txt"));
    denied(&exact, &who, &read("file:///a/txt"));
    allowed(
        &policy(&[r#"permit(principal, action, resource in Backend::"fs");"#]),
        &who,
        &read("file:///a/txt"),
    );
}
