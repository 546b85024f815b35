//! `optim.call_tool`: the tools that it reaches, the calls that it refuses, deadlines and the cut of long
//! answers.

use serde_json::json;
use vmcp_integration::{Client, Fixture, Vmcp};

async fn jira_and_echo() -> (Fixture, Fixture, Vmcp, Client) {
    let jira = Fixture::http("jira", "jira").start().await;
    let echo = Fixture::http("echo", "echo").start().await;
    let vmcp = Vmcp::new().backend(&jira).backend(&echo).start().await;
    vmcp.with_tool("jira_get_jira_issue").await;
    let client = vmcp.with_tool("echo_echo").await;
    (jira, echo, vmcp, client)
}

#[tokio::test]
async fn the_backend_sees_its_own_name_and_the_arguments_as_given() {
    let (jira, _echo, _vmcp, client) = jira_and_echo().await;
    let answer = client.call_found("jira_get_jira_issue", json!({"issueKey": "PROJ-123"})).await;
    assert_eq!(answer.structured()["summary"], "Login fails on Safari", "{}", answer.text);
    let seen = &jira.stats().await["last_call"]["params"];
    assert_eq!(
        (&seen["name"], &seen["arguments"]),
        (&json!("get_jira_issue"), &json!({"issueKey": "PROJ-123"}))
    );
}

#[tokio::test]
async fn every_known_signature_reaches_the_tool() {
    let (_jira, _echo, _vmcp, client) = jira_and_echo().await;
    for arguments in [
        json!({"tool_name": "echo_echo", "parameters": {"message": "hi"}}),
        json!({"tool_name": "echo_echo", "arguments": {"message": "hi"}}),
        json!({"server_name": "echo", "tool_name": "echo", "arguments": {"message": "hi"}}),
        json!({"backend_id": "echo", "tool_name": "echo", "parameters": {"message": "hi"}}),
        json!({"server_name": "echo", "tool_name": "ECHO", "parameters": {"message": "hi"}}),
        json!({"parameters": {"tool_name": "echo_echo", "message": "hi"}}),
    ] {
        let answer = client.call_tool("optim.call_tool", arguments.clone()).await;
        assert_eq!(answer.content_text(), "hi", "{arguments}: {}", answer.text);
    }
    let envelope = json!({"server_name": "echo", "tool_name": "echo", "arguments": {"message": "hi"},
        "response_format": "envelope"});
    let answer = client.call_tool("optim.call_tool", envelope).await;
    let keys: Vec<&String> = answer.structured().as_object().expect("an envelope").keys().collect();
    assert_eq!(keys, ["success", "server", "tool", "result"]);
    let twice =
        json!({"tool_name": "echo_echo", "parameters": {"message": "a"}, "arguments": {"message": "b"}});
    assert!(client.call_tool("optim.call_tool", twice).await.is_tool_error());
}

#[tokio::test]
async fn arguments_are_checked_before_the_backend_is_touched() {
    let (jira, _echo, vmcp, client) = jira_and_echo().await;
    let wrong = client.call_found("jira_get_jira_issue", json!({"issueKey": 5})).await;
    assert!(wrong.is_tool_error() && wrong.content_text().contains("/issueKey"), "{}", wrong.text);
    let missing = client.call_found("jira_get_jira_issue", json!({})).await;
    assert!(missing.is_tool_error() && missing.content_text().contains("issueKey"), "{}", missing.text);
    assert_eq!(jira.received("tools/call").await, 0);
    assert_eq!(vmcp.metric("vmcp_optimizer_schema_rejections_total").await, 2);
}

#[tokio::test]
async fn unknown_tools_and_the_optimizers_own_are_refused() {
    let (_jira, _echo, _vmcp, client) = jira_and_echo().await;
    let unknown = client.call_found("made_up", json!({})).await;
    assert!(
        unknown.is_tool_error() && unknown.content_text().contains("tool not found: made_up"),
        "{}",
        unknown.text
    );
    for own in ["optim.call_tool", "optim.find_tool", "optim_call_tool"] {
        let refused = client.call_found(own, json!({})).await;
        let text = refused.content_text();
        assert!(refused.is_tool_error(), "{}", refused.text);
        assert!(text.contains("optimizer tools cannot be invoked through optim.call_tool"), "{text}");
    }
    let server = json!({"server_name": "nope", "tool_name": "x", "response_format": "envelope"});
    let answer = client.call_tool("optim.call_tool", server).await;
    assert_eq!(answer.structured()["available_servers"], json!(["echo", "jira"]), "{}", answer.text);
}

#[tokio::test]
async fn a_tools_own_failure_and_a_protocol_error_come_through() {
    let (_jira, _echo, _vmcp, client) = jira_and_echo().await;
    let failed = client.call_found("echo_fail", json!({"message": "no disk"})).await;
    assert!(failed.is_tool_error() && failed.content_text().contains("no disk"), "{}", failed.text);
    let direct = client.call_tool("echo_rpc_error", json!({})).await;
    assert_eq!(direct.error()["code"], -32602, "{}", direct.text);
    assert_eq!(direct.error()["data"], json!({"why": ["asked", "to"]}), "{}", direct.text);
    let found = client.call_found("echo_rpc_error", json!({})).await;
    assert!(found.text.contains("the tool refused"), "{}", found.text);
}

#[tokio::test]
async fn a_call_ends_at_its_deadline_and_the_backend_is_told() {
    let jira = Fixture::http("jira", "jira").start().await;
    let slow = Fixture::http("slow", "echo").start().await;
    let old = Fixture::stdio("old", "echo").args(["--era", "legacy"]).start().await;
    let vmcp = Vmcp::new().backend(&jira).backend(&slow).backend(&old);
    let vmcp = vmcp.config(json!({"proxy": {"toolTimeout": "1s"}})).start().await;
    vmcp.with_tool("old_sleep").await;
    let client = vmcp.with_tool("slow_sleep").await;
    for backend in [&slow, &old] {
        let tool = format!("{}_sleep", backend.name);
        let found = client.call_found(&tool, json!({"ms": 600_000})).await;
        assert!(found.content_text().contains("Tool call timed out after 1 seconds"), "{}", found.text);
        assert_eq!(found.structured()["error_type"], "TimeoutError", "{}", found.text);
        let direct = client.call_tool(&tool, json!({"ms": 600_000})).await;
        assert!(direct.text.contains("timed out after 1 second"), "{}", direct.text);
        vmcp_integration::eventually(&format!("{tool} to be cancelled"), async || {
            (backend.stats().await["cancelled"] == 2).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_long_answer_is_cut_with_a_notice_when_asked_for() {
    let echo = Fixture::http("echo", "echo").start().await;
    let vmcp =
        Vmcp::new().backend(&echo).config(json!({"optimizer": {"maxToolResponseTokens": 100}})).start().await;
    let client = vmcp.with_tool("echo_items").await;
    let answer = client.call_found("echo_items", json!({"count": 3, "bytes": 240})).await;
    let blocks = answer.result()["content"].as_array().expect("content").clone();
    assert_eq!(blocks.len(), 2, "{}", answer.text);
    let notice = blocks[0]["text"].as_str().expect("a notice");
    assert!(
        notice.contains("truncated to 100 tokens") && notice.contains("2 of 3 content items"),
        "{notice}"
    );
    assert_eq!(blocks[1]["text"].as_str().map(str::len), Some(240));
    let answer = client.call_found("echo_items", json!({"count": 1, "bytes": 600})).await;
    let beginning = answer.result()["content"][1]["text"].as_str().expect("a beginning").to_owned();
    assert!(beginning.ends_with("… [cut here: 200 of 600 characters omitted]"), "{beginning}");
}
