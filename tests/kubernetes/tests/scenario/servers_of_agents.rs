//! Servers that an agent adds on a real node: by tools of a VirtualMCPServer whose policies permit it, as
//! pods, under the roles and the admission policy of the chart.

use k8s_openapi::api::core::v1::Secret;
use serde_json::json;
use vmcp_cluster_servers::{ADDED_BY, INSTALLED_FROM};
use vmcp_crds::MCPServer;
use vmcp_integration::Client;
use vmcp_kubernetes_tests::Cluster;

use super::ready;

const SERVERS: &str = r#"apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {ops: key-of-ops-0123456789, dev: key-of-dev-0123456789}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: registry}
data:
  servers.json: |
    [{"name": "com.example/weather", "version": "1.2.0", "description": "Forecasts",
      "packages": [{"registryType": "npm", "identifier": "@example/weather", "version": "1.2.0",
        "transport": {"type": "stdio"},
        "environmentVariables": [{"name": "API_KEY", "isRequired": true, "isSecret": true}]}]}]
---
apiVersion: toolhive.stacklok.com/v1alpha1
kind: MCPServer
metadata: {name: web}
spec:
  image: localhost/vmcp-tests/servers:1
  transport: streamable-http
  command: [vmcp-fixture, --transport, http, --host, 0.0.0.0, --port, '8080', --name, web]
  mcpPort: 8080
---
apiVersion: toolhive.stacklok.com/v1alpha1
kind: VirtualMCPServer
metadata: {name: x}
spec:
  optimizer:
    enabled: true
    tools: [find_tool, call_tool, add_mcp_server, remove_mcp_server, search_registry, install_server]
    embeddings: {provider: none}
    admin:
      registry: /registry
      allow:
        - {command: [mcp-server-everything], image: 'localhost/vmcp-tests/servers:1', env: [GREETING]}
        - {command: [npx, -y, '@example/weather@*'], image: 'localhost/vmcp-tests/servers:1', env: [API_KEY]}
  incomingAuth:
    type: apiKeys
    apiKeys:
      - {subject: ops, secretKeyRef: {name: keys, key: ops}}
      - {subject: dev, secretKeyRef: {name: keys, key: dev}}
    authz:
      policies:
        - 'permit(principal, action == Action::"call_tool", resource);'
        - 'permit(principal == Client::"ops", action == Action::"admin", resource);'
  podTemplateSpec:
    spec:
      containers:
        - name: vmcp
          volumeMounts: [{name: registry, mountPath: /registry}]
      volumes: [{name: registry, configMap: {name: registry}}]
"#;
const GREETING: &str = "hunter2-of-an-agent";

#[tokio::test]
async fn an_agent_adds_calls_installs_and_removes_servers_within_policies_and_rules() {
    let cluster = Cluster::from_environment();
    let place = cluster.served("agents").await;
    place.apply(SERVERS).await;
    ready(&place, "x").await;
    let way = place.endpoint("vmcp-x", 4483).await;
    let client = |subject: &str| {
        Client::modern(&format!("{}/mcp", way.url)).bearing(&format!("key-of-{subject}-0123456789"))
    };
    let (ops, dev) = (client("ops"), client("dev"));
    let everything = json!({
        "name": "everything", "transport": "stdio", "command": "mcp-server-everything",
        "env": {"GREETING": GREETING},
    });
    let denied = dev.call_tool("optim.add_mcp_server", everything.clone()).await;
    assert!(denied.text.contains("Unknown tool"), "no policy permits it: {}", denied.text);
    let shell =
        json!({"name": "any", "transport": "stdio", "command": "python3", "args": ["-m", "http.server"]});
    let refused = ops.call_tool("optim.add_mcp_server", shell).await;
    assert_eq!(refused.structured()["success"], false, "no rule names it: {}", refused.text);

    let added = ops.call_tool("optim.add_mcp_server", everything).await;
    // The kubelet may take longer than the tool waits.
    let is_written = added.structured()["success"] == true || added.text.contains("the change is written");
    assert!(is_written, "{}", added.text);
    let listed = async || ops.tools().await.contains_key("everything_echo").then_some(());
    place.eventually("the tools of the added server", listed).await;
    let said = ops.call_tool("everything_echo", json!({"message": "hello"})).await;
    assert!(said.content_text().contains("hello"), "{}", said.text);
    let shown = place.json("mcpserver/everything").await;
    assert!(!shown.to_string().contains(GREETING), "{shown}");
    assert_eq!(shown["metadata"]["labels"][ADDED_BY], "x", "{shown}");

    let installed = ops.call_tool("optim.install_server", json!({"name": "com.example/weather"})).await;
    let is_written =
        installed.structured()["success"] == true || installed.text.contains("the change is written");
    assert!(is_written, "{}", installed.text);
    let weather = place.json("mcpserver/weather").await;
    assert_eq!(weather["spec"]["args"], json!(["-y", "@example/weather@1.2.0"]), "{weather}");
    let origin = weather["metadata"]["annotations"][INSTALLED_FROM].as_str().unwrap_or_default();
    assert!(origin.starts_with("com.example/weather 1.2.0 by npm @example/weather@1.2.0"), "{weather}");
    let secret = weather["spec"]["secrets"][0]["name"].as_str().unwrap_or_default().to_owned();
    let values = place.get::<Secret>(&secret).await.expect("the Secret of the server");
    assert!(values.data.unwrap_or_default().is_empty(), "the user sets its key");
    let removed = ops.call_tool("optim.remove_mcp_server", json!({"name": "weather"})).await;
    let is_written =
        removed.structured()["success"] == true || removed.text.contains("the change is written");
    assert!(is_written, "a server that waits for its key: {}", removed.text);
    let gone = async || place.get::<MCPServer>("weather").await.is_none().then_some(());
    place.eventually("the server without a key to go", gone).await;

    let removed = ops.call_tool("optim.remove_mcp_server", json!({"name": "everything"})).await;
    let is_written =
        removed.structured()["success"] == true || removed.text.contains("the change is written");
    assert!(is_written, "{}", removed.text);
    let gone = async || place.get::<MCPServer>("everything").await.is_none().then_some(());
    place.eventually("the resource to go", gone).await;
    let gone = async || (!ops.tools().await.contains_key("everything_echo")).then_some(());
    place.eventually("its tools to go", gone).await;
    place.remove().await;
}
