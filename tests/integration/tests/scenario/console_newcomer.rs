//! The questions of a newcomer, answered on the web console alone, in a real browser.

use serde_json::{Value, json};
use vmcp_integration::{Fixture, Vmcp, eventually};

use super::console_browser::{browse, chromium};

const ALICE: &str = "alice-0123456789abcdef";
const BOB: &str = "bob-0123456789abcdef";
/// Most clicks to an answer.
const MAX_CLICKS: u64 = 3;

/// A server with a failed and a slow one beside it, a tool that is denied to bob, and a changed tool.
async fn troubled() -> (Vmcp, [Fixture; 3]) {
    let jira = Fixture::http("jira", "jira").start().await;
    let slow = Fixture::http("slow", "echo").start().await;
    let mut killed = Fixture::http("killed", "echo").start().await;
    // It is dead before its tools were ever listed.
    killed.kill().await;
    let entry = |(subject, key): (&str, &str)| json!({"subject": subject, "key": key});
    let policies = [
        "permit(principal, action, resource);",
        r#"@id("no-notes-by-bob") forbid(principal == Client::"bob", action, resource == Tool::"jira_create_note");"#,
    ];
    let config = json!({
        "incomingAuth": {"type": "apiKeys", "apiKeys": [entry(("alice", ALICE)), entry(("bob", BOB))],
            "authz": {"policies": policies}},
        "aggregation": {"onToolChange": "Quarantine"},
    });
    let vmcp = Vmcp::new().backend(&jira).backend(&slow).backend(&killed).config(config).start().await;
    vmcp.with_tool("jira_create_note").await;
    vmcp.with_tool("slow_sleep").await;
    let (alice, bob) = (vmcp.modern().bearing(ALICE), vmcp.modern().bearing(BOB));
    alice.call_tool("slow_sleep", json!({"ms": 400})).await;
    alice.call_tool("jira_create_note", json!({"title": "a", "content": "b"})).await;
    bob.call_tool("jira_create_note", json!({"title": "a", "content": "b"})).await;
    let words = "Sends the key to a stranger";
    jira.control(json!({"do": "describe", "tool": "get_jira_issue", "description": words})).await;
    eventually("the troubles to show", async || {
        let status = vmcp.status().await.to_string();
        let is_noticed = status.contains("\"quarantined\":[\"get_jira_issue\"]");
        (is_noticed && status.contains("\"state\":\"failed\"")).then_some(())
    })
    .await;
    (vmcp, [jira, slow, killed])
}

#[tokio::test]
async fn a_newcomer_finds_each_reason_on_the_console_alone() {
    let Some(chromium) = chromium().await else { return };
    let (vmcp, _servers) = troubled().await;
    let questions = json!({
        "missing": [
            {"link": "Search"},
            {"type": "Task", "text": "echo a message"}, {"type": "Why is this tool", "text": "killed_echo"},
            {"button": "Search"},
        ],
        "failed": [{"link": "killed"}],
        "denied": [
            {"link": "Calls"},
            {"row": "denied"},
            {"link": "May this subject call it, and why?"},
        ],
        "asked": [
            {"link": "Tools"}, {"link": "jira_create_note"},
            {"type": "Subject", "text": "bob"}, {"button": "Ask"},
        ],
        "hidden": [
            {"link": "Search"},
            {"type": "Task", "text": "create a note"}, {"type": "Subject", "text": "bob"},
            {"button": "Search"},
        ],
        "hidden, why": [
            {"link": "Search"},
            {"type": "Task", "text": "create a note"}, {"type": "Subject", "text": "bob"},
            {"button": "Search"},
            {"link": "jira_create_note"},
        ],
        "slow": [],
        "changed": [{"link": "changed tool waits for approval"}, {"link": "get_jira_issue"}],
    });
    let seen = browse("newcomer", &chromium, &vmcp, &json!({"questions": questions})).await;
    check(
        &seen,
        &[
            ("missing", &["offered by no server", "killed has listed no tools so far"][..]),
            ("failed", &["failed", "What to do"]),
            ("denied", &["bob", "may not call it", "no-notes-by-bob"]),
            ("asked", &["bob", "may not call it", "no-notes-by-bob"]),
            ("hidden", &["Hidden from bob", "jira_create_note"]),
            ("hidden, why", &["bob", "may not call it", "no-notes-by-bob"]),
            ("slow", &["Slowest: slow, whose calls take"]),
            ("changed", &["hidden from clients until it is approved", "Sends the key to a stranger"]),
        ],
    );
}

/// Checks that each question has an answer with these words, within [`MAX_CLICKS`].
fn check(seen: &Value, answers: &[(&str, &[&str])]) {
    for (question, words) in answers {
        let (clicks, text) = (&seen["found"][question]["clicks"], &seen["found"][question]["text"]);
        assert!(clicks.as_u64().is_some_and(|clicks| clicks <= MAX_CLICKS), "{question}: {clicks} clicks");
        let text = text.as_str().expect("text");
        for part in *words {
            assert!(text.contains(part), "{question}: no `{part}` in\n{text}");
        }
    }
}

#[tokio::test]
async fn a_newcomer_finds_renamed_filtered_limited_and_switched_off_tools() {
    let Some(chromium) = chromium().await else { return };
    let (jira, echo) =
        (Fixture::http("jira", "jira").start().await, Fixture::http("echo", "echo").start().await);
    let rules = json!({
        "workload": "jira", "exclude": ["get_jira_issue"], "overrides": {"create_note": {"name": "write_note"}},
    });
    let limit = json!({"name": "echo_echo", "perUser": {"maxTokens": 1, "refillPeriod": "1h"}});
    let config = json!({
        "aggregation": {"tools": [rules], "aliases": {"scribble": "jira_write_note"}},
        "rateLimiting": {"tools": [limit]},
    });
    let off = json!({"name": "resting", "url": "http://127.0.0.1:1/mcp", "enabled": false});
    let vmcp = Vmcp::new().backend(&jira).backend(&echo).backend_entry(off).config(config).start().await;
    vmcp.with_tool("jira_write_note").await;
    let client = vmcp.with_tool("echo_echo").await;
    for _ in 0..2 {
        client.call_tool("echo_echo", json!({"message": "x"})).await;
    }
    let wanted = |name: &str| {
        json!([
            {"link": "Search"},
            {"type": "Task", "text": "write a note"}, {"type": "Why is this tool", "text": name},
            {"button": "Search"},
        ])
    };
    let questions = json!({
        "filtered": wanted("jira_get_jira_issue"),
        "renamed": wanted("create_note"),
        "alias": wanted("scribble"),
        "off": wanted("resting_find"),
        "own": wanted("find_tool"),
        "limited": [{"link": "Calls"}, {"row": "rate_limited"}],
    });
    let seen = browse("newcomer", &chromium, &vmcp, &json!({"questions": questions})).await;
    check(
        &seen,
        &[
            ("filtered", &["is hidden by a filter", "exclude has `get_jira_issue`"][..]),
            ("renamed", &["clients call it `jira_write_note`"]),
            ("alias", &["clients call it `jira_write_note`"]),
            ("off", &["offered by no server", "resting is switched off (`vmcp enable resting`)"]),
            ("own", &["is a tool of vmcp itself"]),
            ("limited", &["A limit of rateLimiting was reached"]),
        ],
    );
}
