//! Notifications beside requests: progress, cancellation, changed lists; and changed definitions as logged
//! events.

use std::time::Duration;

use futures::StreamExt as _;
use serde_json::json;
use vmcp_integration::{Client, Fixture, MODERN, Vmcp, VmcpBuilder, eventually};

async fn every_backend() -> Vec<Fixture> {
    vec![
        Fixture::http("modern", "echo").args(["--era", "modern"]).start().await,
        Fixture::http("legacy", "echo").args(["--era", "legacy"]).start().await,
        Fixture::stdio("pipe", "echo").shared().start().await,
        Fixture::stdio("oldpipe", "echo").args(["--era", "legacy"]).shared().start().await,
    ]
}

async fn start_with_backends(backends: &[Fixture]) -> Vmcp {
    let vmcp = backends.iter().fold(Vmcp::new(), VmcpBuilder::backend);
    let vmcp = vmcp.config(json!({"optimizer": {"exposure": "All"}})).start().await;
    for backend in backends {
        vmcp.with_tool(&format!("{}_echo", backend.name)).await;
    }
    vmcp
}

#[tokio::test]
async fn progress_arrives_in_order_under_the_clients_own_token() {
    let backends = every_backend().await;
    let vmcp = start_with_backends(&backends).await;
    for revision in [MODERN, "2025-11-25"] {
        let client = vmcp.client(revision).await;
        for backend in &backends {
            let direct = json!({"name": format!("{}_progress", backend.name), "arguments": {"steps": 5},
                "_meta": {"progressToken": "mine"}});
            let found = json!({"name": "optim.call_tool", "_meta": {"progressToken": "mine"},
                "arguments": {"tool_name": format!("{}_progress", backend.name), "parameters": {"steps": 5}}});
            for params in [direct, found] {
                let answer = client.request("tools/call", params).await;
                let steps: Vec<_> =
                    answer.notifications.iter().map(|n| n["params"]["progress"].as_f64()).collect();
                let expected: Vec<_> = (1..=5).map(|step| Some(f64::from(step))).collect();
                assert_eq!(steps, expected, "{revision} client, {}: {}", backend.name, answer.text);
                assert!(answer.notifications.iter().all(|n| n["params"]["progressToken"] == "mine"));
            }
        }
    }
}

#[tokio::test]
async fn a_change_before_a_session_listens_is_told_as_soon_as_it_does() {
    let server = Fixture::http("legacy", "echo").args(["--era", "legacy"]).start().await;
    let vmcp = start_with_backends(std::slice::from_ref(&server)).await;
    let client = vmcp.legacy().await;
    client.tools().await;
    // The beginning of a session is known by the millisecond.
    tokio::time::sleep(Duration::from_millis(2)).await;
    let tool = json!({"name": "late", "description": "New", "inputSchema": {"type": "object"}});
    server.control(json!({"do": "add_tool", "tool": tool})).await;
    vmcp.with_tool("legacy_late").await;
    let mut stream = client.listen().await.bytes_stream();
    until(&mut stream, "notifications/tools/list_changed").await;
}

#[tokio::test]
async fn a_legacy_client_that_set_no_level_hears_a_modern_servers_log() {
    let server = Fixture::http("modern", "echo").args(["--era", "modern"]).start().await;
    let vmcp = start_with_backends(std::slice::from_ref(&server)).await;
    let answer = vmcp.legacy().await.call_tool("modern_log", json!({"message": "hello"})).await;
    let logged = answer.notifications.iter().any(|message| message["params"]["data"] == "hello");
    assert!(logged, "{}", answer.text);
}

#[tokio::test]
async fn a_client_that_cancels_cancels_at_the_backend() {
    let backends = every_backend().await;
    let vmcp = start_with_backends(&backends).await;
    for backend in &backends {
        let tool = format!("{}_sleep", backend.name);
        let params = json!({"name": tool, "arguments": {"ms": 600_000}});
        let is_running = async |calls| (backend.calls("sleep").await == calls).then_some(());
        let is_cancelled = async |count: u64| (backend.stats().await["cancelled"] == count).then_some(());

        // A modern client leaves.
        let client = vmcp.modern();
        let call = tokio::spawn({
            let params = params.clone();
            async move { client.request("tools/call", params).await }
        });
        eventually(&format!("{tool} to run"), async || is_running(1).await).await;
        call.abort();
        eventually(&format!("{tool} to be cancelled"), async || is_cancelled(1).await).await;

        // A legacy client says so.
        let client = std::sync::Arc::new(vmcp.legacy().await);
        let call = tokio::spawn({
            let (client, params) = (client.clone(), params.clone());
            async move { client.open_as(77, "tools/call", params).await.text().await }
        });
        eventually(&format!("{tool} to run again"), async || is_running(2).await).await;
        client.notify("notifications/cancelled", json!({"requestId": 77, "reason": "enough"})).await;
        eventually(&format!("{tool} to be cancelled again"), async || is_cancelled(2).await).await;
        call.abort();

        // A legacy client ends its session.
        let call = tokio::spawn({
            let (client, params) = (client.clone(), params.clone());
            async move { client.open("tools/call", params).await.text().await }
        });
        eventually(&format!("{tool} to run once more"), async || is_running(3).await).await;
        assert_eq!(client.close().await.status(), 200);
        // A session of its own at the backend ends there, with its calls.
        let has_ended = async || {
            let stats = backend.stats().await;
            (stats["cancelled"] == 3 || stats["http"]["DELETE"].as_u64() > Some(0)).then_some(())
        };
        eventually(&format!("{tool} to be cancelled with it"), has_ended).await;
        call.abort();
    }
}

#[tokio::test]
async fn a_changed_list_reaches_every_listener() {
    let backends = every_backend().await;
    let vmcp = start_with_backends(&backends).await;
    for backend in &backends {
        for is_modern in [true, false] {
            // A session that began before a change is told of it as soon as it listens.
            let client = if is_modern { vmcp.modern() } else { vmcp.legacy().await };
            let mut stream = client.listen().await.bytes_stream();
            if client.session.is_none() {
                until(&mut stream, "notifications/subscriptions/acknowledged").await;
            }
            let name = format!("new_{}", client.session.is_some());
            let tool = json!({"name": name, "description": "New", "inputSchema": {"type": "object"}});
            backend.control(json!({"do": "add_tool", "tool": tool})).await;
            until(&mut stream, "notifications/tools/list_changed").await;
            let listed = client.tools().await;
            let full_name = format!("{}_{name}", backend.name);
            assert!(listed.contains_key(&full_name), "{} at once", backend.name);
            let found = client.find_tool(json!({"tool_description": full_name, "limit": 50})).await;
            assert!(found.text.contains(&full_name), "found without a restart: {}", found.text);
        }
    }
}

/// Reads a stream until one of its messages names `method`.
async fn until<S: futures::Stream<Item = reqwest::Result<B>> + Unpin, B: AsRef<[u8]>>(
    stream: &mut S,
    method: &str,
) {
    let mut seen = String::new();
    let read = async {
        while !seen.contains(method) {
            let chunk = stream.next().await.expect("an open stream").expect("a chunk");
            seen.push_str(&String::from_utf8_lossy(chunk.as_ref()));
        }
    };
    let done = tokio::time::timeout(vmcp_integration::WAIT_TIMEOUT, read).await;
    assert!(done.is_ok(), "no {method} in {seen}");
}

#[tokio::test]
async fn a_changed_definition_is_an_event_with_a_before_and_an_after() {
    let jira = Fixture::http("jira", "jira").start().await;
    let vmcp = Vmcp::new().backend(&jira).start().await;
    let client = vmcp.with_tool("jira_create_note").await;
    jira.control(json!({"do": "describe", "tool": "create_note", "description": "Erase everything"})).await;
    eventually("the new description", async || {
        (client.tools().await["jira_create_note"]["description"] == "Erase everything").then_some(())
    })
    .await;
    let found = client.find_tool(json!({"tool_description": "erase everything"})).await;
    assert_eq!(found.structured()["tools"][0]["name"], "jira_create_note");
    eventually("the change to be counted", async || {
        let changed = vmcp.metrics().await;
        let is_update =
            |line: &str| line.starts_with("vmcp_catalog_changes_total") && line.contains("updated");
        changed.lines().any(is_update).then_some(())
    })
    .await;
    let line = eventually("the event in the log", async || {
        let output = vmcp.process.output();
        let is_event = |line: &&str| line.contains("\"tool changed\"") && line.contains("create_note");
        output.lines().find(is_event).map(str::to_owned)
    })
    .await;
    let hash = |key: &str| {
        let value = line.split_once(key).map(|(_, rest)| rest.chars().filter(|c| *c != '"' && *c != ':'));
        value.map(|rest| rest.take_while(char::is_ascii_hexdigit).collect::<String>()).unwrap_or_default()
    };
    let (before, after) = (hash("old"), hash("new"));
    assert!(before.len() == 64 && after.len() == 64 && before != after, "two hashes in {line}");
}

#[tokio::test]
async fn a_change_that_nobody_announces_is_found_by_looking() {
    let jira = Fixture::http("jira", "jira").start().await;
    let vmcp = Vmcp::new().backend(&jira).config(json!({"proxy": {"refreshInterval": "1s"}})).start().await;
    let client: Client = vmcp.with_tool("jira_create_note").await;
    let quietly =
        json!({"do": "describe", "tool": "create_note", "description": "Quietly changed", "quiet": true});
    jira.control(quietly).await;
    eventually("the new description", async || {
        (client.tools().await["jira_create_note"]["description"] == "Quietly changed").then_some(())
    })
    .await;
}
