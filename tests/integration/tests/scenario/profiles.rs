//! Profiles: parts of the catalog under paths of their own. Backends that may only be read.

use serde_json::json;
use vmcp_integration::{Client, Fixture, Vmcp, eventually};

const REVISION: &str = "2025-11-25";

#[tokio::test]
async fn a_profile_has_a_path_and_sessions_of_its_own() {
    let (echo, rest) =
        (Fixture::http("echo", "echo").start().await, Fixture::http("rest", "echo").start().await);
    let work = json!({"servers": ["echo"], "tools": ["echo_e*"], "exposure": "All"});
    let settings = json!({"profiles": {"work": work}, "optimizer": {"exposure": "MetaOnly"}});
    let mut vmcp = Vmcp::new().backend(&echo).backend(&rest).config(settings).start().await;
    // The profile hides the tools of a server that is there.
    vmcp.with_tool("rest_echo").await;
    let path = format!("{}/work", vmcp.url);
    let clients = [Client::modern(&path), Client::legacy(&path, REVISION, "raw").await];
    for client in &clients {
        eventually("the profile to show its tools", async || {
            client.tools().await.contains_key("echo_echo").then_some(())
        })
        .await;
        let tools = client.tools().await;
        assert!(
            tools.keys().all(|name| name.starts_with("echo_e") || name.starts_with("optim")),
            "{tools:?}"
        );
        let answer = client.call_tool("echo_echo", json!({"message": "hello"})).await;
        assert_eq!(answer.content_text(), "hello", "{}", answer.text);
        for outside in ["rest_echo", "echo_sleep"] {
            let answer = client.call_tool(outside, json!({"message": "hello"})).await;
            assert_eq!(answer.message["error"]["message"], format!("Unknown tool: {outside}"));
        }
    }
    let [_, legacy] = clients;
    let mut elsewhere = Client::legacy(&vmcp.url, REVISION, "raw").await;
    let own = std::mem::replace(&mut elsewhere.session, legacy.session.clone());
    assert_eq!(elsewhere.request("ping", json!({})).await.status, 404, "a session belongs to its path");
    elsewhere.session = own;
    assert_eq!(elsewhere.request("ping", json!({})).await.status, 200);
    let missing = Client::modern(&format!("{}/play", vmcp.url)).request("ping", json!({})).await;
    assert!(missing.status == 404 && missing.text.contains("no profile of this name"), "{}", missing.text);

    let play = json!({"servers": ["rest"], "exposure": "All"});
    vmcp.reconfigure(json!({"profiles": {"work": {"servers": ["rest"], "tools": ["rest_*"]}, "play": play}}));
    eventually("the profile to change under the session", async || {
        legacy.tools().await.contains_key("rest_echo").then_some(())
    })
    .await;
    assert!(Client::modern(&format!("{}/play", vmcp.url)).tools().await.contains_key("rest_echo"));
}

#[tokio::test]
async fn a_read_only_backend_offers_only_what_declares_to_change_nothing() {
    let (jira, mut echo) =
        (Fixture::http("jira", "jira").start().await, Fixture::http("echo", "echo").start().await);
    echo.backend["readOnly"] = json!(true);
    let settings = json!({"optimizer": {"exposure": "All"}});
    let mut vmcp = Vmcp::new().backend(&jira).backend(&echo).config(settings).start().await;
    for client in [vmcp.modern(), vmcp.legacy().await] {
        eventually("both backends", async || {
            let tools = client.tools().await;
            (tools.contains_key("echo_echo") && tools.contains_key("jira_create_note")).then_some(())
        })
        .await;
        let tools = client.tools().await;
        let of_echo: Vec<_> = tools.keys().filter(|name| name.starts_with("echo_")).collect();
        assert_eq!(of_echo, ["echo_echo"], "the others declare nothing");
        let answer = client.call_tool("echo_echo", json!({"message": "hello"})).await;
        assert_eq!(answer.content_text(), "hello", "{}", answer.text);
        let direct = client.call_tool("echo_add", json!({"a": 2, "b": 3})).await;
        assert_eq!(direct.message["error"]["message"], "Unknown tool: echo_add");
        let inner = json!({"tool_name": "echo_add", "parameters": {"a": 2, "b": 3}});
        assert!(client.call_tool("optim_call_tool", inner).await.is_tool_error());
        let found = json!({"tool_description": "add two numbers"});
        let found = client.call_tool("optim_find_tool", found).await;
        assert!(!found.text.contains("echo_add"), "{}", found.text);
    }
    assert_eq!(echo.calls("add").await, 0);
    echo.backend["readOnly"] = json!(false);
    vmcp.reconfigure(json!({"backends": [jira.backend, echo.backend]}));
    let client = vmcp.modern();
    eventually("the switch to be turned back", async || {
        client.tools().await.contains_key("echo_add").then_some(())
    })
    .await;
}
