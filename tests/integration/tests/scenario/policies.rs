//! Cedar policies: clients see and call what they may; policies change while the server runs.

use std::time::Duration;

use serde_json::{Value, json};
use vmcp_integration::{Client, Fixture, Messages, Vmcp, eventually, http_client};

/// Settings with these policies.
fn with(policies: &[&str]) -> Value {
    json!({"incomingAuth": {"authz": {"policies": policies}}})
}

#[tokio::test]
async fn policies_hide_tools_and_change_without_a_restart() {
    let echo = Fixture::http("echo", "echo").start().await;
    let mut settings = with(&[
        r#"permit(principal == Client::"anonymous", action, resource == Tool::"echo_echo");"#,
        r#"forbid(principal, action, resource) when { context has arg_message && context.arg_message == "secret" };"#,
        r#"forbid(principal, action, resource == Tool::"optim.reset_tool_metrics");"#,
    ]);
    settings["optimizer"] = json!({
        "exposure": "All",
        "discovery": {"enabled": true, "contextFiltering": false},
        "tools": ["find_tool", "reset_tool_metrics"],
    });
    let mut vmcp = Vmcp::new().backend(&echo).config(settings).start().await;
    let client = vmcp.with_tool("echo_echo").await;
    assert!(!client.tools().await.contains_key("echo_sleep"));
    let by_topic = http_client().get(vmcp.url.replace("/mcp", "/tools")).send().await.expect("an answer");
    let by_topic = by_topic.text().await.expect("a list");
    assert!(by_topic.contains("echo_echo") && !by_topic.contains("echo_sleep"), "{by_topic}");
    let answer = client.call_tool("echo_echo", json!({"message": "hello"})).await;
    assert_eq!(answer.content_text(), "hello", "{}", answer.text);
    // Denied for its tool, denied for its arguments, and unknown: one answer.
    let denied = [
        ("echo_sleep", json!({"ms": 1})),
        ("echo_echo", json!({"message": "secret"})),
        ("optim_reset_tool_metrics", json!({})),
        ("echo_never", json!({})),
    ];
    for (tool, arguments) in denied {
        let answer = client.call_tool(tool, arguments).await;
        assert_eq!(answer.message["error"]["message"], format!("Unknown tool: {tool}"), "{}", answer.text);
    }
    assert_eq!(echo.calls("sleep").await, 0);
    // The log tells denied from unknown, by the id of the policy.
    let warnings = |vmcp: &Vmcp| {
        let output = vmcp.process.output();
        let denied = output.lines().filter(|line| line.contains("call denied"));
        denied.filter(|line| line.contains("WARN") && !line.contains("echo_never")).count()
    };
    eventually("a warning of each denial", async || (warnings(&vmcp) >= 3).then_some(())).await;

    let refused = vmcp.metric(r#"vmcp_config_reloads_total{outcome="refused"}"#).await;
    vmcp.reconfigure(with(&["permit(principal action, resource);"]));
    eventually("the bad policy to be refused", async || {
        let now = vmcp.metric(r#"vmcp_config_reloads_total{outcome="refused"}"#).await;
        (now > refused).then_some(())
    })
    .await;
    vmcp.process.line_after("policies[0]: line 1, column ").await;
    assert!(!client.tools().await.contains_key("echo_sleep"), "the policies before stay in force");
    vmcp.reconfigure(with(&["permit(principal, action, resource);"]));
    eventually("the session to see the rest", async || {
        client.tools().await.contains_key("echo_sleep").then_some(())
    })
    .await;
    let output = vmcp.process.output();
    assert_eq!((warnings(&vmcp), output.matches("call denied").count()), (3, 4), "one each: {output}");
}

/// A legacy backend of whose tools and resources a client may use some, and the client's session and stream.
async fn partly_permitted() -> (Fixture, Vmcp, Client, Messages) {
    let backend = Fixture::http("old", "echo").args(["--era", "legacy"]).start().await;
    let settings = with(&[
        r#"permit(principal, action, resource == Tool::"old_echo");"#,
        r#"permit(principal, action, resource == Tool::"old_seen");"#,
        r#"permit(principal, action, resource == Resource::"fixture://old/greeting");"#,
    ]);
    let vmcp = Vmcp::new().backend(&backend).config(settings).start().await;
    vmcp.with_tool("old_echo").await;
    let client = Client::legacy_with(&vmcp.url, "2025-11-25", "raw", json!({})).await;
    client.call_tool("old_echo", json!({"message": "hi"})).await.result();
    let messages = Messages::of(client.listen().await);
    eventually("the stream at the backend", async || {
        (backend.stats().await["listeners"].as_u64()? >= 2).then_some(())
    })
    .await;
    (backend, vmcp, client, messages)
}

async fn update(backend: &Fixture, uri: &str) {
    let params = json!({"uri": uri});
    let message = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params});
    backend.control(json!({"do": "send", "message": message})).await;
}

async fn add(backend: &Fixture, name: &str) {
    let tool = json!({"name": name, "description": "New", "inputSchema": {"type": "object"}});
    backend.control(json!({"do": "add_tool", "tool": tool})).await;
}

#[tokio::test]
async fn updates_name_only_resources_that_the_subscriber_may_read() {
    let (backend, _vmcp, client, mut messages) = partly_permitted().await;
    let uri = "fixture://old/greeting";
    client.request("resources/subscribe", json!({"uri": uri})).await.result();
    update(&backend, "fixture://old/greeting/secret").await;
    update(&backend, uri).await;
    let heard = messages.next().await.expect("an update");
    assert_eq!(
        (&heard["method"], &heard["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!(uri))
    );
}

#[tokio::test]
async fn a_list_has_changed_for_those_who_see_the_change() {
    let (backend, vmcp, client, mut messages) = partly_permitted().await;
    let uri = "fixture://old/greeting";
    client.request("resources/subscribe", json!({"uri": uri})).await.result();
    add(&backend, "unseen").await;
    eventually("the hidden tool in the catalog", async || {
        let all = vmcp.admin_json("admin/tools").await;
        all["tools"].as_array()?.iter().any(|tool| tool["name"] == "old_unseen").then_some(())
    })
    .await;
    // Time for a message that must not come.
    tokio::time::sleep(Duration::from_secs(1)).await;
    update(&backend, uri).await;
    let heard = messages.next().await.expect("an update");
    assert_eq!(heard["method"], "notifications/resources/updated", "nothing is told of the hidden tool");
    add(&backend, "seen").await;
    let heard = messages.next().await.expect("a change");
    assert_eq!(heard["method"], "notifications/tools/list_changed", "{heard}");
    assert!(client.tools().await.contains_key("old_seen"));
}
