//! `authServer`: the smallest form, how it joins `incomingAuth` and `outgoingAuth`, mistakes.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::time::Duration;

use serde_json::{Value, json};
use vmcp_config::{Config, UpstreamKind};

fn provider(name: &str) -> Value {
    json!({"name": name, "type": "oidc", "oidcConfig": {"issuerUrl": "https://idp.example", "clientId": "vmcp"}})
}

/// A file with `more` laid over the smallest server.
fn file(more: Value) -> Value {
    let mut file = json!({
        "authServer": {"issuer": "https://tools.example", "upstreamProviders": [provider("corp")]},
        "backends": [{"name": "forge", "url": "https://forge.example/mcp"}],
    });
    merge(&mut file, more);
    file
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

fn load(more: Value) -> Config {
    vmcp_config::load(&file(more).to_string(), "f", &|_| None).unwrap().config
}

fn mistakes(more: Value) -> Vec<String> {
    let problems = vmcp_config::load(&file(more).to_string(), "f", &|_| None).unwrap_err();
    problems.list.iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect()
}

fn inject(provider: &str) -> Value {
    let auth = json!({"type": "upstream_inject", "upstreamInject": {"providerName": provider}});
    json!({"backends": {"forge": auth}})
}

#[test]
fn an_issuer_and_a_provider_are_enough_and_clients_then_need_a_token() {
    let config = load(json!({}));
    let server = config.incoming_auth.auth_server.as_ref().unwrap();
    assert_eq!(server.resource.as_str(), "https://tools.example/mcp");
    assert_eq!((server.access_life, server.code_life), (Duration::from_hours(1), Duration::from_mins(10)));
    assert!(!config.incoming_auth.is_anonymous());
    let own = &config.incoming_auth.issuers[0];
    assert_eq!(
        (own.issuer.as_str(), own.audience.as_str()),
        ("https://tools.example", "https://tools.example/mcp")
    );
    let UpstreamKind::Oidc { issuer, subject_claim } = &server.upstreams[0].kind else {
        panic!("{server:?}")
    };
    assert_eq!((issuer.audience.as_str(), subject_claim.as_str()), ("vmcp", "sub"));
    assert_eq!(server.upstreams[0].scopes, ["openid", "offline_access"]);
    assert!(server.access_tokens_of.is_empty(), "no backend needs a token");
}

#[test]
fn the_block_of_incoming_auth_says_what_tokens_are_for_and_backends_what_they_carry() {
    let config = load(json!({
        "incomingAuth": {"type": "oidc", "oidc": {
            "issuer": "https://tools.example", "resource": "https://tools.example/team/mcp",
            "audience": "team", "requiredScopes": ["tools:read"],
        }},
        "outgoingAuth": inject("corp"),
        "server": {"sessionKeys": ["a session key of enough characters"]},
    }));
    assert_eq!(config.incoming_auth.issuers.len(), 1);
    let server = config.incoming_auth.auth_server.as_ref().unwrap();
    assert_eq!((server.audience.as_str(), &server.scopes), ("team", &vec!["tools:read".to_owned()]));
    assert_eq!(server.resource.as_str(), "https://tools.example/team/mcp");
    assert_eq!(server.sealing_secrets.len(), 1, "those of sessions");
    assert!(server.access_tokens_of.contains("corp") && server.id_tokens_of.is_empty());
    assert!(config.backends[0].tells_clients_apart());
    let exchange = json!({"type": "tokenExchange", "tokenExchange": {
        "tokenUrl": "https://idp.example/token", "subjectTokenType": "id_token",
    }});
    let config = load(json!({"outgoingAuth": {"backends": {"forge": exchange}}}));
    let server = config.incoming_auth.auth_server.as_ref().unwrap();
    assert!(server.id_tokens_of.contains("corp"), "the first provider stands for the client");
}

#[test]
fn mistakes_name_their_place() {
    let forge = "outgoingAuth.backends.forge.upstreamInject.providerName";
    for (more, expected) in [
        (json!({"outgoingAuth": inject("other")}), format!("{forge}: `other` is not among")),
        (json!({"authServer": null, "outgoingAuth": inject("corp")}), format!("{forge}: clients sign in")),
        (json!({"incomingAuth": {"type": "anonymous"}}), "incomingAuth.type: with `authServer`".to_owned()),
        (
            json!({"authServer": {"issuer": "http://tools.example"}}),
            "authServer.issuer: tokens would".to_owned(),
        ),
        (
            json!({"authServer": {"issuer": "https://tools.example/"}}),
            "authServer.issuer: an issuer has".to_owned(),
        ),
        (
            json!({"authServer": {"upstreamProviders": []}}),
            "authServer.upstreamProviders: missing".to_owned(),
        ),
        (
            json!({"authServer": {"upstreamProviders": [provider("a"), provider("a")]}}),
            "authServer.upstreamProviders[1].name: given twice".to_owned(),
        ),
        (
            json!({"authServer": {"upstreamProviders": [provider("Not A Name")]}}),
            "authServer.upstreamProviders[0].name: `Not A Name` is no name".to_owned(),
        ),
        (json!({"authServer": {"hmacSecrets": ["short"]}}), "authServer.hmacSecrets[0]: shorter".to_owned()),
        (
            json!({"authServer": {"upstreamProviders": [{"name": "a", "type": "oauth2", "oauth2Config": {
                "authorizationEndpoint": "https://a.example/a", "tokenEndpoint": "http://a.example/t", "clientId": "v",
                "additionalAuthorizationParams": {"state": "x"},
            }}]}}),
            "authServer.upstreamProviders[0].oauth2Config.tokenEndpoint: secrets and tokens".to_owned(),
        ),
    ] {
        let found = mistakes(more.clone());
        assert!(found.iter().any(|found| found.starts_with(&expected)), "{expected} for {more}: {found:?}");
    }
}
