//! Servers at run time: clients add, switch and remove servers, with the user's yes, within rules, or not at
//! all.

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;
use vmcp_integration::{Client, Fixture, Vmcp, eventually};

/// The tools that change servers, and those of every client.
const TOOLS: [&str; 6] = [
    "find_tool",
    "call_tool",
    "add_mcp_server",
    "remove_mcp_server",
    "enable_mcp_server",
    "disable_mcp_server",
];

fn accepts(_: &str, _: &Value) -> Value {
    json!({"action": "accept", "content": {}})
}

fn declines(_: &str, _: &Value) -> Value {
    json!({"action": "decline"})
}

/// A server whose file is written as people write it, with one backend and settings of `optimizer`.
async fn vmcp(echo: &Fixture, optimizer: Value) -> Vmcp {
    let vmcp = Vmcp::new().start().await;
    write(&vmcp, echo, optimizer);
    vmcp.with_tool("echo_echo").await;
    vmcp
}

/// Writes the file: comments, one entry a line group.
fn write(vmcp: &Vmcp, echo: &Fixture, mut optimizer: Value) {
    optimizer["storage"] = json!({"dir": vmcp.storage()});
    optimizer["embeddings"] = json!({"provider": "none"});
    let (settings, url) = (json!({"optimizer": optimizer}), echo.url());
    let settings = settings["optimizer"].to_string();
    vmcp.write_config(&format!(
        "# ours\noptimizer: {settings}\nbackends:\n- name: echo  # first\n  url: {url}\n"
    ));
}

fn file(vmcp: &Vmcp) -> String {
    std::fs::read_to_string(vmcp.config_file()).unwrap()
}

/// The arguments that add a fixture over standard streams.
fn program(fixture: &Fixture, name: &str) -> Value {
    let command = fixture.command();
    json!({"name": name, "transport": "stdio", "command": command[0], "args": command[1..],
        "env": {"API_KEY": "hunter2hunter2"}})
}

async fn finds(client: &Client, tool: &str) -> bool {
    let found = client.find_tool(json!({"tool_description": "create a note", "limit": 20})).await;
    found.text.contains(tool)
}

#[tokio::test]
async fn a_client_adds_calls_and_removes_a_server_while_others_go_on() {
    let (echo, notes) =
        (Fixture::http("echo", "echo").start().await, Fixture::stdio("notes", "jira").start().await);
    let vmcp = vmcp(&echo, json!({"tools": TOOLS})).await;
    let before = file(&vmcp);
    let other = vmcp.legacy().await;
    let form = json!({"elicitation": {"form": {}}});
    let askable = [
        vmcp.modern().declaring(form.clone()),
        Client::legacy_with(&vmcp.url, "2025-11-25", "raw", form).await,
    ];
    for client in &askable {
        let add = json!({"name": "optim_add_mcp_server", "arguments": program(&notes, "Notes")});
        let (declined, _) = client.converse("tools/call", add.clone(), &declines).await;
        assert!(declined.text.contains("the user declined"), "{}", declined.text);
        assert_eq!(file(&vmcp), before, "nothing is written");

        let (added, asked) = client.converse("tools/call", add.clone(), &accepts).await;
        let answer = added.structured();
        assert_eq!(
            (&answer["success"], &answer["connected"]),
            (&json!(true), &json!(true)),
            "{}",
            added.text
        );
        assert_eq!(
            (&answer["server"], &answer["message"]),
            (&json!("notes"), &json!("Server added and connected"))
        );
        let question = asked[0].to_string();
        assert_eq!(asked.len(), 1);
        assert!(question.contains("vmcp-fixture") && !question.contains("hunter2"), "{question}");
        assert!(finds(client, "notes_create_note").await);
        let called = client.call_found("notes_get_jira_issue", json!({"issueKey": "PROJ-1"})).await;
        assert!(called.message["result"].is_object() && !called.is_tool_error(), "{}", called.text);
        let text = file(&vmcp);
        assert!(text.starts_with(&before) && !text.contains("hunter2"), "{text}");
        let (again, _) = client.converse("tools/call", add, &accepts).await;
        assert!(again.text.contains("`notes` already exists"), "{}", again.text);

        let answer = other.call_tool("echo_echo", json!({"message": "still here"})).await;
        assert_eq!(answer.content_text(), "still here", "{}", answer.text);

        let remove = json!({"name": "optim_remove_mcp_server", "arguments": {"name": "notes"}});
        let (removed, _) = client.converse("tools/call", remove, &accepts).await;
        assert_eq!(removed.structured()["message"], "Server 'notes' removed", "{}", removed.text);
        assert!(!finds(client, "notes_create_note").await);
        assert_eq!(file(&vmcp), before, "the file is as it was");
    }
    assert_eq!(echo.received("server/discover").await, 1, "echo is left alone");
}

#[tokio::test]
async fn a_client_that_cannot_ask_needs_a_rule() {
    let (echo, notes) =
        (Fixture::http("echo", "echo").start().await, Fixture::http("notes", "jira").start().await);
    let vmcp = vmcp(&echo, json!({"tools": TOOLS})).await;
    let client = vmcp.modern();
    let add = json!({"name": "notes", "transport": "http", "url": notes.url()});
    let refused = client.call_tool("optim.add_mcp_server", add.clone()).await;
    assert!(refused.is_tool_error() && refused.text.contains("optimizer.admin.allow"), "{}", refused.text);
    write(&vmcp, &echo, json!({"tools": TOOLS, "admin": {"allow": [{"url": notes.url()}]}}));
    eventually("the rule to be in force", async || {
        let added = client.call_tool("optim.add_mcp_server", add.clone()).await;
        (added.structured()["connected"] == true).then_some(())
    })
    .await;
    let other = json!({"name": "other", "transport": "http", "url": "http://127.0.0.1:9/mcp"});
    let refused = client.call_tool("optim.add_mcp_server", other).await;
    assert!(refused.text.contains("no rule of `optimizer.admin.allow`"), "{}", refused.text);
    let removed = client.call_tool("optim.remove_mcp_server", json!({"name": "echo"})).await;
    assert!(removed.text.contains("no rule of `optimizer.admin.allow`"), "{}", removed.text);
    let off = client.call_tool("optim.disable_mcp_server", json!({"name": "notes"})).await;
    assert_eq!(off.structured()["message"], "Server 'notes' disabled", "{}", off.text);
    let called = client.call_found("notes_create_note", json!({"text": "x"})).await;
    assert!(called.is_tool_error(), "{}", called.text);
    let on = client.call_tool("optim.enable_mcp_server", json!({"name": "notes"})).await;
    assert_eq!(on.structured()["connected"], true, "{}", on.text);
}

#[tokio::test]
async fn a_server_that_never_answers_is_kept_and_disturbs_no_other() {
    let echo = Fixture::http("echo", "echo").start().await;
    let rules = json!({"allow": [{"command": ["sleep", "1000"]}]});
    let vmcp = vmcp(&echo, json!({"tools": TOOLS, "admin": rules})).await;
    let client = vmcp.modern();
    let mute = json!({"name": "mute", "transport": "stdio", "command": "sleep", "args": ["1000"]});
    let meanwhile = async {
        let answer = client.call_tool("echo_echo", json!({"message": "still here"})).await;
        assert_eq!(answer.content_text(), "still here", "{}", answer.text);
    };
    let add = || client.call_tool("optim.add_mcp_server", mute.clone());
    let (first, second, ()) = futures::join!(add(), add(), meanwhile);
    let (added, taken) = if first.is_tool_error() { (second, first) } else { (first, second) };
    assert!(taken.text.contains("already exists"), "{}", taken.text);
    let answer = added.structured();
    assert_eq!((&answer["success"], &answer["connected"]), (&json!(true), &json!(false)), "{}", added.text);
    let removed = client.call_tool("optim.remove_mcp_server", json!({"name": "mute"})).await;
    assert_eq!(removed.structured()["success"], true, "{}", removed.text);
}

#[tokio::test]
async fn with_identities_a_policy_decides_who_changes_servers() {
    let echo = Fixture::http("echo", "echo").start().await;
    let keys = json!([
        {"subject": "ops", "key": "key-of-ops-0123456789"},
        {"subject": "dev", "key": "key-of-dev-0123456789"},
    ]);
    let policies = [
        r#"permit(principal, action == Action::"call_tool", resource);"#,
        r#"permit(principal == Client::"ops", action == Action::"admin", resource);"#,
    ];
    for (authz, who) in [(Some(json!({"policies": policies})), &["ops"][..]), (None, &[])] {
        let mut auth = json!({"type": "apiKeys", "apiKeys": keys});
        if let Some(authz) = authz {
            auth["authz"] = authz;
        }
        let settings = json!({"incomingAuth": auth, "optimizer": {"tools": TOOLS}});
        let vmcp = Vmcp::new().backend(&echo).config(settings).start().await;
        vmcp.with_tool("echo_echo").await;
        for subject in ["ops", "dev"] {
            let client = vmcp.modern().bearing(&format!("key-of-{subject}-0123456789"));
            let may = who.contains(&subject);
            assert_eq!(client.tools().await.contains_key("optim_add_mcp_server"), may, "{subject}");
            let remove = json!({"name": "echo"});
            let answer = client.call_tool("optim.remove_mcp_server", remove).await;
            assert_eq!(answer.text.contains("Unknown tool"), !may, "{subject}: {}", answer.text);
        }
        assert!(file(&vmcp).contains(echo.url()));
    }
}

#[tokio::test]
async fn in_a_cluster_the_resources_are_the_source() {
    let settings = json!({"optimizer": {"tools": TOOLS}});
    let vmcp = Vmcp::new().config(settings).env("KUBERNETES_SERVICE_HOST", "192.0.2.1").start().await;
    let arguments = json!({"name": "a", "transport": "http", "url": "http://127.0.0.1:9/"});
    let refused = vmcp.modern().call_tool("optim.add_mcp_server", arguments).await;
    assert!(refused.text.contains("MCPServerEntry") && refused.is_tool_error(), "{}", refused.text);
}

/// A websocket server with one tool; it greets its caller.
async fn websocket_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
                while let Some(Ok(message)) = socket.next().await {
                    let Ok(text) = message.to_text() else { continue };
                    let Ok(request) = serde_json::from_str::<Value>(text) else { continue };
                    let Some(id) = request.get("id") else { continue };
                    let result = match request["method"].as_str().unwrap_or_default() {
                        "initialize" => {
                            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "desk", "version": "1"}})
                        }
                        "tools/list" => {
                            json!({"tools": [{"name": "greet", "description": "Greets a visitor.",
                            "inputSchema": {"type": "object"}}]})
                        }
                        "tools/call" => json!({"content": [{"type": "text", "text": "good day"}]}),
                        _ => {
                            let error = json!({"code": -32601, "message": "unknown"});
                            let error = json!({"jsonrpc": "2.0", "id": id, "error": error});
                            let _ = socket.send(Message::text(error.to_string())).await;
                            continue;
                        }
                    };
                    let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
                    let _ = socket.send(Message::text(answer.to_string())).await;
                }
            });
        }
    });
    url
}

#[tokio::test]
async fn a_websocket_server_is_added_and_called_by_clients_of_both_eras() {
    let (echo, url) = (Fixture::http("echo", "echo").start().await, websocket_server().await);
    let admin = json!({"allow": [{"url": url}]});
    let vmcp = vmcp(&echo, json!({"tools": TOOLS, "admin": admin})).await;
    let add = json!({"name": "desk", "transport": "websocket", "url": url});
    let added = vmcp.modern().call_tool("optim.add_mcp_server", add).await;
    assert_eq!(added.structured()["connected"], true, "{}", added.text);
    for client in [vmcp.modern(), vmcp.legacy().await] {
        let answer = client.call_tool("desk_greet", json!({})).await;
        assert_eq!(answer.content_text(), "good day", "{}", answer.text);
    }
    let backends = vmcp.status().await["backends"].clone();
    let desk = backends.as_array().unwrap().iter().find(|backend| backend["name"] == "desk");
    assert_eq!(desk.unwrap()["transport"], "websocket", "{backends}");
}

#[tokio::test]
async fn a_server_of_a_registry_is_found_installed_and_waits_for_its_secret() {
    let (echo, notes) =
        (Fixture::http("echo", "echo").start().await, Fixture::http("notes", "jira").start().await);
    let tools = ["find_tool", "call_tool", "search_registry", "install_server"];
    let vmcp = vmcp(&echo, json!({"tools": tools})).await;
    let registry = vmcp.config_file().with_file_name("servers.json");
    let remote = |name: &str, headers: Value| {
        json!({"name": name, "version": "1.2.0", "description": "Notes and issues",
            "remotes": [{"type": "streamable-http", "url": notes.url(), "headers": headers}]})
    };
    let secret = json!([{"name": "X-Token", "isRequired": true, "isSecret": true}]);
    let entries = json!([remote("com.example/notes", json!([])), remote("com.example/locked", secret)]);
    std::fs::write(&registry, entries.to_string()).unwrap();
    let admin = json!({"registry": registry, "allow": [{"url": notes.url(), "headers": ["x-token"]}]});
    write(&vmcp, &echo, json!({"tools": tools, "admin": admin}));
    let client = vmcp.modern();
    let found = eventually("the registry to be in force", async || {
        let found = client.call_tool("optim.search_registry", json!({"query": "issues"})).await;
        (found.structured()["total"] == 2).then_some(found)
    })
    .await;
    assert!(found.text.contains("com.example/notes"), "{}", found.text);
    let install = async |name: &str| client.call_tool("optim.install_server", json!({"name": name})).await;
    let installed = install("com.example/notes").await;
    let answer = installed.structured();
    assert_eq!(
        (&answer["connected"], &answer["version"]),
        (&json!(true), &json!("1.2.0")),
        "{}",
        installed.text
    );
    assert!(finds(&client, "notes_create_note").await);
    let locked = install("com.example/locked").await;
    let needs = locked.structured()["needs"][0].clone();
    assert_eq!(needs["variable"], "VMCP_ADDED_LOCKED_X_TOKEN", "{}", locked.text);
    assert!(file(&vmcp).contains("${VMCP_ADDED_LOCKED_X_TOKEN}"), "{}", file(&vmcp));
    std::fs::write(vmcp.config_file().with_file_name(".env"), "VMCP_ADDED_LOCKED_X_TOKEN=s3cret\n").unwrap();
    eventually("the server with its secret", async || {
        finds(&client, "locked_create_note").await.then_some(())
    })
    .await;
}
