//! `outgoingAuth`: resolution per backend, both spellings, mistakes.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use vmcp_config::{AwsKeys, Config, Credentials, Transport};

fn variables(name: &str) -> Option<String> {
    (name == "SECRET").then(|| "s3cret".to_owned())
}

fn load(text: &str) -> Config {
    vmcp_config::load(text, "f", &variables).unwrap().config
}

fn mistakes(text: &str) -> Vec<String> {
    let problems = vmcp_config::load(text, "f", &variables).unwrap_err();
    problems.list.iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect()
}

const BACKENDS: &str = "
backends:
  - { name: a, url: 'https://a.example/mcp' }
  - { name: b, url: 'https://b.example/mcp' }
  - { name: c, url: 'https://c.example/mcp', headers: { Authorization: Bearer c } }
  - { name: d, command: d }
";

#[test]
fn a_backend_has_its_own_entry_else_the_default_else_none() {
    let config = load(&format!(
        "{BACKENDS}
outgoingAuth:
  source: inline
  default:
    type: token_exchange
    tokenExchange:
      tokenUrl: 'https://idp.example/token'
      audience: x
      clientId: v
      clientSecretEnv: SECRET
      subjectTokenType: jwt
  backends:
    b:
      type: header_injection
      headerInjection: {{ headerName: X-Api-Key, headerValueEnv: SECRET }}
"
    ));
    let [a, b, c, d] = &*config.backends else { panic!() };
    let Credentials::TokenExchange(exchange) = &a.credentials else { panic!("{a:?}") };
    assert_eq!(exchange.subject_token_type, "urn:ietf:params:oauth:token-type:jwt");
    assert_eq!(exchange.endpoint.client_secret.as_ref().unwrap().expose(), "s3cret");
    assert!(a.tells_clients_apart() && !b.tells_clients_apart());
    let Transport::Http { headers, .. } = &b.transport else { panic!() };
    assert_eq!((headers["x-api-key"].expose(), &b.credentials), ("s3cret", &Credentials::None));
    assert_eq!(c.credentials, Credentials::None, "a constant Authorization header is an entry of its own");
    assert_eq!(d.credentials, Credentials::Automatic, "a program has no headers");
    assert!(!config.effective_yaml().contains("s3cret"), "{}", config.effective_yaml());
    assert_eq!(load(BACKENDS).backends[0].credentials, Credentials::Automatic);
}

#[test]
fn both_spellings_of_kinds_mean_the_same() {
    for (spelling, kind) in [
        ("client_credentials", "clientCredentials"),
        ("clientCredentials", "clientCredentials"),
        ("unauthenticated", "unauthenticated"),
        ("oauth", "oauth"),
    ] {
        let block = "{ tokenUrl: 'http://127.0.0.1:1/token', clientId: v, clientSecret: '${SECRET}' }";
        let block = if kind == "clientCredentials" { format!(", {kind}: {block}") } else { String::new() };
        let text =
            format!("{BACKENDS}\noutgoingAuth: {{ backends: {{ a: {{ type: {spelling}{block} }} }} }}");
        assert_eq!(load(&text).backends[0].credentials.kind(), kind, "{spelling}");
    }
}

#[test]
fn own_credentials_of_clients_are_in_no_passthrough_list() {
    let keys =
        "incomingAuth: { type: apiKeys, apiKeys: [{ key: a-key-of-enough-characters, subject: ci }] }\n";
    let common = "passthroughHeaders: [X-Api-Key]\nbackends: [{ name: one, url: 'https://one.example' }]";
    let of_one = "backends: [{ name: one, url: 'https://one.example' }]\noutgoingAuth: { backends: { one: { type: passthrough, passthrough: { headers: [X-API-Key] } } } }";
    for lists in [common, of_one] {
        let found = mistakes(&format!("{keys}{lists}"));
        let expected = "passthroughHeaders: `x-api-key` holds the keys of this server's own clients (incomingAuth.apiKeys)";
        assert_eq!(found, [expected]);
        // Where vmcp takes no keys, the header is the backend's.
        load(lists);
    }
    for name in ["vmcp-forwarded", "Vmcp-Anything", "DPoP", "Sec-Fetch-Site", "Via", "X-Real-IP"] {
        let text =
            format!("passthroughHeaders: [{name}]\nbackends: [{{ name: one, url: 'https://one.example' }}]");
        assert_eq!(mistakes(&text).len(), 1, "{name}");
    }
}

#[test]
fn only_listed_headers_of_clients_are_passed_on_and_constant_ones_win() {
    let config = load(&format!(
        "{BACKENDS}
passthroughHeaders: [X-Tenant]
outgoingAuth:
  backends:
    b: {{ type: passthrough, passthrough: {{ headers: [Authorization] }} }}
"
    ));
    let names = |index: usize| config.backends[index].passthrough_headers.iter().cloned().collect::<Vec<_>>();
    assert_eq!(names(0), ["x-tenant"]);
    assert_eq!(names(1), ["authorization", "x-tenant"]);
    assert!(names(3).is_empty());
    let refused = "passthroughHeaders: [Authorization, Cookie, Host, X-Forwarded-For, Mcp-Session-Id, 'a b']";
    assert_eq!(
        mistakes(&format!("{BACKENDS}\n{refused}")),
        [
            "passthroughHeaders[1]: `cookie` is not passed on",
            "passthroughHeaders[2]: `host` is not passed on",
            "passthroughHeaders[3]: `x-forwarded-for` is not passed on",
            "passthroughHeaders[4]: `mcp-session-id` is not passed on",
            "passthroughHeaders[5]: not a header name",
            "passthroughHeaders: `Authorization` would go to every backend",
        ]
    );
}

#[test]
fn mistakes_have_their_path() {
    let mistakes = mistakes(&format!(
        "{BACKENDS}
outgoingAuth:
  default: {{ type: clientCredentials }}
  backends:
    a:
      type: clientCredentials
      clientCredentials: {{ tokenUrl: 'http://idp.example/token', clientId: v }}
    b: {{ type: xaa, xaa: {{ idpTokenUrl: 'https://idp.example/token' }}, obo: {{ tenantId: t }} }}
    c: {{ type: oauth }}
    d: {{ type: passthrough, passthrough: {{ headers: [X-A] }} }}
    e: {{ type: unauthenticated }}
"
    ));
    for expected in [
        "outgoingAuth.default.clientCredentials: missing",
        "outgoingAuth.backends.a.clientCredentials.clientSecret: missing",
        "outgoingAuth.backends.a.clientCredentials.tokenUrl: secrets and tokens would travel unencrypted",
        "outgoingAuth.backends.b.xaa.targetAudience: missing",
        "outgoingAuth.backends.b.xaa.targetTokenUrl: missing",
        "outgoingAuth.backends.b.obo: this block belongs to another `type`",
        "backends[2].headers.Authorization: `outgoingAuth.backends.c` sets it too",
        "outgoingAuth.backends.d: only a backend with `url` has this",
        "outgoingAuth.backends.e: no backend is named `e`",
    ] {
        assert!(mistakes.iter().any(|mistake| mistake == expected), "{expected}\n{mistakes:#?}");
    }
    assert_eq!(mistakes.len(), 9, "{mistakes:#?}");
}

#[test]
fn a_secret_without_a_value_switches_off_the_backends_that_need_it_and_no_other() {
    let loaded = vmcp_config::load(
        &format!(
            "{BACKENDS}
outgoingAuth:
  backends:
    a: {{ type: headerInjection, headerInjection: {{ headerName: X-Key, headerValue: '${{NONE}}' }} }}
"
        ),
        "f",
        &variables,
    );
    let config = loaded.unwrap().config;
    assert_eq!(
        config.backends.iter().map(|backend| backend.enabled).collect::<Vec<_>>(),
        [false, true, true, true]
    );
    assert!(config.unavailable["a"].contains("`NONE` is not set"));
}

#[test]
fn aws_has_roles_by_claims_one_role_for_all_or_constant_keys() {
    let config = load(
        &format!(
            "{BACKENDS}
outgoingAuth:
  backends:
    a:
      type: aws_sts
      awsSts:
        region: cn-north-1
        roleMappings:
          - {{ claim: late, roleArn: 'arn:aws-cn:iam::1:role/late' }}
          - {{ claim: second, roleArn: 'arn:aws-cn:iam::1:role/b', priority: 2 }}
          - {{ claim: first, roleArn: 'arn:aws-cn:iam::1:role/a', priority: 1 }}
    b:
      type: awsSts
      awsSts: {{ region: eu-west-1, fallbackRoleArn: 'arn:aws:iam::1:role/r', webIdentityTokenFile: /t }}
    c:
      type: awsSts
      awsSts: {{ region: eu-west-1, service: s, accessKeyId: AKID, secretAccessKey: '${{SECRET}}' }}
"
        )
        .replace(", headers: { Authorization: Bearer c }", ""),
    );
    let aws = |index: usize| match &config.backends[index].credentials {
        Credentials::AwsSts(settings) => settings.clone(),
        other => panic!("{other:?}"),
    };
    let AwsKeys::Role(roles) = aws(0).keys else { panic!() };
    assert_eq!(roles.endpoint.as_str(), "https://sts.cn-north-1.amazonaws.com.cn/");
    let order: Vec<_> = roles.mappings.iter().map(|(claim, _)| claim.as_str()).collect();
    assert_eq!((order, roles.session_duration.as_secs()), (vec!["first", "second", "late"], 3600));
    assert_eq!((aws(0).service, aws(2).service), ("aws-mcp".to_owned(), "s".to_owned()));
    let apart: Vec<_> = config.backends.iter().map(vmcp_config::Backend::tells_clients_apart).collect();
    assert_eq!(apart, [true, false, false, false]);
    assert!(!config.effective_yaml().contains("s3cret") && !config.effective_yaml().contains("AKID"));
}

#[test]
fn mistakes_about_aws_are_named() {
    let of = |block: &str| {
        let entry = format!("{{ type: awsSts, awsSts: {{ {block} }} }}");
        mistakes(&format!("{BACKENDS}\noutgoingAuth: {{ backends: {{ a: {entry} }} }}\n"))
    };
    let role = "fallbackRoleArn: 'arn:aws:iam::1:role/r'";
    for (block, expected) in [
        (role, "region: missing"),
        ("region: 'us east'", "region: not a region"),
        ("region: r", "fallbackRoleArn: missing"),
        ("region: r, fallbackRoleArn: admin", "fallbackRoleArn: not the ARN of a role"),
        ("region: r, accessKeyId: A", "secretAccessKey: missing"),
        (
            &format!("region: r, accessKeyId: A, secretAccessKey: B, {role}"),
            "accessKeyId: constant keys have no roles",
        ),
        (
            &format!("region: r, stsEndpoint: 'http://sts.example', {role}"),
            "stsEndpoint: secrets and tokens would travel unencrypted",
        ),
        (
            "region: r, webIdentityTokenFile: /t, roleMappings: [{ claim: c, roleArn: 'arn:aws:iam::1:role/r' }]",
            "fallbackRoleArn: missing",
        ),
        (&format!("region: r, roleMappings: [{{ claim: c }}], {role}"), "roleMappings[0].roleArn: missing"),
    ] {
        assert_eq!(of(block), [format!("outgoingAuth.backends.a.awsSts.{expected}")], "{block}");
    }
}
