//! Tests of the validation with everything that a resource refers to.

use vmcp_config::addresses::ReachableAddresses;

use super::*;
use crate::references::{CaBundle, ReferencedSecrets};
use crate::virtual_mcp_server::testing::{
    plan, references, server, settings, with_entry, with_secret, with_server, yaml,
};
use std::sync::Arc;

#[test]
fn an_endpoint_is_never_opened_because_a_reference_leads_nowhere() {
    let spec = "{incomingAuth: {type: oidc, oidcConfigRef: {name: idp, audience: a}}}";
    let refused = plan(spec, &references()).configuration.unwrap_err();
    assert_eq!(refused.reason, "OIDCConfigRefNotFound");
    let with = |inline: &str| {
        let config =
            yaml(&format!("metadata: {{name: idp, namespace: n}}\nspec: {{type: inline, inline: {inline}}}"));
        References { oidc: Some(Arc::new(config)), ..references() }
    };
    let refused = plan(spec, &with("{issuer: 'http://idp.example'}")).configuration.unwrap_err();
    assert_eq!(refused.reason, "OIDCConfigRefNotValid");
    let configuration = plan(spec, &with("{issuer: 'https://idp.example'}")).configuration.unwrap();
    let auth = &configuration.lowered.config.incoming_auth;
    assert_eq!(
        (auth.issuers[0].issuer.as_str(), auth.issuers[0].audience.as_str()),
        ("https://idp.example", "a")
    );

    let keys = "{incomingAuth: {type: apiKeys, apiKeys: [{subject: ci, secretKeyRef: {name: ci, key: k}}, \
        {subject: dash, secretKeyRef: {name: dash, key: k}}]}}";
    let refused = plan(keys, &references()).configuration.unwrap_err();
    assert_eq!(refused.reason, "SecretNotFound");
    let known = |second: &str| References {
        secrets: ReferencedSecrets::from_values(&[("ci", "k", "0123456789abcdef"), ("dash", "k", second)]),
        ..references()
    };
    let configuration = plan(keys, &known("fedcba9876543210")).configuration.unwrap();
    assert!(!configuration.lowered.text.contains("0123456789abcdef"), "{}", configuration.lowered.text);
    assert!(plan(keys, &known("short")).configuration.is_err());
    assert!(plan(keys, &known("0123456789abcdef")).configuration.is_err(), "one key of two clients");
}

#[test]
fn an_authorization_server_needs_its_secrets_and_a_backend_without_its_provider_is_not_called() {
    let spec = "{authServerConfig: {issuer: 'https://tools.example', upstreamProviders: [{name: corp, type: oidc, \
        oidcConfig: {issuerUrl: 'https://idp.example', clientId: v, clientSecretRef: {name: corp, key: k}}}]}}";
    let inject = |provider: &str| {
        let yaml = format!(
            "metadata: {{name: own, namespace: ns}}\nspec: {{type: upstreamInject, upstreamInject: {{providerName: {provider}}}}}"
        );
        ("own".to_owned(), Arc::new(serde_saphyr::from_str(&yaml).expect("a configuration")))
    };
    let with = |provider: &str| {
        let mut references = with_server(references(), "a");
        references.auth_configs = [inject(provider)].into();
        let server = Arc::make_mut(&mut references.servers[0]);
        server.spec.external_auth_config_ref =
            Some(vmcp_crds::fields::references::LocalReference { name: "own".to_owned() });
        references
    };
    let refused = plan(spec, &with("corp")).configuration.unwrap_err();
    assert_eq!(refused.reason, "AuthServerConfigInvalid");
    let known = |provider: &str| References {
        secrets: ReferencedSecrets::from_values(&[("corp", "k", "s3cret-value")]),
        ..with(provider)
    };
    let configuration = plan(spec, &known("corp")).configuration.unwrap();
    assert!(!configuration.lowered.text.contains("s3cret-value"), "{}", configuration.lowered.text);
    assert!(configuration.lowered.config.incoming_auth.auth_server.is_some());
    assert!(configuration.backends[0].enabled);
    for (spec, provider) in [(spec, "other"), ("{}", "corp")] {
        let plan = plan(spec, &known(provider));
        assert!(!plan.configuration.expect("valid all the same").backends[0].enabled);
        assert!(plan.unusable["a"].contains("people sign in at"), "{:?}", plan.unusable);
    }
}

#[test]
fn members_become_backends() {
    let references = with_secret(with_entry(with_server(references(), "a"), "b"));
    let plan = plan("{}", &references);
    let configuration = plan.configuration.expect("valid");
    let names: Vec<_> =
        configuration.backends.iter().map(|backend| (backend.name.as_str(), backend.enabled)).collect();
    assert_eq!(names, [("a", true), ("b", true)]);
    assert!(!configuration.lowered.text.contains("Bearer secret"), "{}", configuration.lowered.text);
    assert_eq!(configuration.mounted.secrets.into_values().collect::<Vec<_>>(), [b"Bearer secret"]);
    assert!(plan.unusable.is_empty());
}

#[test]
fn a_backend_without_its_secret_spoils_only_itself() {
    let plan = plan("{}", &with_entry(with_server(references(), "a"), "b"));
    let configuration = plan.configuration.expect("valid all the same");
    assert_eq!(configuration.backends.iter().filter(|backend| backend.enabled).count(), 1);
    assert!(plan.unusable["b"].contains("no Secret s"), "{:?}", plan.unusable);
}

#[test]
fn an_added_entry_outside_of_the_rules_is_no_backend() {
    let with_label = |name: &str| {
        let mut references = with_entry(with_entry(references(), "a"), "b");
        references.secrets = ReferencedSecrets::from_values(&[
            ("s", "k", "Bearer secret"),
            ("x.added.b-1", "k", "Bearer secret"),
        ]);
        let entry = Arc::make_mut(&mut references.entries[1]);
        let header = &mut entry.spec.header_forward.add_headers_from_secret[0];
        header.value_secret_ref.name = "x.added.b-1".to_owned();
        entry.metadata.labels = Some([("toolhive.stacklok.com/added-by".to_owned(), name.to_owned())].into());
        references
    };
    let rule = |host: &str| {
        format!(
            "{{optimizer: {{enabled: true, admin: {{allow: [{{url: 'https://{host}/*', headers: [Authorization]}}]}}}}}}"
        )
    };
    let other = plan(&rule("other.example.com"), &with_label("x"));
    let names = |plan: &Plan| {
        let backends = &plan.configuration.as_ref().expect("valid all the same").backends;
        backends.iter().map(|backend| backend.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&other), ["a"], "the entry of a person stays");
    assert!(other.unusable["b"].contains("none of its rules names this address"), "{:?}", other.unusable);
    // A host that a rule names in full may have a private address.
    for (host, addresses) in
        [("mcp.example.com", ReachableAddresses::Local), ("*.example.com", ReachableAddresses::Public)]
    {
        let allowed = plan(&rule(host), &with_label("x"));
        assert_eq!(names(&allowed), ["a", "b"]);
        let backends = allowed.configuration.expect("valid all the same").lowered.config.backends;
        let of: Vec<_> = backends.iter().map(|backend| backend.addresses).collect();
        assert_eq!(of, [ReachableAddresses::Any, addresses], "{host}");
    }
}

#[test]
fn credentials_come_from_the_server_then_the_backend_then_the_default() {
    let config = |name: &str, kind: &str| {
        let yaml = format!("metadata: {{name: {name}, namespace: ns}}\nspec: {kind}");
        (name.to_owned(), Arc::new(serde_saphyr::from_str(&yaml).expect("a configuration")))
    };
    let secret = "{type: bearerToken, bearerToken: {tokenSecretRef: {name: s, key: k}}}";
    let references = References {
        auth_configs: [config("own", secret), config("bad", &secret.replace("s,", "none,"))].into(),
        ..with_secret(with_server(with_server(with_server(references(), "a"), "b"), "c"))
    };
    let plan = plan(
        "{outgoingAuth: {backends: {a: {type: externalAuthConfigRef, externalAuthConfigRef: {name: own}}, \
         b: {type: externalAuthConfigRef, externalAuthConfigRef: {name: bad}}, \
         c: {type: externalAuthConfigRef, externalAuthConfigRef: {name: missing}}}}}",
        &references,
    );
    let configuration = plan.configuration.expect("valid all the same");
    let enabled: Vec<_> = configuration.backends.iter().map(|backend| backend.enabled).collect();
    assert_eq!(enabled, [true, false, false]);
    let text = &configuration.lowered.text;
    assert!(text.contains("Bearer ${file:") && !text.contains("Bearer secret"), "{text}");
    assert!(plan.unusable["b"].contains("no Secret none"), "{:?}", plan.unusable);
    assert!(plan.unusable["c"].contains("no MCPExternalAuthConfig missing"), "{:?}", plan.unusable);
}

#[test]
fn a_tool_config_comes_from_the_server_then_the_backend_and_is_never_left_out() {
    let config = |name: &str, spec: &str| {
        let text = format!("metadata: {{name: {name}, namespace: n}}\nspec: {spec}");
        (name.to_owned(), Arc::new(yaml(&text)))
    };
    let named = |mut references: References, name: &str, config: &str| {
        let text = format!(
            "metadata: {{name: {name}, namespace: n}}\nspec: {{image: i, toolConfigRef: {{name: {config}}}}}"
        );
        references.servers.push(Arc::new(yaml(&text)));
        references
    };
    let known = [
        config("own", "{toolsFilter: [find], toolsOverride: {search: {name: find}}}"),
        config("given", "{toolsFilter: [read], toolsOverride: {a: {name: b}, c: {name: d}}}"),
        config("wrong", "{toolsOverride: {a: {name: 'no name'}}}"),
    ];
    let backends = [("a", "own"), ("b", "own"), ("c", "missing"), ("d", "wrong")];
    let members = backends.iter().fold(references(), |all, (name, config)| named(all, name, config));
    let references = References { tool_configs: known.into(), ..members };
    let plan = plan(
        "{config: {aggregation: {tools: [{workload: b, toolConfigRef: {name: given}, overrides: {a: {name: mine}}}]}}}",
        &references,
    );
    let configuration = plan.configuration.expect("valid all the same");
    let rules = &configuration.lowered.config.aggregation.per_backend;
    let renamed = |backend: &str, tool: &str| rules[backend].overrides[tool].name.clone().unwrap_or_default();
    assert_eq!(renamed("a", "search"), "find");
    assert_eq!(rules["a"].filter.len(), 1);
    assert_eq!((renamed("b", "a"), renamed("b", "c")), ("mine".to_owned(), "d".to_owned()));
    let enabled: Vec<_> = configuration.backends.iter().map(|backend| backend.enabled).collect();
    assert_eq!(enabled, [true, true, false, false], "a filter that is lost would show what it hides");
    assert!(plan.unusable["c"].contains("no MCPToolConfig missing"), "{:?}", plan.unusable);
    assert!(plan.unusable["d"].contains("spec.toolsOverride.a.name"), "{:?}", plan.unusable);
    let reasons: Vec<_> = plan.tool_configs.iter().map(|problem| problem.reason).collect();
    assert_eq!(reasons, ["ToolConfigRefNotFound", "ToolConfigRefNotValid"]);
}

#[test]
fn a_decision_point_without_its_certificates_is_not_configured() {
    let spec = "{incomingAuth: {type: anonymous, decisionPoint: {url: 'https://pdp', caBundleRef: {configMapRef: {name: ca}}}}}";
    let with = |decision_point_certificates: CaBundle| {
        plan(spec, &References { decision_point_certificates, ..references() }).configuration
    };
    let refused = with(CaBundle::Unusable("there is no key ca.crt".to_owned())).unwrap_err();
    assert_eq!(refused.reason, "DecisionPointNotValid");
    let configuration = with(CaBundle::Found("-----BEGIN".to_owned())).unwrap();
    assert_eq!(configuration.lowered.certificates.len(), 1);
}

#[test]
fn composite_tools_that_can_be_followed_are_configured() {
    let definition = |name: &str, steps: &str| {
        let text =
            format!("metadata: {{name: {name}, namespace: n}}\nspec: {{name: {name}, steps: {steps}}}");
        (name.to_owned(), Arc::new(yaml(&text)))
    };
    let known = [
        definition("fine", "[{id: a, tool: x.y, arguments: {text: '${5}'}}]"),
        definition("circle", "[{id: a, tool: x, dependsOn: [b]}, {id: b, tool: x, dependsOn: [a]}]"),
    ];
    let references = References { composite_tools: known.into(), ..references() };
    let plan = plan(
        "{config: {compositeTools: [{name: own, steps: [{id: a, tool: x.y}]}],
           compositeToolRefs: [{name: circle}, {name: fine}, {name: absent}]}}",
        &references,
    );
    let configuration = plan.configuration.expect("valid all the same");
    let tools = &configuration.lowered.config.composite_tools;
    assert_eq!(tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["own", "fine"]);
    let reasons: Vec<_> = plan.composite_tools.iter().map(|problem| problem.reason).collect();
    assert_eq!(reasons, ["CompositeToolRefInvalid", "CompositeToolRefNotFound"]);
    let spec = "{config: {compositeTools: [{name: own, steps: [{id: a, tool: x, dependsOn: [b]}]}]}}";
    let refused = self::plan(spec, &references).configuration.unwrap_err();
    assert!(refused.message.contains("spec.config.compositeTools[0].steps[0].dependsOn[0]"), "{refused:?}");
}

#[test]
fn a_reserved_name_spoils_only_itself() {
    let plan = plan("{}", &with_server(with_server(references(), "optim"), "1password"));
    let configuration = plan.configuration.expect("valid all the same");
    let names: Vec<_> = configuration.backends.iter().map(|backend| backend.name.as_str()).collect();
    assert_eq!(names, ["1password"]);
    assert!(plan.unusable["optim"].contains("vmcp's own tools"), "{:?}", plan.unusable);
}

#[test]
fn one_name_for_two_backends_is_reported() {
    let plan = plan("{}", &with_secret(with_entry(with_server(references(), "a"), "a")));
    assert_eq!(plan.duplicates, ["a"]);
    assert_eq!(plan.configuration.expect("valid").backends.len(), 1);
    // An MCPServerEntry and an MCPRemoteProxy.
    let plan = self::plan("{}", &with_secret(with_entry(with_entry(references(), "a"), "a")));
    assert_eq!(
        (plan.duplicates, plan.configuration.expect("valid").backends.len()),
        (vec!["a".to_owned()], 1)
    );
}

/// A server that embeds with a key from the Secret `s`.
const EMBEDS: &str = "{optimizer: {enabled: true, embeddings: {provider: openai, openai: {endpoint: 'https://e.example', \
                      model: m, \
                      sensitiveHeaders: [{name: X, secretKeyRef: {name: s, key: k}}]}}}}";

#[test]
fn a_bad_secret_of_the_embeddings_takes_away_the_embeddings_alone() {
    let bad = References {
        secrets: ReferencedSecrets::from_values(&[("s", "k", "hunter\u{7}2")]),
        ..with_server(references(), "a")
    };
    for (references, reason) in [(with_server(references(), "a"), "SecretNotFound"), (bad, "SecretInvalid")] {
        let plan = plan(EMBEDS, &references);
        let left_out = plan.left_out.embeddings.expect("left out");
        assert_eq!(left_out.reason, reason);
        assert!(
            left_out.message.contains("Secret s") && !left_out.message.contains("hunter"),
            "{left_out:?}"
        );
        let text = plan.configuration.expect("valid all the same").lowered.text;
        assert!(text.contains("provider: none") && text.contains("name: a"), "{text}");
    }
    let plan = plan(EMBEDS, &with_secret(references()));
    assert!(plan.left_out.embeddings.is_none());
    assert!(plan.configuration.expect("valid").lowered.text.contains("e.example"));
}

#[test]
fn a_bad_secret_of_the_language_model_takes_away_the_language_model_alone() {
    let llm = "{optimizer: {enabled: true, embeddings: {provider: none}, discovery: {enabled: true, llmFallback: true}, \
               llm: {endpoint: 'https://llm.example/v1', model: m, apiKeySecretRef: {name: s, key: k}}}}";
    let bad = References {
        secrets: ReferencedSecrets::from_values(&[("s", "k", "hunter\u{7}2")]),
        ..with_server(references(), "a")
    };
    for (references, reason) in [(with_server(references(), "a"), "SecretNotFound"), (bad, "SecretInvalid")] {
        let plan = plan(llm, &references);
        let left_out = plan.left_out.language_model.expect("left out");
        assert_eq!(left_out.reason, reason);
        assert!(
            left_out.message.contains("Secret s") && !left_out.message.contains("hunter"),
            "{left_out:?}"
        );
        let text = plan.configuration.expect("valid all the same").lowered.text;
        assert!(!text.contains("llm.example") && text.contains("name: a"), "{text}");
    }
    let plan = plan(llm, &with_secret(references()));
    assert!(plan.left_out.language_model.is_none() && plan.left_out.embeddings.is_none());
    let text = plan.configuration.expect("valid").lowered.text;
    assert!(text.contains("llm.example") && text.contains("llmFallback: true"), "{text}");
}

#[test]
fn a_bad_secret_of_the_embeddings_leaves_the_language_model() {
    let both = "{optimizer: {enabled: true, discovery: {llmFallback: true}, llm: {model: m}, embeddings: {provider: openai, \
                openai: {endpoint: 'https://e.example', model: m, apiKeySecretRef: {name: s, key: k}}}}}";
    let plan = plan(both, &references());
    assert!(plan.left_out.language_model.is_none() && plan.left_out.embeddings.is_some());
    let text = plan.configuration.expect("valid all the same").lowered.text;
    assert!(text.contains("llmFallback: true") && !text.contains("e.example"), "{text}");
}

#[test]
fn a_bad_secret_of_the_telemetry_takes_away_the_export_alone() {
    let telemetry = yaml(
        "metadata: {name: t, namespace: n}\nspec: {openTelemetry: {enabled: true, endpoint: 'https://collector:4318', \
         tracing: {enabled: true}, sensitiveHeaders: [{name: Authorization, secretKeyRef: {name: s, key: k}}]}}",
    );
    let with = |secrets| References {
        telemetry: Some(Arc::new(telemetry)),
        secrets,
        ..with_server(references(), "a")
    };
    let mut references = with(ReferencedSecrets::default());
    let spec = "{telemetryConfigRef: {name: t}}";
    for (secrets, reason) in [
        (ReferencedSecrets::default(), "SecretNotFound"),
        (ReferencedSecrets::from_values(&[("s", "k", "a\u{7}b")]), "ConfigInvalid"),
    ] {
        references.secrets = secrets;
        let plan = plan(spec, &references);
        assert_eq!(plan.left_out.telemetry.expect("left out").reason, reason);
        let text = plan.configuration.expect("valid all the same").lowered.text;
        assert!(!text.contains("collector") && text.contains("name: a"), "{text}");
    }
    references.secrets = ReferencedSecrets::from_values(&[("s", "k", "Bearer x")]);
    assert!(plan(spec, &references).configuration.expect("valid").lowered.text.contains("collector"));
    references.telemetry_certificates = CaBundle::Unusable("there is no key ca.crt".to_owned());
    let plan = plan(spec, &references);
    assert_eq!(plan.left_out.telemetry.expect("left out").reason, "CABundleInvalid");
    assert!(!plan.configuration.expect("valid all the same").lowered.text.contains("collector"));
}

#[test]
fn mistakes_name_their_path_in_the_resource() {
    let plan = plan("{optimizer: {enabled: true, search: {maxTools: 1000}}}", &references());
    let refusal = plan.configuration.expect_err("refused");
    assert!(refusal.message.contains("spec.optimizer.search.maxTools"), "{refusal:?}");
    assert!(plan.server.is_ok(), "what is not configuration can be built");
}

#[test]
fn what_cannot_be_read_any_more_changes_nothing() {
    let malformed =
        References { malformed: vec!["MCPServer a".to_owned()], ..with_server(references(), "b") };
    let refusal = plan("{}", &malformed).configuration.expect_err("refused");
    assert_eq!(refusal.reason, "Malformed");
    assert!(refusal.message.contains("the MCPServer a cannot be read"), "{refusal:?}");
}

#[test]
fn a_bad_template_spoils_only_the_pods() {
    let plan = plan("{podTemplateSpec: {spec: {containers: [{name: vmcp, imag: x}]}}}", &references());
    assert!(plan.template.expect_err("refused").contains("spec.podTemplateSpec.spec.containers[0].imag"));
    assert!(plan.configuration.is_ok());
}

#[test]
fn a_configuration_that_no_config_map_holds_is_refused_with_its_size() {
    let name = |number: usize| format!("a-server-with-a-long-name-for-the-sake-of-it-{number}");
    let many = (0..8_000).fold(references(), |references, number| with_server(references, &name(number)));
    let refusal = plan("{}", &many).configuration.expect_err("refused");
    assert_eq!(refusal.reason, "ConfigurationTooLarge");
    assert!(refusal.message.contains("KiB with 8000 backends"), "{refusal:?}");
}

#[test]
fn values_that_no_secret_holds_are_refused_with_their_size() {
    let config = yaml(
        "metadata: {name: idp, namespace: n}\nspec: {type: inline, inline: {issuer: 'https://idp.example', \
         caBundleRef: {configMapRef: {name: authority}}}}",
    );
    let mut references = References {
        oidc: Some(Arc::new(config)),
        oidc_certificates: CaBundle::Found("x".repeat(1 << 20)),
        ..references()
    };
    let spec = "{incomingAuth: {type: oidc, oidcConfigRef: {name: idp, audience: a}}}";
    let refusal = plan(spec, &references).configuration.expect_err("refused");
    assert_eq!(refusal.reason, "ConfigurationTooLarge");
    assert!(refusal.message.contains("1025 KiB of certificates and values of Secrets"), "{refusal:?}");
    references.oidc_certificates = CaBundle::Found("x".repeat(1 << 19));
    assert!(plan(spec, &references).configuration.is_ok());
}

#[test]
fn an_embedding_service_that_is_not_there_yet_has_an_address() {
    let plan = plan("{embeddingServerRef: {name: e}}", &references());
    let text = plan.configuration.expect("valid").lowered.text;
    assert!(text.contains("http://e-tei.n.svc.cluster.local:8080"), "{text}");
}

#[test]
fn no_secret_goes_to_an_entry_where_nothing_checks_authors() {
    let references = with_secret(with_entry(with_server(references(), "a"), "b"));
    let settings = BuildSettings { authors_checked: false, ..settings() };
    let plan = validate(&server("{}"), &references, PolicyCheck::default(), &settings);
    assert!(plan.unusable["b"].contains("may get Secrets"), "{:?}", plan.unusable);
    let backends = plan.configuration.expect("valid").backends;
    assert_eq!(backends.iter().map(|backend| backend.name.as_str()).collect::<Vec<_>>(), ["a"]);
    let exposed = server("{serviceType: LoadBalancer, allowAnonymousExposure: true}");
    let refused = validate(&exposed, &references, PolicyCheck::default(), &settings).server.unwrap_err();
    assert!(refused.to_string().starts_with("spec.serviceType: makes a Service that leads out"), "{refused}");
}
