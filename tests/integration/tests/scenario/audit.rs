//! Audit events: one for each call and each other action, in a file that a reload may change.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use vmcp_integration::{Fixture, Vmcp, eventually, http_client};

const KEY: &str = "alice-0123456789abcdef";

/// Settings: alice may not call `echo_sleep`, and may call `echo_fail` once.
fn settings(audit: &Value) -> Value {
    json!({
        "incomingAuth": {
            "type": "apiKeys", "apiKeys": [{"subject": "alice", "key": KEY}],
            "authz": {"policies": [
                "permit(principal, action, resource);",
                r#"@id("no-sleep") forbid(principal, action, resource == Tool::"echo_sleep");"#,
            ]},
        },
        "rateLimiting": {"tools": [{"name": "echo_fail", "perUser": {"maxTokens": 1, "refillPeriod": "1h"}}]},
        "audit": audit,
    })
}

/// Returns the events written so far: vmcp writes them after the answer, on a thread of its own.
pub(super) fn events(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
}

/// Number of events by item and decision.
fn counts(events: &[Value]) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for event in events {
        let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        *counts.entry((text("/target/name"), text("/metadata/extra/decision"))).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn every_call_and_every_refusal_leaves_one_event() {
    let echo = Fixture::http("echo", "echo").start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("audit.jsonl");
    let audit = json!({"enabled": true, "logFile": file});
    let mut vmcp = Vmcp::new().backend(&echo).config(settings(&audit)).start().await;
    vmcp.with_tool("echo_echo").await;
    let alice = vmcp.modern().bearing(KEY);
    eventually("a view with the tool", async || alice.tools().await.contains_key("echo_echo").then_some(()))
        .await;
    let before = events(&file).len();
    for number in 0..5 {
        let text = format!("s3cret {number}");
        assert_eq!(alice.call_tool("echo_echo", json!({"message": text})).await.content_text(), text);
    }
    alice.call_found("echo_echo", json!({"message": "found"})).await;
    alice.call_tool("echo_sleep", json!({"ms": 1})).await;
    alice.call_found("echo_sleep", json!({"ms": 1})).await;
    alice.call_tool("echo_never", json!({})).await;
    alice.call_tool("echo_fail", json!({"message": "no"})).await;
    alice.call_tool("echo_fail", json!({"message": "no"})).await;
    let stranger = vmcp.modern().bearing("wrong-0123456789abcdef");
    assert_eq!(stranger.request("tools/call", json!({"name": "echo_echo"})).await.status, 401);
    let expected = BTreeMap::from(
        [
            (("echo_echo", "allowed"), 6),
            (("echo_sleep", "denied"), 2),
            (("echo_never", "refused"), 1),
            (("echo_fail", "allowed"), 1),
            (("echo_fail", "limited"), 1),
            (("/mcp", "refused"), 1),
        ]
        .map(|((item, decision), count)| ((item.to_owned(), decision.to_owned()), count)),
    );
    let all = eventually("the events", async || {
        let all = events(&file).split_off(before);
        (all.len() >= 12).then_some(all)
    })
    .await;
    assert_eq!(counts(&all), expected, "{all:#?}");
    let text = Value::from(all.clone()).to_string();
    assert!(!text.contains("s3cret") && !text.contains("0123456789abcdef"), "{text}");
    let denied = all.iter().find(|event| event["target"]["name"] == "echo_sleep").expect("the denial");
    assert_eq!(denied["metadata"]["extra"]["policy"], "no-sleep");
    assert_eq!((&denied["subjects"]["user"], &denied["outcome"]), (&json!("alice"), &json!("denied")));

    // Another file, and arguments, from one reload.
    let other = folder.path().join("other.jsonl");
    let audit = json!({"enabled": true, "logFile": other, "includeRequestData": true});
    vmcp.reconfigure(settings(&audit));
    let event = eventually("an event with arguments", async || {
        alice.call_tool("echo_echo", json!({"message": "shown"})).await;
        // A call during the reload is written to the new file by the old rules.
        events(&other).into_iter().find(|event| !event["data"].is_null())
    })
    .await;
    assert_eq!(event["data"], json!({"request": {"message": "shown"}}));
    // A file that cannot be written stops no call.
    vmcp.reconfigure(settings(&json!({"enabled": true, "logFile": "/proc/no/audit.jsonl"})));
    eventually("lost events to be counted", async || {
        let answer = alice.call_tool("echo_echo", json!({"message": "on"})).await;
        assert_eq!(answer.content_text(), "on");
        (vmcp.metric("vmcp_audit_events_dropped_total").await > 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn without_a_file_events_go_to_standard_output() {
    let echo = Fixture::http("echo", "echo").start().await;
    let vmcp = Vmcp::new().backend(&echo).config(json!({"audit": {"enabled": true}})).start().await;
    let client = vmcp.with_tool("echo_echo").await;
    client.call_tool("echo_echo", json!({"message": "hi"})).await;
    let line = vmcp.process.line_after(r#""type":"mcp_tool_call","#).await;
    assert!(line.contains(r#""name":"echo_echo""#) && line.contains(r#""user":"anonymous""#), "{line}");
}

#[tokio::test]
async fn every_refusal_and_session_leaves_an_event() {
    let echo = Fixture::http("echo", "echo").start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("audit.jsonl");
    let token = "an-admin-token-of-enough-characters";
    let keys = json!([{"subject": "alice", "key": KEY}, {"subject": "bob", "key": "bob-0123456789abcdef"}]);
    let settings = json!({
        "incomingAuth": {"type": "apiKeys", "apiKeys": keys},
        "server": {"adminTokens": [token]},
        "audit": {"enabled": true, "logFile": file},
    });
    let mut vmcp = Vmcp::new().backend(&echo).config(settings).start().await;
    let alice = vmcp.modern().bearing(KEY).as_legacy();
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}});
    let opened = alice.request("initialize", params).await;
    let session = opened.headers["mcp-session-id"].to_str().expect("a plain id").to_owned();
    let alice = alice.with_session(&session);
    let bob = vmcp.modern().bearing("bob-0123456789abcdef").as_legacy().with_session(&session);
    assert_eq!(bob.request("tools/list", json!({})).await.status, 404);
    alice.request("no/such", json!({})).await;
    alice.request("tools/call", json!({"arguments": {}})).await;
    let other_case = alice.request("tools/call", json!({"name": "echo_echo", "Name": "echo_sleep"})).await;
    assert_eq!(other_case.status, 400);
    alice.request("resources/unsubscribe", json!({"uri": "file:///x"})).await;
    let modern = vmcp.modern().bearing(KEY);
    modern.request("tools/call", json!({"name": "echo_echo", "requestState": "forged"})).await;
    alice.close().await;
    let mut raw = vmcp.connect().await;
    raw.send(b"POST /mcp HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n").await;
    raw.read_to_close().await;
    let admin = |token: &str| {
        let url = format!("{}/admin/refresh", vmcp.admin);
        http_client().post(url).bearer_auth(token).send()
    };
    assert_eq!(admin("wrong").await.expect("an answer").status(), 401);
    assert_eq!(admin(token).await.expect("an answer").status(), 202);
    vmcp.terminate().await;
    let all = events(&file);
    let gists: Vec<String> = all
        .iter()
        .map(|event| {
            let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or("-").to_owned();
            let parts = ["/type", "/target/method", "/metadata/extra/decision", "/metadata/extra/result"];
            format!("{} by {}", parts.map(text).join(" "), text("/subjects/user"))
        })
        .collect();
    for expected in [
        "server server.start allowed",
        "mcp_session session.begin allowed ok by alice",
        "http_request http refused session id of another identity by bob",
        "mcp_request no/such refused unknown by alice",
        "mcp_tool_call tools/call refused `params.name` must be a string by alice",
        "http_request http refused `params`: the letter case of keys counts: write `name` for `Name`",
        "mcp_request resources/unsubscribe allowed ok by alice",
        "mcp_tool_call tools/call refused requestState:",
        "mcp_session session.end allowed ok by alice",
        "http_request - refused host `evil.example` is not served here",
        "admin admin.refused refused wrong token",
        "admin POST /admin/refresh allowed 202 by admin token ",
        "server server.stop allowed",
    ] {
        assert!(gists.iter().any(|gist| gist.starts_with(expected)), "{expected} is missing in {gists:#?}");
    }
    let verified = vmcp.cli(&["audit", "verify", &file.display().to_string()]).await;
    assert_eq!(verified.code, Some(0), "{}", verified.stdout);
    let text = std::fs::read_to_string(&file).expect("the file");
    std::fs::write(&file, text.replacen("alice", "carol", 1)).expect("a changed line");
    let broken = vmcp.cli(&["audit", "verify", &file.display().to_string()]).await;
    assert_eq!(broken.code, Some(1), "{}", broken.stdout);
}
