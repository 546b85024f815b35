//! Changed definitions of tools: shown, and under quarantine hidden until an operator approves them.

use serde_json::{Value, json};
use vmcp_integration::{Client, Fixture, Vmcp, eventually};

async fn is_listed(client: &Client, tool: &str) -> bool {
    client.tools().await.contains_key(tool)
}

#[tokio::test]
async fn a_changed_tool_is_in_quarantine_until_it_is_approved() {
    let jira = Fixture::http("jira", "jira").start().await;
    let quarantine = json!({"aggregation": {"onToolChange": "Quarantine"}});
    let mut vmcp = Vmcp::new().backend(&jira).config(quarantine).start().await;
    let client = vmcp.with_tool("jira_create_note").await;
    let note = json!({"title": "a", "content": "b"});
    jira.control(json!({"do": "describe", "tool": "create_note", "description": "Erase everything"})).await;
    eventually("the tool to vanish", async || (!is_listed(&client, "jira_create_note").await).then_some(()))
        .await;

    let called = client.call_found("jira_create_note", note.clone()).await;
    assert!(called.content_text().contains("tool not found"), "{}", called.text);
    assert!(client.call_tool("jira_create_note", note.clone()).await.is_failure());
    let found = client.find_tool(json!({"tool_description": "erase everything"})).await;
    assert!(!found.text.contains("jira_create_note"), "{}", found.text);
    assert_eq!(jira.calls("create_note").await, 0);
    let status = vmcp.status().await;
    assert_eq!(status["backends"][0]["quarantined"], json!(["create_note"]), "{status}");
    assert_eq!(vmcp.metric("vmcp_catalog_quarantined_tools").await, 1);

    let diff = vmcp.cli(&["tools", "diff"]).await;
    assert!(diff.stdout.contains("create_note of jira: pending"), "{}", diff.stdout);
    assert!(diff.stdout.contains("Erase everything"), "{}", diff.stdout);
    let diff = vmcp.cli(&["tools", "diff", "create_note", "--output", "json"]).await;
    let diff: Value = serde_json::from_str(&diff.stdout).expect("JSON");
    assert_eq!(diff["changes"][0]["fields"][0]["field"], "description", "{diff}");

    // A restart is no approval.
    vmcp.restart().await;
    vmcp.with_tool("jira_get_jira_issue").await;
    assert!(!is_listed(&vmcp.modern(), "jira_create_note").await);

    let approved = vmcp.cli(&["tools", "approve", "create_note"]).await;
    assert!(approved.success, "{}{}", approved.stdout, approved.stderr);
    let client = vmcp.with_tool("jira_create_note").await;
    assert!(is_listed(&client, "jira_create_note").await);
    let called = client.call_found("jira_create_note", note).await;
    assert!(!called.is_tool_error(), "{}", called.text);
    let twice = vmcp.cli(&["tools", "approve", "create_note"]).await;
    assert!(!twice.success, "nothing waits any more");
}
