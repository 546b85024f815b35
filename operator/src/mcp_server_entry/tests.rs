use serde_json::{Value, json};
use vmcp_config::addresses::ReachableAddresses;
use vmcp_crds::lower::ADDED_BY_LABEL;
use vmcp_crds::mcp_server_entry::MCPServerEntryPhase;
use vmcp_crds::{MCPServerEntry, VirtualMCPServer};

use super::added_address;
use super::status;
use super::validate::{self, ValidatedEntry};
use crate::references::{CaBundle, ReferencedSecrets};

fn entry(spec: &Value) -> MCPServerEntry {
    serde_json::from_value(json!({
        "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": "MCPServerEntry",
        "metadata": { "name": "github", "namespace": "tools", "generation": 3 }, "spec": spec,
    }))
    .unwrap()
}

/// Returns the phase, and reason and message of a condition; both empty if it is not set.
fn validated(
    spec: &Value,
    secrets: &ReferencedSecrets,
    condition: &str,
) -> (MCPServerEntryPhase, String, String) {
    let entry = entry(spec);
    let status = status::compute(&entry, &validate(&entry, secrets), Some(true));
    let found = status.conditions.into_iter().find(|found| found.type_ == condition);
    let (reason, message) = found.map_or_else(Default::default, |found| (found.reason, found.message));
    (status.phase.unwrap(), reason, message)
}

fn validate(entry: &MCPServerEntry, secrets: &ReferencedSecrets) -> ValidatedEntry {
    validate::validate(entry, secrets, &CaBundle::default())
}

fn with_secret_header(name: &str) -> Value {
    let reference = json!({ "name": "github-token", "key": "header" });
    let header = json!({ "headerName": name, "valueSecretRef": reference });
    json!({ "remoteUrl": "https://api.example.com/mcp", "headerForward": { "addHeadersFromSecret": [header] } })
}

#[test]
fn a_private_endpoint_must_be_meant() {
    let mut spec = json!({ "remoteUrl": "http://169.254.169.254/mcp" });
    let (phase, reason, message) = validated(&spec, &ReferencedSecrets::default(), "RemoteURLValidated");
    assert_eq!((phase, reason.as_str()), (MCPServerEntryPhase::Failed, "RemoteURLInvalid"));
    assert!(message.starts_with("spec.remoteUrl: leads to a link-local address"), "{message}");
    assert!(message.contains("allowPrivateEndpoint"), "{message}");
    spec["allowPrivateEndpoint"] = true.into();
    assert_eq!(validated(&spec, &ReferencedSecrets::default(), "Valid").0, MCPServerEntryPhase::Valid);
}

#[test]
fn a_secret_that_is_missing_disables_and_one_that_comes_enables() {
    let spec = with_secret_header("Authorization");
    let (phase, reason, message) =
        validated(&spec, &ReferencedSecrets::default(), "HeaderSecretRefsValidated");
    assert_eq!((phase, reason.as_str()), (MCPServerEntryPhase::Failed, "HeaderSecretNotFound"));
    assert!(
        message.contains("kubectl create secret generic github-token -n tools --from-literal=header=…"),
        "{message}"
    );
    let without = validate(&entry(&spec), &ReferencedSecrets::default());
    assert!(without.address_problems.is_empty() && without.header_problems.is_empty());
    assert!(!without.backend.enabled);

    let other_key = ReferencedSecrets::from_values(&[("github-token", "token", "x")]);
    let (_, _, message) = validated(&spec, &other_key, "Valid");
    assert!(message.contains("has no key `header`"), "{message}");

    // `echo` ends with a line break, which the server takes off.
    let there = ReferencedSecrets::from_values(&[("github-token", "header", "Bearer $x\n")]);
    assert_eq!(validated(&spec, &there, "Valid").0, MCPServerEntryPhase::Valid);
    assert!(validate(&entry(&spec), &there).backend.enabled);
}

#[test]
fn a_header_that_the_server_would_refuse_is_refused_here_without_its_value() {
    let there = ReferencedSecrets::from_values(&[("github-token", "header", "hunter\u{7}2")]);
    let (phase, reason, message) =
        validated(&with_secret_header("X-Key"), &there, "HeaderSecretRefsValidated");
    assert_eq!((phase, reason.as_str()), (MCPServerEntryPhase::Failed, "HeaderInvalid"));
    assert!(
        message.starts_with("spec.headerForward.addHeadersFromSecret[0]: not a header value"),
        "{message}"
    );
    assert!(!message.contains("hunter"), "{message}");

    let spec = json!({ "remoteUrl": "https://a.example", "headerForward": { "addPlaintextHeaders": { "Host": "x" } } });
    let (_, _, message) = validated(&spec, &ReferencedSecrets::default(), "Valid");
    assert!(
        message.starts_with("spec.headerForward.addPlaintextHeaders[Host]: this header is set by vmcp"),
        "{message}"
    );
}

#[test]
fn a_group_that_is_not_there_is_said() {
    let entry = entry(&json!({ "remoteUrl": "https://a.example/mcp", "groupRef": { "name": "none" } }));
    let status = status::compute(&entry, &validate(&entry, &ReferencedSecrets::default()), Some(false));
    assert_eq!(status.phase, Some(MCPServerEntryPhase::Failed));
    let valid = status.conditions.iter().find(|condition| condition.type_ == "Valid").unwrap();
    assert!(valid.message.starts_with("there is no MCPGroup none; create it"), "{}", valid.message);
}

#[test]
fn certificates_reach_the_backend_and_a_missing_one_disables_it() {
    let reference = json!({ "configMapRef": { "name": "authority" } });
    let spec = json!({ "remoteUrl": "https://mcp.example.com/mcp", "caBundleRef": reference });
    let with = |bundle: &CaBundle, spec: &Value| {
        let entry = entry(spec);
        let validated = validate::validate(&entry, &ReferencedSecrets::default(), bundle);
        let status = status::compute(&entry, &validated, None);
        let found = status.conditions.iter().find(|found| found.type_ == "CABundleRefValidated").cloned();
        (validated, status.phase.unwrap(), found)
    };
    let (validated, phase, condition) = with(&CaBundle::Found("PEM".to_owned()), &spec);
    assert_eq!((validated.backend.ca_bundle.as_deref(), validated.backend.enabled), (Some("PEM"), true));
    assert_eq!((phase, condition.unwrap().reason.as_str()), (MCPServerEntryPhase::Valid, "CABundleValid"));

    let missing = CaBundle::Unusable("spec.caBundleRef: there is no key ca.crt".to_owned());
    let (validated, phase, condition) = with(&missing, &spec);
    assert!(!validated.backend.enabled && validated.backend.ca_bundle.is_none());
    let condition = condition.unwrap();
    assert_eq!((phase, condition.reason.as_str()), (MCPServerEntryPhase::Failed, "CABundleInvalid"));
    assert!(condition.message.contains("no key ca.crt"), "{}", condition.message);

    // A server without TLS shows no certificate: refused here, not in the file of all backends.
    let plain = json!({ "remoteUrl": "http://mcp.example.com/mcp", "caBundleRef": reference });
    let (validated, _, _) = with(&CaBundle::Found("PEM".to_owned()), &plain);
    let problem = validated.address_problems.first().map(ToString::to_string).unwrap();
    assert!(problem.starts_with("spec.caBundleRef: a server without TLS"), "{problem}");

    let (_, phase, condition) = with(&CaBundle::OfTheSystem, &json!({ "remoteUrl": "https://a.example" }));
    assert_eq!((phase, condition), (MCPServerEntryPhase::Valid, None));
}

#[test]
fn an_entry_that_is_switched_off_is_valid_and_not_connected() {
    let entry = entry(&json!({ "remoteUrl": "https://a.example/mcp", "enabled": false }));
    let validated = validate(&entry, &ReferencedSecrets::default());
    assert!(!validated.backend.enabled);
    let status = status::compute(&entry, &validated, None);
    assert_eq!(status.phase, Some(MCPServerEntryPhase::Valid));
}

#[test]
fn a_websocket_is_an_address_of_its_transport_alone() {
    let none = ReferencedSecrets::default();
    let live = json!({ "remoteUrl": "wss://live.example.com/mcp", "transport": "websocket" });
    assert_eq!(validated(&live, &none, "Valid").0, MCPServerEntryPhase::Valid);
    for (spec, expected) in [
        (json!({ "remoteUrl": "wss://live.example.com/mcp" }), "the address of a websocket"),
        (
            json!({ "remoteUrl": "https://live.example.com/mcp", "transport": "websocket" }),
            "not the address of a websocket",
        ),
        (json!({ "remoteUrl": "ws://10.0.0.1/mcp", "transport": "websocket" }), "leads to a private address"),
    ] {
        let (phase, _, message) = validated(&spec, &none, "RemoteURLValidated");
        assert_eq!(phase, MCPServerEntryPhase::Failed, "{spec}");
        assert!(message.contains(expected), "{spec}: {message}");
    }
}

#[test]
fn an_entry_that_clients_added_leads_to_an_address_of_a_rule_alone() {
    let server = |optimizer: &str| -> VirtualMCPServer {
        let text = format!("metadata: {{name: x, namespace: tools}}\nspec: {{optimizer: {optimizer}}}");
        serde_saphyr::from_str(&text).unwrap()
    };
    let added = |adder: &str, spec: &Value| {
        let mut entry = entry(spec);
        entry.metadata.labels = Some([(ADDED_BY_LABEL.to_owned(), adder.to_owned())].into());
        entry
    };
    let with_header = |name: &str, url: &str| {
        let mut spec = with_secret_header(name);
        spec["remoteUrl"] = url.into();
        let header = &mut spec["headerForward"]["addHeadersFromSecret"][0];
        header["valueSecretRef"]["name"] = "x.added.docs-1".into();
        spec
    };
    let rules = server("{admin: {allow: [{url: 'https://*.example.com/*', headers: [Authorization]}]}}");
    let refusal = |server: &VirtualMCPServer, spec: &Value| {
        added_address::problem(&added("x", spec), server).map(|problem| problem.to_string())
    };
    let allowed = json!({ "remoteUrl": "https://mcp.example.com/mcp" });
    assert_eq!(refusal(&rules, &allowed), None);
    assert_eq!(refusal(&rules, &with_header("authorization", "https://mcp.example.com/mcp")), None);
    let mut plain = allowed.clone();
    plain["headerForward"] = json!({ "addPlaintextHeaders": { "X-Forwarded-Host": "evil" } });
    let evil = json!({ "remoteUrl": "https://evil.example/mcp" });
    for refused in [
        evil.clone(),
        json!({ "remoteUrl": "http://mcp.example.com/mcp" }),
        json!({ "remoteUrl": "https://mcp.example.com:8443/mcp" }),
        json!({ "remoteUrl": "https://mcp.example.com.evil.example/mcp" }),
        with_header("X-Key", "https://mcp.example.com/mcp"),
        plain,
    ] {
        let message = refusal(&rules, &refused).unwrap_or_default();
        let expected =
            "spec.remoteUrl: clients of the VirtualMCPServer x added the entry, and none of its rules";
        assert!(message.starts_with(expected), "{refused}: {message}");
    }
    for (field, value) in [
        ("allowPrivateEndpoint", json!(true)),
        ("externalAuthConfigRef", json!({ "name": "git" })),
        ("caBundleRef", json!({ "configMapRef": { "name": "ca" } })),
        (
            "headerForward",
            json!({ "addHeadersFromSecret": [
                { "headerName": "Authorization", "valueSecretRef": { "name": "git", "key": "token" } },
            ] }),
        ),
    ] {
        let mut foreign = allowed.clone();
        foreign[field] = value;
        let message = refusal(&rules, &foreign).unwrap_or_default();
        assert!(message.starts_with(&format!("spec.{field}")), "{field}: {message}");
        assert!(message.contains("may not set this"), "{field}: {message}");
        assert_eq!(added_address::problem(&entry(&foreign), &rules), None, "{field}: of a person");
    }
    let lending = server(
        "{admin: {allow: [{url: 'https://*.example.com/*', headers: [Authorization], secrets: [x.shared.git]}]}}",
    );
    let named = |secret: &str| {
        let mut spec = with_header("Authorization", "https://mcp.example.com/mcp");
        spec["headerForward"]["addHeadersFromSecret"][0]["valueSecretRef"]["name"] = secret.into();
        spec
    };
    assert_eq!(refusal(&lending, &named("x.shared.git")), None);
    for (server, secret, expected) in [
        (&lending, "x.shared.db", "no rule that names it lends it these Secrets"),
        (&rules, "x.shared.git", "no rule that names it lends it these Secrets"),
        (&server("{}"), "x.shared.git", "clients of the VirtualMCPServer x added the entry"),
        (&lending, "y.shared.git", "may not set this"),
        (&lending, "x-vmcp-keys", "may not set this"),
    ] {
        let message = refusal(server, &named(secret)).unwrap_or_default();
        assert!(message.contains(expected), "{secret}: {message}");
    }
    let mut off = evil.clone();
    off["enabled"] = false.into();
    assert_eq!(refusal(&rules, &off), None, "it is not connected");
    assert_eq!(refusal(&server("{}"), &evil), None, "without rules, the user decides");
    let service = json!({ "remoteUrl": "https://kubernetes.default/" });
    assert!(refusal(&server("{}"), &service).unwrap().contains("which the cluster's DNS completes"));
    let mistaken = server("{admin: {allow: [{url: 'no URL'}]}}");
    assert!(refusal(&mistaken, &allowed).unwrap().contains("its rules have a mistake"));
    assert_eq!(added_address::problem(&entry(&evil), &rules), None, "of a person");
    assert_eq!(added_address::problem(&added("y", &evil), &rules), None, "x serves no entry of y");
}

#[test]
fn the_host_of_an_added_entry_has_public_addresses_unless_a_rule_names_it() {
    let server: VirtualMCPServer = serde_saphyr::from_str(
        "metadata: {name: x, namespace: tools}\nspec: {optimizer: {admin: {allow: [\
         {url: 'https://mcp.corp.example/*'}, {url: 'https://*.example.com/*'}]}}}",
    )
    .unwrap();
    let without_rules: VirtualMCPServer =
        serde_saphyr::from_str("metadata: {name: x, namespace: tools}\nspec: {}").unwrap();
    let at = |url: &str, adder: Option<&str>| {
        let mut entry = entry(&json!({ "remoteUrl": url }));
        entry.metadata.labels = adder.map(|name| [(ADDED_BY_LABEL.to_owned(), name.to_owned())].into());
        entry
    };
    for (server, url, adder, expected) in [
        (&server, "https://mcp.corp.example/mcp", Some("x"), ReachableAddresses::Local),
        (&server, "https://mcp.example.com/mcp", Some("x"), ReachableAddresses::Public),
        (&without_rules, "https://mcp.corp.example/mcp", Some("x"), ReachableAddresses::Public),
        (&server, "https://mcp.example.com/mcp", None, ReachableAddresses::Any),
    ] {
        let entry = at(url, adder);
        assert_eq!(added_address::addresses_of_added(&entry, server), expected, "{url} {adder:?}");
        let alone = validate(&entry, &ReferencedSecrets::default()).backend.addresses;
        let floor = adder.map_or(ReachableAddresses::Any, |_| ReachableAddresses::Public);
        assert_eq!(alone, floor, "{url} {adder:?}");
    }
}
