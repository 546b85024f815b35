//! Guards of a bridge: who may call the program behind it, or the HTTP server before which it stands.

use serde_json::{Value, json};
use vmcp_integration::{Bridge, Client, Fixture, eventually, vmcp_command};

const KEY: &str = "a-key-of-the-client";

/// Policies that permit one tool, a key, and an audit event for each call.
fn guards(tool: &str) -> String {
    let permit = format!("permit(principal, action, resource == Tool::\"{tool}\");");
    let guards = json!({
        "incomingAuth": {
            "type": "apiKeys", "apiKeys": [{ "subject": "ci", "key": KEY }], "authz": { "policies": [permit] },
        },
        "audit": { "enabled": true },
    });
    guards.to_string()
}

async fn tools(client: &Client) -> Vec<String> {
    client.tools().await.keys().cloned().collect()
}

#[tokio::test]
async fn clients_prove_who_they_are_and_do_what_policies_permit_before_a_program_and_an_http_server() {
    let (program, server) =
        (Fixture::stdio("inside", "echo").start().await, Fixture::http("outside", "echo").start().await);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("guards.yaml");
    std::fs::write(&file, guards("echo")).expect("writing the guards");
    let option = format!("--guards={}", file.display());
    let url = format!("--url={}", server.url());
    let command = program.command();
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    for (bridge, guarded) in [
        (Bridge::spawn_with(&[&option], &words, &[]), &program),
        (Bridge::spawn_with(&[&option, &url, "--name=outside"], &[], &[]), &server),
    ] {
        bridge.ready().await;
        let stranger = bridge.modern().request("tools/list", json!({})).await;
        assert_eq!(stranger.status, 401, "{}", stranger.text);
        let client = bridge.modern().bearing(KEY);
        assert_eq!(tools(&client).await, ["echo"], "what may not be called is not listed");
        let answer = client.call_tool("echo", json!({"message": "here"})).await;
        assert!(answer.content_text().contains("here"), "{}", answer.text);
        let denied = client.call_tool("sleep", json!({"ms": 1})).await;
        assert!(denied.message.get("error").is_some(), "{}", denied.text);
        let session = Client::legacy_bearing(&bridge.url, KEY).await;
        assert_eq!(tools(&session).await, ["echo"]);
        assert_eq!(guarded.calls("sleep").await, 0);
    }
}

#[tokio::test]
async fn edited_guards_come_into_force_and_a_mistake_leaves_those_before_it() {
    let program = Fixture::stdio("inside", "echo").start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("guards.yaml");
    let write = |text: &str| {
        let other = folder.path().join("other");
        std::fs::write(&other, text).expect("writing the guards");
        std::fs::rename(&other, &file).expect("replacing the guards");
    };
    write(&guards("echo"));
    let option = format!("--guards={}", file.display());
    let command = program.command();
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let bridge = Bridge::spawn_with(&[&option], &words, &[]);
    bridge.ready().await;
    let client = bridge.modern().bearing(KEY);
    assert_eq!(tools(&client).await, ["echo"]);
    write(&guards("sleep"));
    eventually("the other policy in force", async || (tools(&client).await == ["sleep"]).then_some(())).await;
    write("incomingAuth: {type: apiKeys}");
    eventually("the mistake in the log", async || {
        bridge.process.output().contains("the guards have mistakes").then_some(())
    })
    .await;
    assert_eq!(bridge.modern().request("tools/list", json!({})).await.status, 401);
    assert_eq!(tools(&client).await, ["sleep"]);
}

#[tokio::test]
async fn a_bridge_without_its_guards_does_not_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("guards.yaml");
    let option = format!("--guards={}", file.display());
    let fails = async || {
        let started = vmcp_command().args(["bridge", &option, "--", "/bin/cat"]).output().await;
        let started = started.expect("running the bridge");
        assert!(!started.status.success());
        String::from_utf8_lossy(&started.stderr).into_owned()
    };
    assert!(fails().await.contains("cannot read the guards"));
    let open: Value = json!({ "server": { "listen": "0.0.0.0:1" } });
    std::fs::write(&file, open.to_string()).expect("writing the guards");
    let said = fails().await;
    assert!(said.contains("`server.listen` is no guard"), "{said}");
}
