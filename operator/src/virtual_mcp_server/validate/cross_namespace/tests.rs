//! Tests of backends of other namespaces.

use std::sync::Arc;

use crate::references::{GrantRefusal, ReferencedSecrets};
use crate::virtual_mcp_server::dereference::{
    BackendResource, CrossNamespaceBackends, GrantedBackend, References,
};
use crate::virtual_mcp_server::testing::{plan, references, with_server, yaml};
use crate::virtual_mcp_server::validate::Plan;

const REFERENCES: &str = "{backendRefs: [{name: github, namespace: b}]}";

fn granted(resource: BackendResource) -> References {
    let backend = GrantedBackend { namespace: "b".to_owned(), resource, tool_config: None };
    let backends = [("b_github".to_owned(), backend)].into();
    References { cross_namespace: CrossNamespaceBackends { backends, ..Default::default() }, ..references() }
}

fn server(spec: &str) -> References {
    let text = format!("{{metadata: {{name: github, namespace: b}}, spec: {spec}}}");
    granted(BackendResource::Server(Arc::new(yaml(&text))))
}

fn entry(spec: &str) -> References {
    let text = format!("{{metadata: {{name: github, namespace: b}}, spec: {spec}}}");
    granted(BackendResource::Entry(Arc::new(yaml(&text))))
}

fn fault(spec: &str, references: &References) -> Option<String> {
    let Plan { configuration, unusable, .. } = plan(spec, references);
    let fault = unusable.get("b_github").cloned();
    let configuration = configuration.expect("other backends serve on");
    let backend = configuration.backends.iter().find(|backend| backend.name == "b_github");
    assert_eq!(backend.is_some_and(|backend| backend.enabled), fault.is_none(), "{fault:?}");
    fault
}

#[test]
fn a_granted_server_is_a_backend_by_the_names_of_namespace_and_server() {
    let references = with_server(server("{image: i}"), "github");
    let configuration = plan(REFERENCES, &references).configuration.expect("valid");
    let backends: Vec<_> =
        configuration.backends.iter().map(|backend| (backend.name.as_str(), backend.url.as_str())).collect();
    let expected = [
        ("github", "http://mcp-github.n.svc.cluster.local:8080/mcp"),
        ("b_github", "http://mcp-github.b.svc.cluster.local:8080/mcp"),
    ];
    assert_eq!(backends, expected);
}

#[test]
fn a_backend_that_needs_a_secret_of_its_namespace_says_so() {
    for spec in [
        "{image: i, externalAuthConfigRef: {name: own}}",
        "{image: i, oidcConfigRef: {name: idp, audience: a}}",
    ] {
        let fault = fault(REFERENCES, &server(spec)).expect("a fault");
        assert!(fault.contains("spec.outgoingAuth.backends.b_github"), "{fault}");
    }
    let webhooks = fault(REFERENCES, &server("{image: i, webhookConfigRef: {name: w}}")).expect("a fault");
    assert!(webhooks.contains("webhookConfigRef"), "{webhooks}");
    for (spec, word) in [
        ("externalAuthConfigRef: {name: own}", "spec.outgoingAuth.backends.b_github"),
        ("caBundleRef: {configMapRef: {name: c}}", "caBundleRef"),
        ("allowPrivateEndpoint: false, remoteUrl: 'https://10.0.0.1/mcp'", "allowPrivateEndpoint"),
    ] {
        let url = if spec.contains("remoteUrl") { "" } else { "remoteUrl: 'https://a.example/mcp', " };
        let fault = fault(REFERENCES, &entry(&format!("{{{url}{spec}}}"))).expect("a fault");
        assert!(fault.contains(word), "{fault}");
    }
    assert_eq!(fault(REFERENCES, &entry("{remoteUrl: 'https://a.example/mcp'}")), None);
}

/// A Secret of the same name in the server's own namespace must not go to the other namespace's URL.
#[test]
fn a_secret_of_the_own_namespace_is_not_sent_by_the_headers_of_another_one() {
    let spec = "{remoteUrl: 'https://a.example/mcp', headerForward: {addPlaintextHeaders: {X-A: plain}, \
                addHeadersFromSecret: [{headerName: Authorization, valueSecretRef: {name: s, key: k}}]}}";
    let mut references = entry(spec);
    references.secrets = ReferencedSecrets::from_values(&[("s", "k", "Bearer own")]);
    let fault = fault(REFERENCES, &references).expect("a fault");
    assert!(fault.contains("addHeadersFromSecret"), "{fault}");
    let configuration = plan(REFERENCES, &references).configuration.expect("valid");
    assert!(configuration.mounted.secrets.is_empty(), "{:?}", configuration.mounted.secrets.keys());
    let headers: Vec<_> = configuration.backends[0].headers.keys().collect();
    assert_eq!(headers, ["X-A"]);
}

#[test]
fn credentials_are_those_that_the_server_names_for_the_backend_and_no_default() {
    let named = |place: &str| {
        format!(
            "{{backendRefs: [{{name: github, namespace: b}}], outgoingAuth: {{{place}: {{type: externalAuthConfigRef, \
             externalAuthConfigRef: {{name: own}}}}}}}}"
        )
    };
    let config = "{metadata: {name: own, namespace: n}, spec: {type: bearerToken, bearerToken: {tokenSecretRef: {name: s, key: k}}}}";
    let mut references = server("{image: i, externalAuthConfigRef: {name: theirs}}");
    references.auth_configs = [("own".to_owned(), Arc::new(yaml(config)))].into();
    references.secrets = ReferencedSecrets::from_values(&[("s", "k", "token")]);
    let explicit = "{backendRefs: [{name: github, namespace: b}], outgoingAuth: {backends: {b_github: \
                    {type: externalAuthConfigRef, externalAuthConfigRef: {name: own}}}}}";
    assert_eq!(fault(explicit, &references), None);
    assert!(fault(&named("default"), &references).is_some());
    let free = server("{image: i}");
    let references =
        References { auth_configs: references.auth_configs, secrets: references.secrets, ..free };
    let configuration = plan(&named("default"), &references).configuration.expect("valid");
    assert!(configuration.backends[0].enabled && configuration.backends[0].auth.is_none());
}

#[test]
fn a_filter_of_the_other_namespace_holds_and_one_that_is_missing_closes_the_backend() {
    let mut references = server("{image: i, toolConfigRef: {name: few}}");
    assert!(fault(REFERENCES, &references).is_some_and(|fault| fault.contains("no MCPToolConfig few")));
    let config = "{metadata: {name: few, namespace: b}, spec: {toolsFilter: [read]}}";
    let granted = references.cross_namespace.backends.get_mut("b_github").expect("the backend");
    granted.tool_config = Some(Arc::new(yaml(config)));
    assert_eq!(fault(REFERENCES, &references), None);
    let configuration = plan(REFERENCES, &references).configuration.expect("valid");
    let config = configuration.backends[0].tool_config.as_ref().expect("the filter");
    assert_eq!(config.tools_filter, ["read"]);
}

#[test]
fn a_reference_without_a_grant_costs_that_backend_alone() {
    let refusal = GrantRefusal { reason: "RefNotPermitted", message: "apply there: {}".to_owned() };
    let cross_namespace = CrossNamespaceBackends {
        unusable: [("b_github".to_owned(), "not granted".to_owned())].into(),
        refusal: Some(refusal),
        ..CrossNamespaceBackends::default()
    };
    let references = with_server(References { cross_namespace, ..references() }, "a");
    let Plan { configuration, unusable, .. } = plan(REFERENCES, &references);
    let backends = configuration.expect("valid").backends;
    assert_eq!(backends.iter().map(|backend| backend.name.as_str()).collect::<Vec<_>>(), ["a"]);
    assert_eq!(unusable["b_github"], "not granted");
}

#[test]
fn an_entry_that_its_namespace_switched_off_stays_off() {
    let references = entry("{remoteUrl: 'https://a.example/mcp', enabled: false}");
    let Plan { configuration, unusable, .. } = plan(REFERENCES, &references);
    assert!(!configuration.expect("valid").backends[0].enabled);
    assert!(unusable.is_empty(), "{unusable:?}");
}
