//! Sessions of coding agents: hooks over HTTP and as a tool, in the clients' own forms, and the commands.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::process::Command;
use vmcp_integration::{Vmcp, free_port, http_client};

use super::laptop::{Laptop, Run, settings};

fn hooks_on() -> Value {
    json!({"optimizer": {"sessionHooks": {"enabled": true}, "tools": ["call_tool", "call_hook"]}})
}

async fn ask(vmcp: &Vmcp, method: Method, path: &str, body: Value) -> (u16, Value) {
    let url = vmcp.url.replace("/mcp", path);
    let answer = http_client().request(method, url).json(&body).send().await.expect("an answer");
    let status = answer.status().as_u16();
    let text = answer.text().await.expect("a text");
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

async fn execute(vmcp: &Vmcp, hook_type: &str, params: Value) -> Value {
    let body = json!({"hook_type": hook_type, "params": params, "source": "Codex"});
    let (status, answer) = ask(vmcp, Method::POST, "/hooks/execute", body).await;
    assert_eq!((status, &answer["success"]), (200, &json!(true)), "{answer}");
    answer["result"].clone()
}

#[tokio::test]
async fn a_session_is_handed_over_and_shown() {
    let vmcp = Vmcp::new().config(hooks_on()).start().await;
    let begin = json!({"session_id": "codex-abc123", "source": "startup", "cwd": "/path/to/project"});
    let first = execute(&vmcp, "SessionStart", begin).await;
    assert_eq!(first["session_id"].as_str().expect("an id").len(), 36);
    assert!(first["machine_id"].is_string() && first["restored_summary"].is_null(), "{first}");
    let on = |more: Value| {
        let mut params = json!({"session_id": "codex-abc123"});
        params.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
        params
    };
    let prompt = execute(&vmcp, "UserPromptSubmit", on(json!({"prompt": "Help me refactor auth"}))).await;
    assert_eq!((&prompt["title"], &prompt["status"]), (&json!("Refactor auth"), &json!("active")));
    for (hook_type, status) in [
        ("PreToolUse", "active"),
        ("Stop", "paused"),
        ("pre-compact", "paused"),
        ("SubagentStart", "paused"),
        ("SubagentStop", "paused"),
        ("PromptSubmit", "active"),
        ("Notification", "paused"),
    ] {
        let after = execute(&vmcp, hook_type, on(json!({"prompt": "next", "tool_name": "Bash"}))).await;
        assert_eq!((&after["status"], &after["title"]), (&json!(status), &prompt["title"]), "{hook_type}");
    }
    let turns: Vec<_> =
        (1..=5).map(|turn| format!("User: prompt {turn}\nAssistant: answer {turn}\n")).collect();
    let transcript = turns.concat();
    let end = execute(&vmcp, "SessionEnd", on(json!({"transcript": transcript}))).await;
    assert_eq!(end["status"], "handoff_ready");
    assert!(end["summary"].as_str().expect("a summary").contains("- prompt 5"), "{end}");

    let path = format!("/sessions/{}", first["session_id"].as_str().expect("an id"));
    let (_, shown) = ask(&vmcp, Method::GET, &path, json!({})).await;
    let events = shown["events"].as_array().expect("events").iter();
    let types: Vec<_> = events.map(|event| event["type"].as_str().expect("a type")).collect();
    let expected = [
        "session-start",
        "user-prompt-submit",
        "pre-tool-use",
        "stop",
        "pre-compact",
        "subagent-start",
        "subagent-stop",
        "user-prompt-submit",
        "notification",
        "session-end",
    ];
    assert_eq!(types, expected);
    assert_eq!(shown["events"][2]["detail"], "Bash");

    // By the tool.
    let begin = json!({"session_id": "b", "source": "clear", "cwd": "/path/to/project"});
    let hook = json!({"hook_type": "SessionStart", "params": begin, "source": "Codex"});
    let called = vmcp.modern().call_tool("optim_call_hook", hook).await;
    let next = &called.structured()["result"];
    assert_eq!(next["parent_session_id"], first["session_id"], "{}", called.text);
    assert_eq!(next["restored_summary"], end["summary"]);
    let (_, shown) = ask(&vmcp, Method::GET, &path, json!({})).await;
    assert_eq!(shown["status"], "expired");
    let (_, listed) = ask(&vmcp, Method::GET, "/sessions?status=active", json!({})).await;
    assert_eq!(listed["sessions"][0]["id"], next["session_id"], "{listed}");
    assert_eq!(ask(&vmcp, Method::DELETE, &path, json!({})).await.0, 204);
    assert_eq!(ask(&vmcp, Method::GET, &path, json!({})).await.0, 404);
}

#[tokio::test]
async fn a_session_of_another_identity_is_unknown() {
    let (alice, bob) = ("alice-0123456789abcdef0123456789", "bob-0123456789abcdef0123456789ab");
    let keys = json!({"incomingAuth": {"type": "apiKeys", "apiKeys": [
        {"subject": "alice", "key": alice}, {"subject": "bob", "key": bob},
    ]}});
    let vmcp = Vmcp::new().config(hooks_on()).config(keys).start().await;
    let send = async |key: &str, method: Method, path: &str| {
        let start = json!({"hook_type": "SessionStart", "params": {"session_id": "s"}});
        let request = http_client().request(method, vmcp.url.replace("/mcp", path)).json(&start);
        let answer = request.header("x-api-key", key).send().await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("a text"))
    };
    assert_eq!(send("other-0123456789abcdef0123456789", Method::POST, "/hooks/execute").await.0, 401);
    assert_eq!(ask(&vmcp, Method::GET, "/sessions", json!({})).await.0, 401);
    let (status, started) = send(alice, Method::POST, "/hooks/execute").await;
    assert_eq!(status, 200, "{started}");
    let started: Value = serde_json::from_str(&started).expect("JSON");
    let own = format!("/sessions/{}", started["result"]["session_id"].as_str().expect("an id"));
    assert_eq!(send(alice, Method::GET, &own).await.0, 200);
    let none = "/sessions/00000000-0000-4000-8000-000000000000";
    for method in [Method::GET, Method::DELETE] {
        let of_bob = send(bob, method.clone(), &own).await;
        assert_eq!((of_bob.0, &of_bob), (404, &send(bob, method, none).await));
    }
    assert_eq!(send(bob, Method::GET, "/sessions").await.1, r#"{"sessions":[]}"#);
    assert_eq!(send(alice, Method::GET, &own).await.0, 200, "it is still there");
}

#[tokio::test]
async fn without_the_setting_nothing_is_served() {
    let vmcp = Vmcp::new().start().await;
    let start = json!({"hook_type": "SessionStart", "params": {"session_id": "s"}});
    assert_eq!(ask(&vmcp, Method::POST, "/hooks/execute", start).await.0, 404);
    assert_eq!(ask(&vmcp, Method::GET, "/sessions", json!({})).await.0, 404);
}

#[tokio::test]
async fn what_install_writes_hands_a_session_over() {
    let mut config = settings(&[]);
    config["optimizer"]["sessionHooks"] = json!({"enabled": true});
    config["server"] = json!({"listen": format!("127.0.0.1:{}", free_port())});
    let laptop = Laptop::new(&config);
    std::fs::create_dir(laptop.path(".claude")).expect("a folder");
    let before = "{\n  \"model\": \"opus\" // mine\n}\n";
    laptop.write(".claude/settings.json", before);
    for client in ["claude", "codex"] {
        let installed = laptop.run(&["hooks", "install", client]).await;
        assert_eq!(installed.code, Some(0), "{}", installed.stderr);
        assert_eq!(installed.stderr.contains("trust"), client == "codex", "{}", installed.stderr);
    }
    let read = |file: &str| std::fs::read_to_string(laptop.path(file)).expect("the client's file");
    let claude = read(".claude/settings.json");
    assert!(claude.contains("// mine") && claude.contains("/hooks/claude\""), "{claude}");
    let codex: Value = serde_json::from_str(&read(".codex/hooks.json")).expect("JSON");
    let command = codex["hooks"]["SessionEnd"][0]["hooks"][0]["command"].as_str().expect("a command");

    // A hook without a server fails, and stops no client.
    let event = |id: &str, event: &str, more: Value| {
        let mut payload = json!({
            "session_id": id, "transcript_path": null, "cwd": laptop.path("project"), "model": "m",
            "permission_mode": "default", "hook_event_name": event,
        });
        payload.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
        payload.to_string()
    };
    let send = async |payload: String| -> Run {
        laptop.write("payload", &payload);
        let input = std::fs::File::open(laptop.path("payload")).expect("the payload");
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).env("HOME", laptop.path("")).env_remove("XDG_CACHE_HOME");
        shell.env_remove("XDG_CONFIG_HOME").stdin(input);
        let output = shell.output().await.expect("a shell");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Run { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    };
    let absent = send(event("a", "SessionStart", json!({"source": "startup"}))).await;
    assert_eq!(absent.code, Some(1), "{}", absent.stderr);

    let started = laptop.run(&["start"]).await;
    assert_eq!(started.code, Some(0), "{}", started.stderr);
    let begun = send(event("a", "SessionStart", json!({"source": "startup"}))).await;
    assert_eq!((begun.code, begun.stdout.trim()), (Some(0), "{}"), "{}", begun.stderr);
    laptop.write("transcript.jsonl", r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Fix the login"}]}}"#);
    let end = json!({"transcript_path": laptop.path("transcript.jsonl"), "reason": "other"});
    let ended = send(event("a", "SessionEnd", end)).await;
    assert_eq!((ended.code, ended.stdout.trim()), (Some(0), "{}"), "{}", ended.stderr);
    let next = send(event("b", "SessionStart", json!({"source": "clear"}))).await;
    let answer: Value = serde_json::from_str(&next.stdout).expect("JSON");
    let context = answer["hookSpecificOutput"]["additionalContext"].as_str().expect("a context");
    assert!(context.contains("Fix the login"), "{context}");
    let stopped = laptop.run(&["stop"]).await;
    assert_eq!(stopped.code, Some(0), "{}", stopped.stderr);

    let undone = laptop.run(&["hooks", "install", "claude", "--undo"]).await;
    assert_eq!(undone.code, Some(0), "{}", undone.stderr);
    let after = read(".claude/settings.json");
    assert!(after.contains("// mine") && !after.contains("hooks"), "{after}");
    assert_eq!(laptop.run(&["hooks", "install", "claude", "--undo"]).await.code, Some(3));
}
