//! A group of servers of every kind behind one endpoint, and changes of it while it serves.

use std::time::Instant;

use k8s_openapi::api::core::v1::{Pod, Secret};
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
metadata: {name: web, labels: {stage: prod}}
spec:
  groupRef: {name: tools}
  image: localhost/vmcp-tests/servers:1
  transport: streamable-http
  command: [vmcp-fixture, --transport, http, --host, 0.0.0.0, --port, '8080', --name, web]
  mcpPort: 8080
---
apiVersion: toolhive.stacklok.com/v1alpha1
kind: MCPServer
metadata: {name: clock, labels: {stage: staging}}
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
spec:
  groupRef: {name: tools}
  optimizer: {enabled: true, embeddings: {provider: none}, tools: [find_tool, call_tool, list_mcp_servers]}
---
apiVersion: toolhive.stacklok.com/v1alpha1
kind: VirtualMCPServer
metadata: {name: prod}
spec:
  groupRef: {name: tools}
  backendSelector: {matchLabels: {stage: prod}}
  optimizer: {enabled: true, exposure: All, embeddings: {provider: none}}
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

/// Returns the manifest of a server that the operator does not run.
fn remote(place: &Namespace) -> String {
    let url = format!("http://far.{}.svc.cluster.local:8080/mcp", place.name);
    format!(
        "{{apiVersion: toolhive.stacklok.com/v1alpha1, kind: MCPServerEntry, metadata: {{name: far}},
          spec: {{groupRef: {{name: tools}}, remoteUrl: '{url}', transport: streamable-http, allowPrivateEndpoint: true}}}}"
    )
}

#[tokio::test]
async fn servers_of_three_kinds_are_listed_found_and_called_and_come_and_go() {
    let cluster = Cluster::from_environment();
    let place = cluster.served("serving").await;
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

    let listed = async || {
        let listed = search.call_tool("optim_list_mcp_servers", json!({})).await;
        let names = ["clock", "everything", "far", "web"];
        names.iter().all(|name| listed.text.contains(&format!("\"{name}\""))).then_some(())
    };
    place.eventually("all four servers in optim_list_mcp_servers", listed).await;

    only_what_the_selector_selects(&place).await;

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

    place
        .eventually("four backends in the status of a server that is well", async || {
            let status = &place.json("virtualmcpserver/all").await["status"];
            (status["backendCount"] == 4 && status["phase"] == "Ready").then_some(())
        })
        .await;
    place.remove().await;
}

/// Checks a selector of backends: of two running servers, one in production and one in staging, only the
/// first is offered.
async fn only_what_the_selector_selects(place: &Namespace) {
    ready(place, "prod").await;
    let (_way, prod) = client(place, "prod").await;
    let listed = async || prod.tools().await.contains_key("web_echo").then_some(());
    place.eventually("the tools of production", listed).await;
    let tools = prod.tools().await;
    assert!(!tools.keys().any(|tool| tool.starts_with("clock_") || tool.starts_with("far_")), "{tools:?}");
    let search = async |words: &str| {
        prod.find_tool(json!({"tool_description": words, "tool_keywords": words})).await.text
    };
    let found = search("which time is it in a timezone").await;
    assert!(!found.contains("clock_"), "{found}");
    assert!(search("echo a message").await.contains("web_echo"));
    let refused = prod.call_found("clock_get_current_time", json!({"timezone": "Europe/Berlin"})).await;
    assert!(!refused.text.contains("Europe/Berlin"), "{}", refused.text);
}

#[tokio::test]
async fn configuration_changes_in_running_pods_and_what_is_invalid_changes_nothing() {
    let cluster = Cluster::from_environment();
    let place = cluster.served("hot").await;
    place.apply(SERVERS).await;
    ready(&place, "all").await;
    let (_way, modern) = client(&place, "all").await;
    let has = async |tool: &str| modern.tools().await.contains_key(tool);
    place.eventually("web_echo", async || has("web_echo").await.then_some(())).await;
    let way = place.endpoint("vmcp-all", 4483).await;
    let session =
        vmcp_integration::Client::legacy(&format!("{}/mcp", way.url), "2025-11-25", "patient").await;
    let pods = pods(&place).await;

    a_new_admin_token_takes_the_place_of_the_old(&place).await;

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
    // The operator learns the number from pods, with the new token.
    let counted = async || {
        let tools = modern.tools().await.len();
        (place.json("virtualmcpserver/all").await["status"]["toolCount"] == tools).then_some(())
    };
    place.eventually("the number of tools in the status", counted).await;
    let sum = session.call_tool("web_add", json!({"a": 2, "b": 3})).await;
    assert!(sum.content_text().contains('5'), "{}", sum.text);

    // A mistake that the schema cannot know.
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

/// Replaces the admin token without a restart; the status stays true all the while.
async fn a_new_admin_token_takes_the_place_of_the_old(place: &Namespace) {
    // Ready alone is too early: until pods have told of their backends, nothing is known to be wrong.
    let well = async || {
        let status = place.json("virtualmcpserver/all").await["status"].take();
        (status["phase"] == "Ready" && status["backendCount"] == 3).then_some(())
    };
    place.eventually("a server whose three backends are up", well).await;
    let token = async || {
        let token = place.get::<Secret>("all-vmcp-secrets").await?.data?.remove("admin-token")?;
        Some(String::from_utf8(token.0).unwrap())
    };
    let old = token().await.unwrap();
    // A missing value is generated again; deleting the whole Secret would replace the session key too.
    let another = async || {
        let token = token().await?;
        if token == old {
            // A reconcile under way may put the old token back: then it is removed once more.
            place.edit::<Secret>("all-vmcp-secrets", json!({"data": {"admin-token": null}})).await;
            return None;
        }
        Some(token)
    };
    let new = place.eventually("a new token", another).await;

    let pod = place.list::<Pod>("app.kubernetes.io/name=vmcp,app.kubernetes.io/instance=all").await.remove(0);
    let address = pod.status.and_then(|status| status.pod_ip).unwrap();
    let asks = async |token: &str| {
        let program = format!(
            "import urllib.request as u, urllib.error as e\n\
             try: print(u.urlopen(u.Request('http://{address}:9090/admin/status', headers={{'Authorization': \
             'Bearer {token}'}}), timeout=5).status)\n\
             except e.HTTPError as error: print(error.code)"
        );
        let exec = ["exec", "--namespace", &place.name, "far", "--", "python3", "-c", &program];
        place.cluster().kubectl(&exec).await.ok().map(|answer| answer.trim().to_owned())
    };
    place
        .eventually("the new token to be good", async || {
            let status = &place.json("virtualmcpserver/all").await["status"];
            assert_eq!(status["phase"], "Ready", "nothing has happened that concerns anybody: {status:#}");
            (asks(&new).await.as_deref() == Some("200")).then_some(())
        })
        .await;
    assert_eq!(asks(&old).await.as_deref(), Some("401"));
}

/// Returns every pod of vmcp, with the number of its restarts.
async fn pods(place: &Namespace) -> Vec<(Option<String>, i32)> {
    let pods = place.list::<Pod>("app.kubernetes.io/name=vmcp").await;
    assert!(!pods.is_empty(), "there are pods of vmcp");
    let restarts = |pod: &Pod| {
        let states = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        states.into_iter().flatten().map(|state| state.restart_count).sum()
    };
    pods.iter().map(|pod| (pod.metadata.uid.clone(), restarts(pod))).collect()
}
