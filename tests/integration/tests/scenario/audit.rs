//! Audit events: one for each call and each client that is turned away, in a file that a reload may change.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use vmcp_integration::{Fixture, Vmcp, eventually};

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
            (("", "refused"), 1),
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
    let line = vmcp.process.line_after(r#"{"metadata":{"auditId":"#).await;
    assert!(line.contains(r#""name":"echo_echo""#) && line.contains(r#""user":"anonymous""#), "{line}");
}
