//! Lowering of identity: policies, issuers, the decision point, the authorization server.

use super::*;

#[test]
fn policies_arrive_from_every_place_and_a_missing_one_leaves_no_server_open() {
    let policies = json!(["permit(principal, action, resource in MCP::\"x\");"]);
    let shared: MCPAuthzConfigSpec = serde_json::from_value(json!({
        "type": "cedarv1", "config": { "policies": policies, "group_claim_name": "teams" },
    }))
    .unwrap();
    let around = ReferencedObjects { authz: Some(&shared), ..ReferencedObjects::default() };
    let inline = json!({ "type": "inline", "inline": { "policies": policies }, "groupClaimName": "teams" });
    let of_file = json!({ "policies": policies, "groupClaimName": "teams" });
    let places = [("authz", of_file), ("authzConfig", inline), ("authzConfigRef", json!({ "name": "p" }))];
    for (key, value) in &places {
        let lowered = lower(&json!({ "incomingAuth": { *key: value } }), &around).unwrap();
        let authz = lowered.config.authz.unwrap();
        assert_eq!((&*authz.server_name, authz.policies.len()), ("x", 1), "{key}");
        assert_eq!(authz.group_claims[0], "teams", "{key}");
        // Policies of ToolHive name resources in its form.
        assert_eq!(authz.resource_ids == ResourceIds::Toolhive, *key != "authz", "{key}");
    }
    let refusal = |incoming: Value, around: &ReferencedObjects<'_>| {
        lower(&json!({ "incomingAuth": incoming }), around).unwrap_err().to_string()
    };
    let missing = refusal(json!({ "authzConfigRef": { "name": "p" } }), &ReferencedObjects::default());
    assert!(
        missing.starts_with("spec.incomingAuth.authzConfigRef: there is no MCPAuthzConfig p"),
        "{missing}"
    );
    let both =
        refusal(json!({ "authz": { "policies": policies }, "authzConfigRef": { "name": "p" } }), &around);
    assert!(both.contains("in several places"), "{both}");
    let wrong =
        json!({ "type": "inline", "inline": { "policies": ["permit(principal action, resource);"] } });
    let mistake = |authz: &Authz| {
        let place = "incomingAuth.authz.policies[0]";
        let has_comma = authz.policies[0].contains("principal, ");
        let mistake = Finding::Mistake(Problem::new(place, "line 1, column 18: no comma", "write it"));
        if has_comma { Vec::new() } else { vec![mistake] }
    };
    let wrong = refusal(
        json!({ "authzConfig": wrong }),
        &ReferencedObjects { policies: PolicyCheck(&mistake), ..ReferencedObjects::default() },
    );
    let place = "spec.incomingAuth.authzConfig.inline.policies[0]: line 1, column 18: no comma; ";
    assert!(wrong.starts_with(place), "{wrong}");
}

/// As in ToolHive's examples.
#[test]
fn a_client_of_an_issuer_that_introspects_nothing_is_left_out() {
    let inline = json!({
        "issuer": "https://idp.example", "clientId": "me", "clientSecretRef": { "name": "idp", "key": "secret" },
    });
    let config: MCPOIDCConfigSpec =
        serde_json::from_value(json!({ "type": "inline", "inline": inline })).unwrap();
    let reference = json!({ "name": "idp", "audience": "a" });
    let spec = json!({ "incomingAuth": { "type": "oidc", "oidcConfigRef": reference } });
    let referenced = ReferencedObjects { oidc: Some(&config), ..ReferencedObjects::default() };
    let lowered = lower(&spec, &referenced).unwrap();
    assert!(lowered.config.incoming_auth.issuers[0].introspection.is_none());
    assert!(lowered.secrets.is_empty() && !lowered.text.contains("clientId"), "{}", lowered.text);
}

#[test]
fn introspection_of_an_issuer_is_lowered_with_its_secret_as_a_file() {
    let inline = json!({
        "issuer": "https://idp.example", "keyMaxAge": "1h", "introspectionUrl": "https://idp.example/t",
        "clientId": "pay$${me}", "clientSecretRef": { "name": "idp", "key": "secret" }, "introspect": "all",
        "introspectionCacheTtl": "30s",
    });
    let oidc = |inline: &Value| -> MCPOIDCConfigSpec {
        serde_json::from_value(json!({ "type": "inline", "inline": inline })).unwrap()
    };
    let reference = json!({
        "name": "idp", "audience": "a", "resourceUrl": "https://tools.example/mcp", "requiredBinding": "dpop",
    });
    let spec = json!({ "incomingAuth": { "type": "oidc", "oidcConfigRef": reference } });
    let config = oidc(&inline);
    let referenced = ReferencedObjects { oidc: Some(&config), ..ReferencedObjects::default() };
    let lowered = lower(&spec, &referenced).unwrap();
    let issuer = &lowered.config.incoming_auth.issuers[0];
    let introspection = issuer.introspection.as_ref().unwrap();
    assert_eq!(introspection.client_id, "pay$${me}");
    assert_eq!(
        (introspection.url.as_str(), introspection.cache_ttl),
        ("https://idp.example/t", Duration::from_secs(30))
    );
    assert_eq!(introspection.tokens, IntrospectedTokens::All);
    assert_eq!((issuer.key_max_age, issuer.required_binding), (Duration::from_hours(1), TokenBinding::Dpop));
    let files: Vec<_> = lowered.secrets.values().cloned().collect();
    assert_eq!(files, [secret("idp", "secret")]);
    assert!(lowered.text.contains("${file:"), "{}", lowered.text);
    // Without the secret, the endpoint would answer nothing.
    let mut without = inline.clone();
    without.as_object_mut().unwrap().remove("clientSecretRef");
    let config = oidc(&without);
    let referenced = ReferencedObjects { oidc: Some(&config), ..ReferencedObjects::default() };
    assert!(lower(&spec, &referenced).unwrap_err().to_string().contains("asks for it"));
}

#[test]
fn a_decision_point_is_lowered_with_its_secrets_as_files() {
    let point = json!({
        "url": "https://pdp.example/decide", "timeout": "1s", "onFailure": "deny", "claims": ["a${b}"],
        "bearerTokenSecretRef": { "name": "pdp", "key": "token" },
        "hmacSecretRef": { "name": "pdp", "key": "hmac" },
        "includeArguments": true, "cacheFor": "0s", "maxConcurrent": 4, "allowPrivateIP": true,
    });
    let spec = |point: &Value| json!({ "incomingAuth": { "type": "anonymous", "decisionPoint": point } });
    let lowered = lower(&spec(&point), &ReferencedObjects::default()).unwrap();
    let lowered_point = lowered.config.decision_point.as_deref().unwrap();
    assert_eq!(lowered_point.url.as_str(), "https://pdp.example/decide");
    assert_eq!((lowered_point.timeout, lowered_point.cache_for), (Duration::from_secs(1), Duration::ZERO));
    assert_eq!(lowered_point.on_failure, OnDecisionFailure::Deny);
    assert_eq!(
        (lowered_point.claims.as_slice(), lowered_point.max_concurrent),
        (&["a${b}".to_owned()][..], 4)
    );
    assert!(lowered_point.include_arguments && lowered_point.allow_private_addresses);
    assert!(!lowered_point.tell_reason && !lowered_point.insecure_allow_http);
    let files: Vec<_> = lowered.secrets.values().cloned().collect();
    assert_eq!(files, [secret("pdp", "hmac"), secret("pdp", "token")]);

    let pem = "-----BEGIN CERTIFICATE-----";
    let around = ReferencedObjects { decision_point_certificates: Some(pem), ..ReferencedObjects::default() };
    let trusting = lower(&spec(&point), &around).unwrap();
    let (file, mounted) = trusting.certificates.first_key_value().unwrap();
    let path = trusting.config.decision_point.as_ref().unwrap().ca_bundle_path.clone().unwrap();
    assert_eq!((path.file_name().unwrap().to_str(), mounted.as_str()), (Some(file.as_str()), pem));

    let mut wrong = point.clone();
    wrong["url"] = "http://pdp.example/decide".into();
    let refused = lower(&spec(&wrong), &ReferencedObjects::default()).unwrap_err().to_string();
    assert!(
        refused.contains("incomingAuth.decisionPoint.url: decisions that come over plain HTTP"),
        "{refused}"
    );
}

#[test]
fn an_authorization_server_is_lowered_with_its_secrets_as_files_and_its_primary_provider_first() {
    let provider = |name: &str| {
        json!({ "name": name, "type": "oidc", "oidcConfig": {
            "issuerUrl": "https://idp.example", "clientId": "vmcp", "allowPrivateIPs": true,
            "clientSecretRef": { "name": name, "key": "secret" },
        } })
    };
    let spec = json!({ "authServerConfig": {
        "issuer": "https://tools.example", "primaryUpstreamProvider": "corp",
        "hmacSecretRefs": [{ "name": "keys", "key": "seal" }],
        "tokenLifespans": { "accessTokenLifespan": "30m" },
        "upstreamProviders": [provider("forge"), provider("corp")],
        "storage": { "type": "memory" },
    } });
    let inject = json!({ "type": "upstreamInject", "upstreamInject": { "providerName": "forge" } });
    let backends = [Backend { auth: serde_json::from_value(inject).unwrap(), ..backend("git") }];
    let referenced = ReferencedObjects { backends: &backends, ..ReferencedObjects::default() };
    let lowered = lower(&spec, &referenced).unwrap();
    let server = lowered.config.incoming_auth.auth_server.as_ref().unwrap();
    let names: Vec<_> = server.upstreams.iter().map(|upstream| upstream.name.as_str()).collect();
    assert_eq!(names, ["corp", "forge"], "the primary provider tells who the person is");
    assert!(server.upstreams[0].allow_private_addresses);
    assert_eq!(server.access_life, Duration::from_mins(30));
    assert!(server.access_tokens_of.contains("forge"));
    let files: Vec<_> = lowered.secrets.values().cloned().collect();
    assert_eq!(files, [secret("corp", "secret"), secret("forge", "secret"), secret("keys", "seal")]);
    assert!(!lowered.config.incoming_auth.is_anonymous(), "clients need its tokens");
    // A backend that names a provider which is not there is a mistake of the resource.
    let inject = json!({ "type": "upstreamInject", "upstreamInject": { "providerName": "other" } });
    let backends = [Backend { auth: serde_json::from_value(inject).unwrap(), ..backend("git") }];
    let referenced = ReferencedObjects { backends: &backends, ..ReferencedObjects::default() };
    let refused = lower(&spec, &referenced).unwrap_err().to_string();
    assert!(refused.contains("`other` is not among"), "{refused}");
}

#[test]
fn webhooks_are_lowered_with_their_secrets_as_files_and_their_backends() {
    let spec = |webhook: &Value| serde_json::from_value(json!({ "validating": [webhook] })).unwrap();
    let guard = json!({
        "name": "guard", "url": "https://guard.team.svc/ask?a=${b}", "failurePolicy": "ignore", "timeout": "2s",
        "hmacSecretRef": { "name": "guard", "key": "hmac" },
        "tlsConfig": {
            "caSecretRef": { "name": "guard", "key": "ca" },
            "clientCertSecretRef": { "name": "guard", "key": "crt" }, "clientKeySecretRef": { "name": "guard", "key": "key" },
        },
    });
    let plain = json!({ "name": "plain", "url": "http://10.0.0.1/", "claims": ["*"], "tlsConfig": { "insecureSkipVerify": true } });
    let webhooks = [
        ReferencedWebhooks {
            name: "git".to_owned(),
            spec: spec(&guard),
            scope: WebhookScope::Backends(vec!["git".to_owned()]),
        },
        ReferencedWebhooks { name: "all".to_owned(), spec: spec(&plain), scope: WebhookScope::All },
    ];
    let backends = [backend("git"), backend("wiki")];
    let around =
        ReferencedObjects { backends: &backends, webhooks: &webhooks, ..ReferencedObjects::default() };
    let lowered = lower(&json!({}), &around).unwrap();
    let [guard, plain] = &lowered.config.webhooks.validating[..] else { panic!("{}", lowered.text) };
    assert_eq!((&*guard.name, guard.url.query()), ("git/guard", Some("a=${b}")));
    assert_eq!((&guard.claims, &plain.claims), (&SentClaims::Named(Vec::new()), &SentClaims::All));
    assert_eq!(&*plain.name, "all/plain/all");
    assert!(guard.original_names && guard.allow_private_addresses && !guard.insecure_allow_http);
    assert!(guard.means("git", "git_push", "push") && !guard.means("wiki", "wiki_read", "read"));
    let named = |path: &std::path::Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let (certificate, key) = guard.client_certificate.as_ref().unwrap();
    assert_eq!([named(certificate), named(key)], ["guard_crt", "guard_key"]);
    assert_eq!(named(guard.ca_bundle_path.as_ref().unwrap()), "guard_ca");
    let files: Vec<_> = lowered.secrets.keys().map(String::as_str).collect();
    assert_eq!(files, ["guard_ca", "guard_crt", "guard_hmac", "guard_key"]);
    assert!(plain.insecure_allow_http && !plain.insecure_skip_verify && !plain.original_names);
    assert!(!plain.allow_private_addresses && plain.means("wiki", "wiki_read", "read"));

    let wrong = json!({ "name": "slow", "url": "https://guard/", "timeout": "1h" });
    let webhooks =
        [ReferencedWebhooks { name: "all".to_owned(), spec: spec(&wrong), scope: WebhookScope::All }];
    let around = ReferencedObjects { webhooks: &webhooks, ..ReferencedObjects::default() };
    let refused = lower(&json!({}), &around).unwrap_err().to_string();
    assert!(refused.contains("MCPWebhookConfig all: spec.validating[0].timeout: "), "{refused}");
}

#[test]
fn webhooks_are_a_guard_of_the_configuration() {
    let guarded = Identity::from_text("webhooks: { post: [{ name: a }] }");
    assert!(Identity::from_text("{}").drops_a_guard_of(&guarded));
    assert!(!guarded.drops_a_guard_of(&guarded));
}

#[test]
fn tokens_of_service_accounts_are_verified_by_the_keys_of_the_cluster() {
    let lowered = |settings: Value, cluster: Option<&ClusterIssuer>| {
        let config = json!({ "type": "kubernetesServiceAccount", "kubernetesServiceAccount": settings });
        let config: MCPOIDCConfigSpec = serde_json::from_value(config).unwrap();
        let referenced = ReferencedObjects {
            oidc: Some(&config),
            cluster_issuer: cluster,
            ..ReferencedObjects::default()
        };
        let reference = json!({ "name": "cluster", "audience": "tools" });
        lower(&json!({ "incomingAuth": { "type": "oidc", "oidcConfigRef": reference } }), &referenced)
    };
    let cluster =
        ClusterIssuer { issuer: "https://oidc.example/id/1".to_owned(), keys: r#"{"keys":[]}"#.to_owned() };
    let any = lowered(json!({}), Some(&cluster)).unwrap();
    let issuer = &any.config.incoming_auth.issuers[0];
    assert_eq!((issuer.issuer.as_str(), issuer.audience.as_str()), ("https://oidc.example/id/1", "tools"));
    let (file, keys) = any.certificates.first_key_value().unwrap();
    assert!(issuer.jwks_path.as_ref().unwrap().ends_with(file) && *keys == cluster.keys, "{file}");
    assert_eq!(issuer.claim_mapping["namespace"], "/kubernetes.io/namespace");
    assert!(issuer.required_claims.is_empty());
    let rotated = ClusterIssuer { keys: r#"{"keys":[{}]}"#.to_owned(), ..cluster.clone() };
    assert_ne!(lowered(json!({}), Some(&rotated)).unwrap().text, any.text, "other keys are another file");

    for (settings, claim, value) in [
        (json!({ "serviceAccount": "bot" }), "sub", "system:serviceaccount:ns:bot"),
        (json!({ "serviceAccount": "bot", "namespace": "ci" }), "sub", "system:serviceaccount:ci:bot"),
        (json!({ "namespace": "ci" }), "/kubernetes.io/namespace", "ci"),
    ] {
        let lowered = lowered(settings, Some(&cluster)).unwrap();
        assert_eq!(lowered.config.incoming_auth.issuers[0].required_claims[claim], [value]);
    }

    for empty in [json!({ "serviceAccount": "" }), json!({ "serviceAccount": "bot", "namespace": "" })] {
        let refused = lowered(empty, Some(&cluster)).unwrap_err().to_string();
        assert!(refused.starts_with("spec.incomingAuth.oidcConfigRef: `"), "no restriction: {refused}");
    }

    let public = json!({ "useClusterAuth": false, "issuer": "https://eks.example/id/2" });
    let fetched = lowered(public, None).unwrap();
    let issuer = &fetched.config.incoming_auth.issuers[0];
    assert_eq!((issuer.issuer.as_str(), &issuer.jwks_path), ("https://eks.example/id/2", &None));
    // Neither opens the endpoint.
    for refused in [json!({}), json!({ "useClusterAuth": false })] {
        assert!(lowered(refused, None).unwrap_err().to_string().contains("spec.incomingAuth.oidcConfigRef"));
    }
}
