//! Lowering of the guards of an MCPServer.

use vmcp_crds::MCPServer;
use vmcp_crds::virtual_mcp_server::AuthServerConfig;

use super::*;

fn guarded(spec: &Value) -> MCPServer {
    let metadata = json!({ "name": "time", "namespace": "ns" });
    let mut spec = spec.clone();
    spec.as_object_mut().unwrap().insert("image".to_owned(), "i".into());
    serde_json::from_value(json!({
        "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": "MCPServer", "metadata": metadata, "spec": spec,
    }))
    .unwrap()
}

fn file(spec: &Value, referenced: &ReferencedObjects<'_>) -> Result<Value, Invalid> {
    let lowered = guarded(spec).lower_guards(referenced, None)?.unwrap();
    Ok(serde_saphyr::from_str(&lowered.text).unwrap())
}

#[test]
fn guards_are_understood_as_those_of_a_virtual_mcp_server() {
    let inline = json!({
        "issuer": "https://idp.example", "introspectionUrl": "https://idp.example/t", "clientId": "me",
        "clientSecretRef": { "name": "idp", "key": "secret" },
    });
    let oidc: MCPOIDCConfigSpec =
        serde_json::from_value(json!({ "type": "inline", "inline": inline })).unwrap();
    let telemetry: MCPTelemetryConfigSpec = serde_json::from_value(json!({ "openTelemetry": {
        "enabled": true, "endpoint": "https://otel.example:4318", "tracing": { "enabled": true },
    } }))
    .unwrap();
    let referenced =
        ReferencedObjects { oidc: Some(&oidc), telemetry: Some(&telemetry), ..ReferencedObjects::default() };
    let spec = json!({
        "oidcConfigRef": { "name": "idp", "audience": "time", "scopes": ["openid"] },
        "authzConfig": { "type": "inline", "inline": { "policies": ["permit(principal, action, resource);"] } },
        "audit": { "enabled": true },
        "rateLimiting": { "shared": { "maxTokens": 5, "refillPeriod": "1m" } },
        "sessionStorage": { "provider": "memory" },
        "telemetryConfigRef": { "name": "otel" },
    });
    let file = file(&spec, &referenced).unwrap();
    let auth = &file["incomingAuth"];
    assert_eq!((&auth["type"], &auth["oidc"]["audience"]), (&json!("oidc"), &json!("time")));
    assert!(
        auth["oidc"]["clientSecret"].as_str().unwrap().starts_with("${file:/etc/vmcp/secrets/idp_secret")
    );
    assert_eq!(
        (&auth["authz"]["serverName"], &auth["authz"]["resourceIds"]),
        (&json!("time"), &json!("toolhive"))
    );
    assert_eq!(file["telemetry"]["serviceName"], "time");
    assert_eq!(file["audit"]["enabled"], true);
    assert_eq!(file["rateLimiting"]["shared"]["maxTokens"], 5);
    let keys: Vec<_> = file.as_object().unwrap().keys().map(String::as_str).collect();
    let all = ["rateLimiting", "audit", "sessionStorage", "telemetry", "incomingAuth", "server"];
    assert!(keys.iter().all(|key| all.contains(key)), "no address, no backend, no optimizer: {keys:?}");
    assert_eq!(file["server"].as_object().unwrap().len(), 1, "keys that seal, and nothing else");
}

#[test]
fn a_server_without_guards_has_no_file_and_a_broken_reference_is_no_open_server() {
    let none = json!({ "audit": { "enabled": false }, "sessionStorage": { "provider": "memory" } });
    assert!(guarded(&none).lower_guards(&ReferencedObjects::default(), None).unwrap().is_none());
    let long = "permit(principal, action, resource)".to_owned();
    let wrong = |authz: &Authz| {
        let path = "incomingAuth.authz.policies[0]";
        let is_wrong = authz.policies[0] == long;
        is_wrong
            .then(|| Finding::Mistake(Problem::new(path, "no semicolon", "write it")))
            .into_iter()
            .collect()
    };
    let checked = ReferencedObjects { policies: PolicyCheck(&wrong), ..ReferencedObjects::default() };
    for (spec, path) in [
        (json!({ "oidcConfigRef": { "name": "gone", "audience": "a" } }), "spec.oidcConfigRef"),
        (json!({ "authzConfigRef": { "name": "gone" } }), "spec.authzConfigRef"),
        (
            json!({ "authzConfig": { "type": "configMap", "configMap": { "name": "a" } } }),
            "spec.authzConfig.configMap",
        ),
        (
            json!({ "authzConfig": { "type": "inline", "inline": { "policies": [long] } } }),
            "spec.authzConfig.inline.policies[0]",
        ),
        (
            json!({ "rateLimiting": { "shared": { "maxTokens": 0, "refillPeriod": "1m" } } }),
            "spec.rateLimiting.shared.maxTokens",
        ),
        (json!({ "authServerRef": { "name": "gone" } }), "spec"),
    ] {
        let refused = file(&spec, &checked).unwrap_err();
        let is_there = refused.0.iter().any(|problem| problem.path.starts_with(path));
        assert!(is_there, "{spec}: {refused}");
    }
}

#[test]
fn policies_of_a_config_map_are_those_that_are_written_inline() {
    let policy = "permit(principal, action, resource);";
    let inline = json!({ "authzConfig": { "type": "inline", "groupClaimName": "teams", "inline": {
        "policies": [policy], "entitiesJson": "[]",
    } } });
    let of_map = json!({ "authzConfig": { "groupClaimName": "teams", "configMap": { "name": "a" } } });
    let document = json!({ "version": "1.0", "type": "cedarv1", "cedar": {
        "policies": [policy], "entities_json": "[]", "group_claim_name": "others",
    } });
    let with = |text: &str| {
        let referenced = ReferencedObjects { authz_file: Some(text), ..ReferencedObjects::default() };
        file(&of_map, &referenced)
    };
    let expected = file(&inline, &ReferencedObjects::default()).unwrap();
    assert_eq!(expected["incomingAuth"]["authz"]["groupClaimName"], "teams");
    assert_eq!(with(&document.to_string()).unwrap(), expected);
    for (text, word) in [
        ("{", "cannot be read"),
        ("{type: cedarv1}", "cannot be read"),
        ("{type: httpv1, cedar: {policies: []}}", "`type` in the ConfigMap a"),
        ("{type: cedarv1, cedar: {policies: [], pollicies: []}}", "`cedar.pollicies` in the ConfigMap a"),
        ("{type: cedarv1, cedar: {policies: []}, cedars: {}}", "cannot be read"),
    ] {
        let refused = with(text).unwrap_err().to_string();
        assert!(refused.starts_with("spec.authzConfig.configMap: ") && refused.contains(word), "{refused}");
    }
}

#[test]
fn an_authorization_server_of_its_own_gives_the_tokens() {
    let server: AuthServerConfig = serde_json::from_value(json!({
        "issuer": "https://time.example", "hmacSecretRefs": [{ "name": "seal", "key": "k" }],
        "upstreamProviders": [{ "name": "google", "type": "oidc", "oidcConfig": {
            "issuerUrl": "https://accounts.google.com", "clientId": "c",
        } }],
    }))
    .unwrap();
    let spec = json!({ "authServerRef": { "kind": "MCPExternalAuthConfig", "name": "as" } });
    let lowered = guarded(&spec).lower_guards(&ReferencedObjects::default(), Some(&server)).unwrap().unwrap();
    let file: Value = serde_saphyr::from_str(&lowered.text).unwrap();
    assert_eq!(file["authServer"]["upstreamProviders"][0]["name"], "google");
    assert!(lowered.secrets.values().any(|reference| *reference == secret("seal", "k")));
    assert!(Identity::from_text(&lowered.text).authenticates());
}
