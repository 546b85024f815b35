//! Subscriptions to resources of vmcp's own.

use super::*;

#[tokio::test]
async fn vmcps_own_resources_are_subscribed_in_both_eras_and_told_when_they_change() {
    let jira = Fixture::http("jira", "jira").start().await;
    let own = json!({"optimizer": {"ownResources": true}});
    let mut vmcp = Vmcp::new().backend(&jira).config(own).start().await;
    vmcp.with_tool("jira_create_note").await;
    let (tool, other) = ("vmcp://tools/jira_create_note", "vmcp://tools/jira_get_jira_issue");
    let legacy = vmcp.legacy().await;
    let mut get = Messages::of(legacy.listen().await);
    for uri in [tool, other, "gobby://config"] {
        assert_eq!(
            legacy.request("resources/subscribe", json!({"uri": uri})).await.result(),
            &json!({}),
            "{uri}"
        );
    }
    for unknown in ["vmcp://tools/nothing", "vmcp://servers/nothing", "vmcp://nothing"] {
        let refused = legacy.request("resources/subscribe", json!({"uri": unknown})).await;
        assert_eq!(refused.error()["code"], -32002, "{unknown}");
    }
    let filter = json!({"resourceSubscriptions": [tool, "vmcp://servers/nothing", "vmcp://config"]});
    let opened = vmcp.modern().open_as(77, "subscriptions/listen", json!({"notifications": filter})).await;
    let mut listen = Messages::of(opened);
    let accepted = next_message(&mut listen, "notifications/subscriptions/acknowledged").await;
    assert_eq!(accepted["notifications"], json!({"resourceSubscriptions": ["vmcp://config", tool]}));

    jira.control(json!({"do": "describe", "tool": "create_note", "description": "Another one"})).await;
    assert_eq!(next_update(&mut get).await, json!({"uri": tool}));
    assert_eq!(next_update(&mut listen).await["uri"], tool);

    legacy.request("resources/unsubscribe", json!({"uri": tool})).await.result();
    jira.control(json!({"do": "describe", "tool": "create_note", "description": "A third one"})).await;
    assert_eq!(next_update(&mut listen).await["uri"], tool);
    vmcp.reconfigure(json!({"backends": [jira.backend, {"name": "more", "url": "http://127.0.0.1:9/mcp"}]}));
    // No update of the tool came before it.
    assert_eq!(next_update(&mut get).await, json!({"uri": "gobby://config"}));
    assert_eq!(next_update(&mut listen).await["uri"], "vmcp://config");

    // Without the resources, subscriptions end and new ones are refused.
    vmcp.reconfigure(json!({"optimizer": {"ownResources": false}}));
    eventually("the end of the subscriptions", async || {
        let refused = legacy.request("resources/subscribe", json!({"uri": "vmcp://config"})).await;
        refused.text.contains("-32002").then_some(())
    })
    .await;
}
