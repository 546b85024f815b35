//! Search while the embedding service that the operator runs is there, and while it is not.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;
use vmcp_integration::http_client;
use vmcp_kubernetes_tests::images::in_cluster;
use vmcp_kubernetes_tests::{Cluster, Namespace, Stopwatch, skipped};

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
    let cluster = Cluster::from_environment();
    if !cluster.has_volumes().await {
        skipped("the cluster has no default StorageClass, and the cache of a model wants a volume");
        return;
    }
    let place = cluster.served("embeddings").await;
    place.apply(RESOURCES).await;
    ready(&place, "smart").await;
    let embeddings = async |wanted: &str| {
        let condition = place.condition("virtualmcpserver/smart", "EmbeddingsReady").await;
        (condition["status"] == wanted).then_some(condition)
    };
    place.eventually("vectors", async || embeddings("True").await).await;
    vectors_live_as_long_as_their_pod(&place).await;
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
    // A new query each time, for which no vector is cached.
    let down = async || {
        let query = json!({"tool_description": format!("issue {:?}", std::time::Instant::now()), "tool_keywords": "issue"});
        let found = client.find_tool(query).await;
        assert!(found.text.contains("jira_get_jira_issue"), "words are searched meanwhile: {}", found.text);
        embeddings("False").await
    };
    let condition = place.eventually("EmbeddingsReady=False", down).await;
    assert!(condition["message"].as_str().is_some_and(|message| !message.is_empty()), "{condition:#}");

    // A pod that is ending still answers where a Service has no other.
    place
        .eventually("the end of the service's pod", async || {
            place.list::<Pod>("app.kubernetes.io/instance=vectors").await.is_empty().then_some(())
        })
        .await;
    let watch = Stopwatch::start(&place).await;
    place.apply(RESOURCES).await;
    let condition = place.eventually("vectors again", async || embeddings("True").await).await;
    let since: Time = serde_json::from_value(condition["lastTransitionTime"].clone()).unwrap();
    let came_up = service_ready(&place).await;
    watch.assert_between(Duration::from_mins(1), "EmbeddingsReady=True", &came_up, &since);
    place.eventually("a search", finds).await;
    place.remove().await;
}

/// Returns the time since which the embedding service is ready.
async fn service_ready(place: &Namespace) -> Time {
    let pods = place.list::<Pod>("app.kubernetes.io/instance=vectors").await;
    let alive = pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let conditions = alive.filter_map(|pod| pod.status?.conditions).flatten();
    let mut ready = conditions.filter(|condition| condition.type_ == "Ready" && condition.status == "True");
    ready.find_map(|condition| condition.last_transition_time).expect("a ready pod")
}

/// Checks that cached vectors outlive the process and go with the pod.
async fn vectors_live_as_long_as_their_pod(place: &Namespace) {
    let service = place.endpoint("vectors-tei", 8080).await;
    let url = format!("{}/inputs", service.url);
    let given = async || http_client().get(&url).send().await.unwrap().json::<Vec<String>>().await.unwrap();
    let mut tools = given().await;
    tools.retain(|text| text.contains("jira"));
    assert!(!tools.is_empty(), "tools were embedded");
    // Counts how often each tool was embedded.
    let embedded = async || {
        let given = given().await;
        let times = |tool: &String| given.iter().filter(|text| *text == tool).count();
        tools.iter().map(times).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(embedded().await, [1]);
    let by_meaning = async || {
        let (_way, client) = client(place, "smart").await;
        let search = async || {
            let found = client.find_tool(json!({"tool_description": "read an issue of jira"})).await;
            (found.structured()["search_mode"] == "hybrid").then_some(())
        };
        place.eventually("a search by meaning", search).await;
    };

    let pods = "app.kubernetes.io/name=vmcp,app.kubernetes.io/instance=smart";
    let pod = place.list::<Pod>(pods).await.remove(0).metadata.name.unwrap();
    // A debug container of the same user may signal vmcp; the image of vmcp has no program that could.
    let program = "import os; os.kill(1, 15)";
    let mut end =
        vec!["debug", &pod, "--namespace", &place.name, "--target", "vmcp", "--profile", "restricted"];
    let [_, _, servers] = in_cluster();
    end.extend(["--image", &servers, "--image-pull-policy", "IfNotPresent", "--", "python3", "-c", program]);
    place.cluster().kubectl(&end).await.unwrap();
    let restarted = async || {
        let states = place.get::<Pod>(&pod).await?.status?.container_statuses?;
        states.iter().any(|state| state.restart_count == 1 && state.ready).then_some(())
    };
    place.eventually("another process in the pod", restarted).await;
    by_meaning().await;
    assert_eq!(embedded().await, [1], "nothing is embedded anew");

    place.delete::<Pod>(&pod).await;
    let again = async || (embedded().await == [2]).then_some(());
    place.eventually("every tool to be embedded once more", again).await;
    by_meaning().await;
    assert_eq!(embedded().await, [2], "once");
}

/// The embedding service that the manifest names does not exist here; only search by meaning is lost.
#[tokio::test]
async fn the_manifest_of_the_rfc_serves_as_written() {
    let cluster = Cluster::from_environment();
    let place = cluster.served("rfc").await;
    let (server, _) = RESOURCES.split_once("---").unwrap();
    place.apply(server).await;
    place.apply(include_str!("../../../../deploy/examples/rfc.yaml")).await;
    ready(&place, "vmcp-with-optimizer").await;
    let (_way, client) = client(&place, "vmcp-with-optimizer").await;
    let tools = client.tools().await;
    assert!(tools.contains_key("optim_find_tool") && tools.contains_key("optim_call_tool"), "{tools:?}");
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
