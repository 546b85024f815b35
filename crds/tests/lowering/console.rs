//! Lowering of `spec.console`.

use vmcp_config::ConsoleAccess;

use super::*;

/// Returns a provider with this redirect URI.
fn provider(redirect_uri: &str) -> Value {
    json!({
        "issuerUrl": "https://login.example.com", "clientId": "pay${me}",
        "clientSecretRef": { "name": "login", "key": "secret" }, "redirectUri": redirect_uri,
        "operators": ["platform"], "viewers": ["engineering"], "allowPrivateIPs": true,
    })
}

fn lowered(console: &Value) -> Result<Lowered, String> {
    let lowered = lower(&json!({ "console": console }), &ReferencedObjects::default());
    lowered.map_err(|invalid| invalid.to_string())
}

#[test]
fn the_console_is_served_as_the_resource_says() {
    let viewers = json!([{ "name": "viewers", "key": "first" }]);
    for (console, access) in [
        (json!({}), ConsoleAccess::Loopback),
        (json!({ "access": "off" }), ConsoleAccess::Off),
        (json!({ "access": "loopback" }), ConsoleAccess::Loopback),
        (json!({ "access": "tokens", "viewerTokenSecretRefs": viewers }), ConsoleAccess::Tokens),
    ] {
        assert_eq!(lowered(&console).unwrap().config.server.console, access, "{console}");
    }
    let without = lower(&json!({}), &ReferencedObjects::default()).unwrap();
    assert!(!without.text.contains("console"), "an earlier vmcp reads it: {}", without.text);
}

#[test]
fn tokens_and_the_provider_arrive_as_references_to_secrets() {
    let lowered = lowered(&json!({
        "access": "oidc", "signIn": provider("https://vmcp.example.com/console/oidc/callback"),
        "operatorTokenSecretRefs": [{ "name": "operators", "key": "first" }],
        "viewerTokenSecretRefs": [{ "name": "viewers", "key": "first" }],
    }))
    .unwrap();
    let server = &lowered.config.server;
    assert_eq!((server.admin_tokens.len(), server.viewer_tokens.len()), (2, 1));
    let own = server.admin_tokens[0].expose();
    assert!(own.ends_with("/admin-token"), "replicas ask with the first one, {own}");
    let sign_in = server.console_sign_in.as_ref().unwrap();
    assert_eq!((sign_in.role_claim.as_str(), sign_in.operators[0].as_str()), ("groups", "platform"));
    for reference in [secret("operators", "first"), secret("viewers", "first"), secret("login", "secret")] {
        assert!(lowered.secrets.values().any(|known| *known == reference), "{reference:?}");
    }
    assert!(lowered.text.contains("clientId: pay$${me}"), "{}", lowered.text);
    assert!(lowered.text.contains("clientSecret: ${file:"), "{}", lowered.text);
}

#[test]
fn mistakes_have_the_path_of_the_resource() {
    let elsewhere = json!({ "access": "oidc", "signIn": provider("https://vmcp.example.com/elsewhere") });
    let callback = provider("https://vmcp.example.com/console/oidc/callback");
    for (console, path) in [
        (json!({ "access": "oidc" }), "spec.console.access: "),
        (json!({ "access": "tokens" }), "spec.console.access: `tokens` needs tokens of people"),
        (elsewhere, "spec.console.signIn.redirectUri: "),
        (json!({ "access": "tokens", "signIn": callback }), "spec.console.signIn: no person signs in there"),
    ] {
        let refused = lowered(&console).unwrap_err();
        assert!(refused.contains(path), "{console}: {refused}");
    }
    let viewers = json!([{ "name": "viewers", "key": "first" }, { "name": "operators", "key": "first" }]);
    let short = json!({
        "access": "tokens", "operatorTokenSecretRefs": viewers, "viewerTokenSecretRefs": viewers,
    });
    let checked = lowered(&short).unwrap().check_values(|reference| {
        Some(if reference.name == "viewers" {
            b"short".as_slice()
        } else {
            b"an arbitrary, long token".as_slice()
        })
    });
    let refused = checked.unwrap_err().to_string();
    assert!(refused.contains("shorter than 16"), "{refused}");
}

/// The Service of the console has the name of the server in its own. The EmbeddingServer has another where
/// the name of the server does not fit.
#[test]
fn a_name_fits_the_objects_that_fields_make() {
    let keys = json!([{ "name": "s", "key": "k" }]);
    let console = json!({ "console": { "access": "tokens", "viewerTokenSecretRefs": keys } });
    let tei = json!({ "provider": "tei", "tei": { "managed": {} } });
    let managed = json!({ "optimizer": { "enabled": true, "embeddings": tei } });
    let (nothing, long) = (json!({}), "a".repeat(49));
    for (name, spec, fits) in [
        ("9lives", &nothing, true),
        ("9lives", &console, false),
        ("lives9", &console, true),
        (long.as_str(), &console, true),
        ("9lives", &managed, true),
        (long.as_str(), &managed, true),
    ] {
        let mut server = server(spec);
        server.metadata.name = Some(name.to_owned());
        let problems = server.validate().err().map(|invalid| invalid.0).unwrap_or_default();
        let paths: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, if fits { vec![] } else { vec!["metadata.name"] }, "{name}: {spec}");
    }
}
