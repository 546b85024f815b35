//! A service for embeddings that the operator runs, while it is there and while it is not.

use serde_json::json;
use vmcp_kubernetes_tests::Cluster;

use super::{client, ready};

const RESOURCES: &str = "apiVersion: toolhive.stacklok.com/v1alpha1
kind: MCPServer
metadata: {name: jira}
spec:
  image: localhost/vmcp-tests/servers:1
  transport: streamable-http
  command: [vmcp-fixture, --transport, http, --host, 0.0.0.0, --port, '8080', --toolset, jira, --name, jira]
  mcpPort: 8080
---
apiVersion: toolhive.stacklok.com/v1alpha1
kind: EmbeddingServer
metadata: {name: vectors}
spec: {image: 'localhost/vmcp-tests/servers:1', modelCache: {size: 1Gi}}
---
apiVersion: toolhive.stacklok.com/v1alpha1
kind: VirtualMCPServer
metadata: {name: smart}
spec: {embeddingServerRef: {name: vectors}}
";

#[tokio::test]
async fn search_goes_by_words_while_embeddings_are_down_and_recovers() {
    let cluster = Cluster::given();
    cluster.install().await;
    let place = cluster.namespace("embeddings").await;
    place.apply(RESOURCES).await;
    ready(&place, "smart").await;
    let embeddings = async |wanted: &str| {
        let condition = place.condition("virtualmcpserver/smart", "EmbeddingsReady").await;
        (condition["status"] == wanted).then_some(condition)
    };
    place.eventually("vectors", async || embeddings("True").await).await;
    let (_way, client) = client(&place, "smart").await;
    let query = json!({"tool_description": "read an issue of jira", "tool_keywords": "issue"});
    let finds = async || {
        let found = client.find_tool(query.clone()).await;
        found.text.contains("jira_get_jira_issue").then_some(found)
    };
    place.eventually("a search", finds).await;

    place
        .cluster()
        .kubectl(&["delete", "embeddingserver/vectors", "--namespace", &place.name])
        .await
        .unwrap();
    // A search that nobody asked before, so that no vector is known for it.
    let down = async || {
        let query = json!({"tool_description": format!("issue {:?}", std::time::Instant::now()), "tool_keywords": "issue"});
        let found = client.find_tool(query).await;
        assert!(found.text.contains("jira_get_jira_issue"), "words are searched meanwhile: {}", found.text);
        embeddings("False").await
    };
    let condition = place.eventually("EmbeddingsReady=False", down).await;
    assert!(condition["message"].as_str().is_some_and(|message| !message.is_empty()), "{condition:#}");

    place.apply(RESOURCES).await;
    place.eventually("vectors again", async || embeddings("True").await).await;
    place.eventually("a search", finds).await;
    place.remove().await;
}

/// The service that it names does not exist here; that costs meaning, and nothing else.
#[tokio::test]
async fn the_manifest_of_the_rfc_serves_as_written() {
    let cluster = Cluster::given();
    cluster.install().await;
    let place = cluster.namespace("rfc").await;
    let (server, _) = RESOURCES.split_once("---").unwrap();
    place.apply(server).await;
    place.apply(include_str!("../../../../deploy/examples/rfc.yaml")).await;
    ready(&place, "vmcp-with-optimizer").await;
    let (_way, client) = client(&place, "vmcp-with-optimizer").await;
    let tools = client.tools().await;
    assert!(tools.contains_key("optim.find_tool") && tools.contains_key("optim.call_tool"), "{tools:?}");
    let finds = async || {
        let query = json!({"tool_description": "read an issue of jira", "tool_keywords": "issue"});
        client.find_tool(query).await.text.contains("jira_get_jira_issue").then_some(())
    };
    place.eventually("a search by words", finds).await;
    let called = client.call_found("jira_get_jira_issue", json!({"issueKey": "PROJ-1"})).await;
    assert!(!called.is_tool_error(), "{}", called.text);
    let told = async || {
        let condition = place.condition("virtualmcpserver/vmcp-with-optimizer", "EmbeddingsReady").await;
        (condition["status"] == "False").then_some(())
    };
    place.eventually("EmbeddingsReady=False", told).await;
    place.remove().await;
}
