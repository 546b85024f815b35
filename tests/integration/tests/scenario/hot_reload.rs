//! Hot reload: edits of the configuration file take effect while the server runs; an edit that is not valid
//! is refused, logged and counted, and the configuration before it stays in force.

use std::time::Duration;

use serde_json::json;
use vmcp_integration::{Client, Fixture, Messages, Vmcp, eventually};

#[tokio::test]
async fn backends_come_and_go_without_dropping_a_session_or_a_call() {
    let (echo, jira) =
        (Fixture::http("echo", "echo").start().await, Fixture::http("jira", "jira").start().await);
    let mut vmcp = Vmcp::new().backend(&echo).start().await;
    vmcp.with_tool("echo_sleep").await;
    let client = vmcp.legacy().await;
    let call = client.call_tool("echo_sleep", json!({"ms": 2500}));
    let edit = async {
        eventually("the call to arrive", async || (echo.calls("sleep").await == 1).then_some(())).await;
        let sessions = echo.received("initialize").await;
        vmcp.reconfigure(json!({"backends": [echo.backend, jira.backend]}));
        vmcp.with_tool("jira_create_note").await;
        sessions
    };
    let (answer, sessions) = futures::join!(call, edit);
    assert_eq!(answer.content_text(), "slept 2500 ms", "{}", answer.text);
    assert!(client.tools().await.contains_key("jira_create_note"), "the same session sees the new backend");
    assert_eq!(echo.received("server/discover").await, 1, "echo is left alone");
    assert_eq!(echo.received("initialize").await, sessions, "and so is the client's session there");

    vmcp.reconfigure(json!({"backends": [jira.backend]}));
    eventually("echo to be gone", async || (!client.tools().await.contains_key("echo_echo")).then_some(()))
        .await;
    assert!(
        client.call_tool("jira_get_jira_issue", json!({"issueKey": "PROJ-1"})).await.message["result"]
            .is_object()
    );
}

#[tokio::test]
async fn a_bad_edit_keeps_the_last_good_configuration() {
    let echo = Fixture::http("echo", "echo").start().await;
    let mut vmcp = Vmcp::new().backend(&echo).start().await;
    let client = vmcp.with_tool("echo_echo").await;
    for bad in ["backends: [", "backends: []\nfoo: bar\n"] {
        let before = vmcp.metric(r#"vmcp_config_reloads_total{outcome="refused"}"#).await;
        vmcp.write_config(bad);
        eventually(&format!("{bad:?} to be refused"), async || {
            let after = vmcp.metric(r#"vmcp_config_reloads_total{outcome="refused"}"#).await;
            (after > before).then_some(())
        })
        .await;
        let answer = client.call_tool("echo_echo", json!({"message": "still here"})).await;
        assert_eq!(answer.content_text(), "still here", "{}", answer.text);
    }
    // The log names the mistake.
    vmcp.process.line_after("foo").await;
    vmcp.reconfigure(json!({"optimizer": {"exposure": "MetaOnly"}}));
    eventually("the good edit", async || (client.tools().await.len() == 2).then_some(())).await;
}

#[tokio::test]
async fn an_empty_file_leaves_the_last_configuration_and_an_empty_list_removes_all() {
    let echo = Fixture::http("echo", "echo").start().await;
    let mut vmcp = Vmcp::new().backend(&echo).start().await;
    let client = vmcp.with_tool("echo_echo").await;
    vmcp.write_config("");
    eventually("the empty file to be refused", async || {
        (vmcp.metric(r#"vmcp_config_reloads_total{outcome="refused"}"#).await == 1).then_some(())
    })
    .await;
    let answer = client.call_tool("echo_echo", json!({"message": "still here"})).await;
    assert_eq!(answer.content_text(), "still here", "{}", answer.text);
    vmcp.write_config("backends: []\n");
    eventually("the backend to go", async || (!client.tools().await.contains_key("echo_echo")).then_some(()))
        .await;
    vmcp.reconfigure(json!({}));
    vmcp.with_tool("echo_echo").await;
}

#[tokio::test]
async fn rules_change_names_at_once() {
    let echo = Fixture::http("echo", "echo").start().await;
    let mut vmcp = Vmcp::new().backend(&echo).start().await;
    vmcp.with_tool("echo_echo").await;
    let overrides =
        json!([{"workload": "echo", "filter": ["say", "add"], "overrides": {"echo": {"name": "say"}}}]);
    vmcp.reconfigure(json!({"aggregation": {"tools": overrides}}));
    let client = vmcp.with_tool("echo_say").await;
    let names: Vec<String> = client.tools().await.keys().cloned().collect();
    assert_eq!(names, ["echo_add", "echo_say", "optim_call_tool", "optim_find_tool"]);
    assert_eq!(client.call_tool("echo_say", json!({"message": "hi"})).await.content_text(), "hi");
    assert_eq!(echo.calls("echo").await, 1);
    assert_eq!(
        vmcp.with_tool("echo_add").await.call_tool("echo_sleep", json!({"ms": 0})).await.error()["code"],
        -32602
    );
}

#[tokio::test]
async fn a_rotated_token_and_other_limits_restart_nothing() {
    let old = Fixture::http("old", "echo").args(["--era", "legacy"]).start().await;
    let mut spec = old.backend.clone();
    spec["headers"] = json!({"authorization": "Bearer one"});
    let mut vmcp = Vmcp::new().backend_entry(spec.clone()).start().await;
    vmcp.with_tool("old_echo").await;
    let client = vmcp.legacy().await;
    client.call_tool("old_echo", json!({"message": "hi"})).await.result();
    let before = old.received("initialize").await;
    spec["headers"]["authorization"] = "Bearer two".into();
    spec["connectionTimeout"] = "7s".into();
    vmcp.reconfigure(json!({"backends": [spec], "proxy": {"refreshInterval": "10m"},
        "operational": {"failureHandling": {"circuitBreaker": {"failureThreshold": 9}}}}));
    eventually("the new token to be sent", async || {
        client.call_tool("old_echo", json!({"message": "hi"})).await.result();
        (old.stats().await["last_headers"]["authorization"] == "Bearer two").then_some(())
    })
    .await;
    assert_eq!(old.received("initialize").await, before, "the connections live on");
}

#[tokio::test]
async fn a_question_is_answered_after_a_reload_that_replaced_its_backend() {
    let new = Fixture::rmcp("new", "modern").await;
    let mut vmcp = Vmcp::new().backend(&new).start().await;
    vmcp.with_tool("new_test_elicitation").await;
    let client = Client::legacy_with(&vmcp.url, "2025-11-25", "raw", json!({"elicitation": {}})).await;
    let ask = json!({"name": "new_test_elicitation", "arguments": {"message": "Who?"}});
    let mut messages = Messages::of(client.open("tools/call", ask).await);
    let question = messages.next().await.expect("a question");
    let mut spec = new.backend.clone();
    spec["headers"] = json!({"x-other": "1"});
    vmcp.reconfigure(json!({"backends": [spec]}));
    eventually("the new backend", async || {
        (vmcp.metric(r#"vmcp_config_reloads_total{outcome="applied"}"#).await == 1).then_some(())
    })
    .await;
    // The old one takes no more requests then.
    tokio::time::sleep(Duration::from_secs(2)).await;
    client.reply(&question["id"], &json!({"action": "decline"})).await;
    let answer = messages.next().await.expect("an answer").to_string();
    assert!(answer.contains("decline"), "{answer}");
}

#[tokio::test]
async fn a_session_key_is_replaced_while_nobody_notices() {
    let old = "the old key, of more than enough characters";
    let new = "the new key, of more than enough characters";
    let keys = |keys: &[&str]| json!({"server": {"sessionKeys": keys}});
    let mut vmcp = Vmcp::new().config(keys(&[old])).start().await;
    let replica = Vmcp::new().config(keys(&[new])).start().await;
    let is_served = async |vmcp: &Vmcp, client: &Client| {
        let client = vmcp.legacy().await.with_session(client.session.as_deref().expect("a session"));
        client.request("tools/list", json!({})).await.status == 200
    };
    let before = vmcp.legacy().await;
    assert!(is_served(&vmcp, &before).await && !is_served(&replica, &before).await);

    vmcp.reconfigure(keys(&[new, old]));
    let after = eventually("the new key to seal", async || {
        let client = vmcp.legacy().await;
        is_served(&replica, &client).await.then_some(client)
    })
    .await;
    assert!(is_served(&vmcp, &before).await, "sealed with the second key");

    vmcp.reconfigure(keys(&[new]));
    eventually("the old key to go", async || (!is_served(&vmcp, &before).await).then_some(())).await;
    assert!(is_served(&vmcp, &after).await);
}
