//! A group of servers of every kind behind one endpoint, and its changes.

use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use vmcp_kubernetes_tests::{Cluster, Namespace};

use super::{client, ready};

const SERVERS: &str = "apiVersion: toolhive.stacklok.com/v1alpha1
kind: MCPGroup
metadata: {name: tools}
spec: {}
---
apiVersion: toolhive.stacklok.com/v1alpha1
kind: MCPServer
metadata: {name: web}
spec:
  groupRef: {name: tools}
  image: localhost/vmcp-tests/servers:1
  transport: streamable-http
  command: [vmcp-fixture, --transport, http, --host, 0.0.0.0, --port, '8080', --name, web]
  mcpPort: 8080
---
apiVersion: toolhive.stacklok.com/v1alpha1
kind: MCPServer
metadata: {name: clock}
spec:
  groupRef: {name: tools}
  image: localhost/vmcp-tests/servers:1
  transport: stdio
  command: [python3, -m, mcp_server_time]
---
apiVersion: toolhive.stacklok.com/v1alpha1
kind: MCPServer
metadata: {name: everything}
spec:
  groupRef: {name: tools}
  image: localhost/vmcp-tests/servers:1
  transport: stdio
  command: [mcp-server-everything]
---
apiVersion: toolhive.stacklok.com/v1alpha1
kind: VirtualMCPServer
metadata: {name: all}
spec: {groupRef: {name: tools}}
---
apiVersion: toolhive.stacklok.com/v1alpha1
kind: VirtualMCPServer
metadata: {name: search}
spec: {groupRef: {name: tools}, optimizer: {enabled: true, embeddings: {provider: none}}}
---
apiVersion: v1
kind: Pod
metadata: {name: far, labels: {app: far}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: far
      image: localhost/vmcp-tests/servers:1
      command: [vmcp-fixture, --transport, http, --host, 0.0.0.0, --port, '8080', --toolset, jira, --name, far]
---
apiVersion: v1
kind: Service
metadata: {name: far}
spec: {selector: {app: far}, ports: [{port: 8080}]}
";

/// A server that runs outside of the operator's care.
fn remote(place: &Namespace) -> String {
    let url = format!("http://far.{}.svc.cluster.local:8080/mcp", place.name);
    format!(
        "{{apiVersion: toolhive.stacklok.com/v1alpha1, kind: MCPServerEntry, metadata: {{name: far}},
          spec: {{groupRef: {{name: tools}}, remoteUrl: '{url}', transport: streamable-http, allowPrivateEndpoint: true}}}}"
    )
}

#[tokio::test]
async fn servers_of_three_kinds_are_listed_found_and_called_and_come_and_go() {
    let cluster = Cluster::given();
    cluster.install().await;
    let place = cluster.namespace("serving").await;
    place.apply(SERVERS).await;
    place.apply(&remote(&place)).await;
    ready(&place, "all").await;
    ready(&place, "search").await;

    let (_way, all) = client(&place, "all").await;
    let has = async |tool: &str| all.tools().await.contains_key(tool);
    for tool in ["web_echo", "clock_get_current_time", "everything_echo", "far_get_jira_issue"] {
        place.eventually(tool, async || has(tool).await.then_some(())).await;
    }
    let said = all.call_tool("web_echo", json!({"message": "hello"})).await;
    assert!(said.content_text().contains("hello"), "{}", said.text);

    let (_way, search) = client(&place, "search").await;
    let found = async || {
        let found = search
            .find_tool(json!({"tool_description": "which time is it in a timezone", "tool_keywords": "time"}))
            .await;
        found.text.contains("clock_get_current_time").then_some(())
    };
    place.eventually("the tool that tells the time to be found", found).await;
    let told = search.call_found("clock_get_current_time", json!({"timezone": "Europe/Berlin"})).await;
    assert!(told.content_text().contains("Europe/Berlin"), "{}", told.text);

    let pods = pods(&place).await;
    let began = Instant::now();
    place.cluster().kubectl(&["delete", "mcpserverentry/far", "--namespace", &place.name]).await.unwrap();
    place.eventually("its tools to go", async || (!has("far_get_jira_issue").await).then_some(())).await;
    let went = began.elapsed();
    let began = Instant::now();
    place.apply(&remote(&place)).await;
    place.eventually("its tools to come", async || has("far_get_jira_issue").await.then_some(())).await;
    eprintln!("a backend is gone after {went:.1?} and there after {:.1?}", began.elapsed());
    assert_eq!(self::pods(&place).await, pods, "no pod was made anew");

    let listed = place.json("virtualmcpserver/all").await;
    place
        .eventually("four backends in the status", async || {
            (place.json("virtualmcpserver/all").await["status"]["backendCount"] == 4).then_some(())
        })
        .await;
    assert_eq!(listed["status"]["phase"], "Ready", "{listed:#}");
    place.remove().await;
}

#[tokio::test]
async fn configuration_changes_in_running_pods_and_what_is_invalid_changes_nothing() {
    let cluster = Cluster::given();
    cluster.install().await;
    let place = cluster.namespace("hot").await;
    place.apply(SERVERS).await;
    ready(&place, "all").await;
    let (_way, modern) = client(&place, "all").await;
    let has = async |tool: &str| modern.tools().await.contains_key(tool);
    place.eventually("web_echo", async || has("web_echo").await.then_some(())).await;
    let way = place.endpoint("vmcp-all", 4483).await;
    let session =
        vmcp_integration::Client::legacy(&format!("{}/mcp", way.url), "2025-11-25", "patient").await;
    let pods = pods(&place).await;

    let edit = async |change: serde_json::Value| {
        let change = json!({"spec": {"config": change}}).to_string();
        let patch =
            ["patch", "virtualmcpserver/all", "--type=merge", "--patch", &change, "--namespace", &place.name];
        place.cluster().kubectl(&patch).await
    };
    let filter =
        |tools: serde_json::Value| json!({"aggregation": {"tools": [{"workload": "web", "filter": tools}]}});
    edit(filter(json!(["add"]))).await.unwrap();
    place.eventually("web_echo to be hidden", async || (!has("web_echo").await).then_some(())).await;
    let sum = session.call_tool("web_add", json!({"a": 2, "b": 3})).await;
    assert!(sum.content_text().contains('5'), "{}", sum.text);

    // What the schema cannot know.
    let prefix = json!({"conflictResolutionConfig": {"prefixFormat": "{nobody}_"}});
    edit(json!({"aggregation": prefix})).await.unwrap();
    let refused = async || {
        let condition = place.condition("virtualmcpserver/all", "ConfigValid").await;
        (condition["status"] == "False").then(|| condition["message"].as_str().unwrap_or_default().to_owned())
    };
    let refused = place.eventually("a condition that says what is wrong", refused).await;
    assert!(refused.contains("spec.config.aggregation.conflictResolutionConfig.prefixFormat"), "{refused}");
    assert!(has("web_add").await && !has("web_echo").await, "the last good configuration serves");
    assert_eq!(self::pods(&place).await, pods, "no pod was made anew");
    place.remove().await;
}

/// Every pod of vmcp, with the number of its restarts.
async fn pods(place: &Namespace) -> Vec<(Option<String>, i32)> {
    let pods = place.list::<Pod>("app.kubernetes.io/name=vmcp").await;
    assert!(!pods.is_empty(), "there are pods of vmcp");
    let restarts = |pod: &Pod| {
        let states = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        states.into_iter().flatten().map(|state| state.restart_count).sum()
    };
    pods.iter().map(|pod| (pod.metadata.uid.clone(), restarts(pod))).collect()
}
