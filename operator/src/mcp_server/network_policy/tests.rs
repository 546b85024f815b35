//! Tests of callers from other namespaces.

use serde_json::{Value, json};
use vmcp_crds::MCPServer;
use vmcp_crds::lower::PolicyCheck;

use crate::mcp_server::controller::plan;
use crate::mcp_server::dereference::References;
use crate::runtime::{BuildSettings, ChildKind};

/// Returns the callers that the NetworkPolicy admits to the MCP port, with these namespaces granted.
fn callers(spec: &str, granted: &[&str]) -> Vec<Value> {
    let text = format!("{{metadata: {{name: time, namespace: tools}}, spec: {spec}}}");
    let server: MCPServer = serde_saphyr::from_str(&text).unwrap();
    let references = References {
        bridge_token: b"token".to_vec(),
        granted_namespaces: granted.iter().map(|name| (*name).to_owned()).collect(),
        ..References::default()
    };
    let settings = BuildSettings { bridge_image: "vmcp:1".to_owned(), ..BuildSettings::default() };
    let desired = plan(&server, &references, PolicyCheck::default(), &settings).unwrap();
    let policy = desired.children.iter().find(|child| child.kind() == ChildKind::NetworkPolicy).unwrap();
    let policy = serde_json::to_value(policy.object()).unwrap();
    policy["spec"]["ingress"][0]["from"].as_array().unwrap().clone()
}

#[test]
fn granted_namespaces_are_admitted_by_their_virtual_servers_alone() {
    const SPEC: &str = "{image: 'a:1', transport: streamable-http}";
    let before = callers(SPEC, &[]);
    assert_eq!(before.len(), 1, "{before:?}");
    let with = callers(SPEC, &["a", "b"]);
    assert_eq!(with[0], before[0]);
    let expected = json!({
        "namespaceSelector": { "matchExpressions": [
            { "key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"] },
        ] },
        "podSelector": { "matchLabels": { "app.kubernetes.io/name": "vmcp" } },
    });
    assert_eq!(with[1..], [expected]);
}

#[test]
fn a_server_with_webhooks_admits_no_callers_that_ask_none() {
    let spec = "{image: 'a:1', transport: streamable-http, webhookConfigRef: {name: w}}";
    assert_eq!(callers(spec, &["a"]), callers(spec, &[]));
}
