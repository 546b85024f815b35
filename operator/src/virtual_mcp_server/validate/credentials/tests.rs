//! Tests of the credentials that backends get, and of the backends that get none.

use std::sync::Arc;

use vmcp_crds::MCPServerEntry;
use vmcp_crds::lower::ADDED_BY_LABEL;

use super::*;
use crate::virtual_mcp_server::testing::{plan, references, with_secret, with_server, yaml};

/// Names the credentials `own` for a backend called `jira`.
const NAMED: &str =
    "{outgoingAuth: {backends: {jira: {type: externalAuthConfigRef, externalAuthConfigRef: {name: own}}}}}";
/// Names the credentials `own` for every backend.
const DEFAULT: &str =
    "{outgoingAuth: {default: {type: externalAuthConfigRef, externalAuthConfigRef: {name: own}}}}";

/// Returns an entry called `jira` with this host and these further fields.
fn entry(host: &str, fields: &str) -> MCPServerEntry {
    yaml(&format!(
        "metadata: {{name: jira, namespace: n}}\nspec: {{remoteUrl: 'https://{host}/mcp'{fields}}}"
    ))
}

/// Returns references with these entries, and with credentials called `own`.
fn with(entries: Vec<MCPServerEntry>) -> References {
    let config: MCPExternalAuthConfig = yaml(
        "metadata: {name: own, namespace: n}\nspec: {type: bearerToken, bearerToken: {tokenSecretRef: {name: s, key: k}}}",
    );
    References {
        entries: entries.into_iter().map(Arc::new).collect(),
        auth_configs: [("own".to_owned(), Arc::new(config))].into(),
        ..with_secret(references())
    }
}

/// Returns the URLs of the backends, each with true if credentials are sent there.
fn sent(spec: &str, references: &References) -> Vec<(String, bool)> {
    let configuration = plan(spec, references).configuration.expect("valid");
    let sends = configuration.lowered.text.contains("Bearer ${file:");
    assert_eq!(sends, configuration.backends.iter().any(|backend| backend.auth.is_some()));
    configuration.backends.into_iter().map(|backend| (backend.url, backend.auth.is_some())).collect()
}

/// As an MCPServerEntry and an MCPRemoteProxy of one name: the first one is called.
#[test]
fn credentials_of_a_backend_reach_no_other_backend_of_its_name() {
    let theirs = entry("thief.example", "");
    let ours = entry("jira.example", ", externalAuthConfigRef: {name: own}");
    let thief = "https://thief.example/mcp".to_owned();
    assert_eq!(sent("{}", &with(vec![theirs.clone(), ours.clone()])), [(thief, false)]);
    let jira = "https://jira.example/mcp".to_owned();
    assert_eq!(sent("{}", &with(vec![ours, theirs])), [(jira, true)]);

    // An MCPServer comes before both.
    let named = entry("jira.example", ", externalAuthConfigRef: {name: own}");
    let found = sent("{}", &with_server(with(vec![named]), "jira"));
    assert_eq!(found.iter().map(|(_, sent)| *sent).collect::<Vec<_>>(), [false], "{found:?}");
}

#[test]
fn a_backend_that_clients_added_gets_no_credentials_but_its_own() {
    let of_people = with(vec![entry("jira.example", "")]);
    let mut added = entry("thief.example", "");
    added.metadata.labels = Some([(ADDED_BY_LABEL.to_owned(), "x".to_owned())].into());
    let of_clients = with(vec![added]);
    for spec in [NAMED, DEFAULT] {
        assert_eq!(sent(spec, &of_people), [("https://jira.example/mcp".to_owned(), true)], "{spec}");
        assert_eq!(sent(spec, &of_clients), [("https://thief.example/mcp".to_owned(), false)], "{spec}");
    }
    let mut program = with_server(with(Vec::new()), "jira");
    let is_sent = |references: &References| sent(DEFAULT, references)[0].1;
    assert!(is_sent(&program));
    Arc::make_mut(&mut program.servers[0]).metadata.labels =
        Some([(ADDED_BY_LABEL.to_owned(), "x".to_owned())].into());
    assert!(!is_sent(&program), "a program that clients added");
}

#[test]
fn credentials_go_to_the_service_of_the_server_alone() {
    let ours = with_server(with(Vec::new()), "jira");
    assert!(plan(DEFAULT, &ours).configuration.expect("valid").backends[0].enabled);
    let taken = References { without_service: ["jira".to_owned()].into(), ..ours };
    let plan = plan(DEFAULT, &taken);
    assert!(!plan.configuration.expect("valid all the same").backends[0].enabled);
    assert!(plan.unusable["jira"].contains("another object has its name"), "{:?}", plan.unusable);
}
