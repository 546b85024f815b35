//! Changed definitions of tools: shown, and under quarantine hidden until an operator approves them.

use serde_json::{Value, json};
use vmcp_integration::{Client, Fixture, Vmcp, eventually, http_client};

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

#[tokio::test]
async fn an_approval_is_for_the_definition_that_a_person_read() {
    let jira = Fixture::http("jira", "jira").start().await;
    let quarantine = json!({"aggregation": {"onToolChange": "Quarantine"}});
    let vmcp = Vmcp::new().backend(&jira).config(quarantine).start().await;
    vmcp.with_tool("jira_create_note").await;
    let changed_to = async |description: &str| {
        jira.control(json!({"do": "describe", "tool": "create_note", "description": description})).await;
        eventually("the change to show", async || {
            let found = vmcp.admin_json("admin/tools/changes").await;
            let change = &found["changes"][0];
            let is_new = change["fields"][0]["after"] == description && change["state"] == "pending";
            is_new.then(|| change["hash"].as_str().unwrap().to_owned())
        })
        .await
    };
    let read = changed_to("Creates a note, and says so").await;
    let diff = vmcp.cli(&["tools", "diff"]).await;
    let command = format!("vmcp tools approve -b jira --hash {} -- create_note", &read[..16]);
    assert!(diff.stdout.contains(&command), "{}", diff.stdout);
    // The server changes the tool again behind the person's back.
    let present = changed_to("Erase everything").await;
    assert_ne!(read, present);
    let refused =
        vmcp.cli(&["tools", "approve", "-b", "jira", "--hash", &read[..16], "--", "create_note"]).await;
    assert!(!refused.success && refused.stderr.contains("changed again"), "{}", refused.stderr);
    let approve = async |hash: &str| {
        let order = format!("{}/admin/tools/approve?backend=jira&tool=create_note&hash={hash}", vmcp.admin);
        http_client().post(order).send().await.expect("the admin port").status().as_u16()
    };
    assert_eq!(approve(&read).await, 409);
    assert!(!is_listed(&vmcp.modern(), "jira_create_note").await);
    let approved = vmcp.cli(&["tools", "approve", "--hash", &present, "create_note"]).await;
    assert!(approved.success, "{}", approved.stderr);
    vmcp.with_tool("jira_create_note").await;
}
