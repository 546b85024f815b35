//! Profiles: parts of the catalog under paths of their own.

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
