//! The real Codex, with a stub of its model: as a backend, and as a client that `vmcp connect` has set up.
//! Skipped where its package is not in the cache.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;
use vmcp_integration::{
    Client, Fixture, MODEL_KEY, ModelAnswer, ModelStub, Vmcp, binary, codex_program, eventually, free_port,
    skipped,
};

use super::laptop::{Laptop, settings};

/// Returns the program; without one the test is skipped.
async fn codex() -> Option<PathBuf> {
    codex_program().await.inspect_err(|reason| skipped(reason)).ok()
}

/// Answers by the words of the user: `RUN` calls for a command outside of the sandbox, `HOLD` never ends.
fn script(last: &Value) -> ModelAnswer {
    let text = last.to_string();
    match last["type"].as_str() {
        Some("function_call_output") => ModelAnswer::Says("the command has ended".to_owned()),
        _ if text.contains("RUN") => ModelAnswer::Calls {
            namespace: None,
            name: "exec_command",
            arguments: json!({
                "cmd": "touch made.txt", "sandbox_permissions": "require_escalated", "justification": "a test",
            }),
        },
        _ if text.contains("HOLD") => ModelAnswer::Hangs,
        _ => ModelAnswer::Says("hello from the model".to_owned()),
    }
}

/// Codex as a backend, with a home and a working directory of its own.
struct CodexBackend {
    model: ModelStub,
    vmcp: Vmcp,
    folder: tempfile::TempDir,
}

impl CodexBackend {
    async fn start(program: &Path) -> CodexBackend {
        let model = ModelStub::start(script).await;
        let folder = tempfile::tempdir().expect("a folder");
        let (home, work) = (folder.path().join("home"), folder.path().join("work"));
        std::fs::create_dir(&home).expect("a folder");
        std::fs::create_dir(&work).expect("a folder");
        std::fs::write(home.join("config.toml"), model.codex_config()).expect("writing");
        let entry = json!({
            "name": "codex", "transport": "codex", "command": [program, "app-server"], "cwd": work,
            "env": {"CODEX_HOME": home, (MODEL_KEY): "x"},
        });
        let vmcp = Vmcp::new().backend_entry(entry).start().await;
        vmcp.with_tool("codex_codex").await;
        CodexBackend { model, vmcp, folder }
    }

    /// Returns a client that can ask its user.
    async fn client(&self) -> Client {
        let capabilities = json!({"elicitation": {}});
        Client::legacy_with(&self.vmcp.url, "2025-11-25", "raw", capabilities).await
    }

    fn has_made(&self) -> bool {
        self.folder.path().join("work/made.txt").exists()
    }
}

fn arguments(prompt: &str, thread: Option<&str>) -> Value {
    match thread {
        Some(thread) => json!({"prompt": prompt, "thread_id": thread}),
        None => json!({"prompt": prompt}),
    }
}

/// Runs a turn whose user answers each question with `decision`; returns the result and the questions.
async fn turn(client: &Client, prompt: &str, thread: Option<&str>, decision: &str) -> (Value, Vec<Value>) {
    let params = json!({"name": "optim_codex", "arguments": arguments(prompt, thread)});
    let user = |_: &str, _: &Value| json!({"action": "accept", "content": {"decision": decision}});
    let (answer, asked) = client.converse("tools/call", params, &user).await;
    (answer.structured().clone(), asked)
}

async fn threads(client: &Client) -> Vec<String> {
    let listed = client.call_tool("optim_codex_list_threads", json!({})).await;
    let threads = listed.structured()["threads"].as_array().expect("threads").iter();
    threads.map(|thread| thread["id"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test]
async fn codex_as_a_backend_answers_asks_and_goes_on_after_a_restart() {
    let Some(program) = codex().await else { return };
    let mut backend = CodexBackend::start(&program).await;
    let client = backend.client().await;
    let (first, asked) = turn(&client, "say hello", None, "approve").await;
    assert_eq!((&first["success"], &first["is_continuation"]), (&json!(true), &json!(false)), "{first}");
    assert_eq!(first["response"], "hello from the model", "{first}");
    let types: Vec<_> = first["items"].as_array().expect("items").iter().map(|item| &item["type"]).collect();
    assert_eq!(types, ["userMessage", "agentMessage"], "{first}");
    assert_eq!(first["usage"]["total"]["totalTokens"], 14, "{first}");
    assert!(first["session_id"].is_string() && asked.is_empty(), "{first}");
    let thread = first["thread_id"].as_str().expect("a thread");

    let (declined, asked) = turn(&client, "RUN it", Some(thread), "decline").await;
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(asked[0][0], "elicitation/create");
    let question = asked[0][1]["message"].as_str().expect("a message");
    for part in ["touch made.txt", "Working directory: ", "Reason given by Codex: a test"] {
        assert!(question.contains(part), "{question}");
    }
    assert!(!backend.has_made() && declined["items"].to_string().contains("\"declined\""), "{declined}");
    let (approved, asked) = turn(&client, "RUN it", Some(thread), "approve").await;
    assert_eq!((&approved["success"], asked.len()), (&json!(true), 1), "{approved}");
    assert_eq!(approved["response"], "the command has ended", "{approved}");
    assert!(backend.has_made(), "{approved}");
    assert_eq!(threads(&client).await, [thread]);

    // The thread outlives vmcp and the app server, and the model sees what was said before.
    backend.vmcp.restart().await;
    backend.vmcp.with_tool("codex_codex").await;
    let client = backend.client().await;
    let (resumed, _) = turn(&client, "once more", Some(thread), "approve").await;
    assert_eq!((&resumed["success"], &resumed["is_continuation"]), (&json!(true), &json!(true)), "{resumed}");
    assert_eq!((&resumed["thread_id"], &resumed["session_id"]), (&first["thread_id"], &first["session_id"]));
    let seen = backend.model.asked("once more").await["input"].to_string();
    assert!(seen.contains("say hello") && seen.contains("hello from the model"), "{seen}");
}

#[tokio::test]
async fn a_cancelled_turn_of_codex_is_interrupted_and_its_new_thread_archived() {
    let Some(program) = codex().await else { return };
    let backend = CodexBackend::start(&program).await;
    let client = std::sync::Arc::new(backend.client().await);
    let hold = |id: u64, words: &'static str, thread: Option<String>| {
        let client = client.clone();
        let params = json!({"name": "optim_codex", "arguments": arguments(words, thread.as_deref())});
        tokio::spawn(async move { client.open_as(id, "tools/call", params).await.text().await })
    };
    let cancel = async |id: u64| client.notify("notifications/cancelled", json!({"requestId": id})).await;

    // The first turn of a new thread: without an answer the thread has no owner, so it is archived.
    let waiting = hold(77, "HOLD the first", None);
    backend.model.asked("HOLD the first").await;
    let unanswered = threads(&client).await;
    let [unanswered] = &unanswered[..] else { panic!("{unanswered:?}") };
    cancel(77).await;
    eventually("the end of the thread", async || threads(&client).await.is_empty().then_some(())).await;
    waiting.abort();
    let (refused, _) = turn(&client, "go on", Some(unanswered), "approve").await;
    let error = refused["error"].as_str().expect("an error");
    let expected = [format!("thread {unanswered} is archived"), "leave thread_id out".to_owned()];
    assert!(expected.iter().all(|part| error.contains(part)), "{refused}");
    let unknown = "0190a000-0000-7000-8000-00000000abcd";
    let (refused, _) = turn(&client, "go on", Some(unknown), "approve").await;
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("list_threads")), "{refused}");

    // A thread that was answered before goes on after a cancelled turn, and the model is told of it.
    let (first, _) = turn(&client, "say hello", None, "approve").await;
    let thread = first["thread_id"].as_str().expect("a thread");
    let waiting = hold(78, "HOLD the second", Some(thread.to_owned()));
    backend.model.asked("HOLD the second").await;
    cancel(78).await;
    let resumed = eventually("the thread to be free", async || {
        let (resumed, _) = turn(&client, "go on", Some(thread), "approve").await;
        let is_busy = resumed["error"].as_str().is_some_and(|error| error.contains("busy"));
        (!is_busy).then_some(resumed)
    })
    .await;
    waiting.abort();
    assert_eq!((&resumed["success"], &resumed["response"]), (&json!(true), &json!("hello from the model")));
    let seen = backend.model.asked("go on").await["input"].to_string();
    assert!(seen.contains("HOLD the second") && seen.contains("interrupted"), "{seen}");
}

#[tokio::test]
async fn the_app_server_of_this_codex_knows_every_message_of_the_adapter() {
    let Some(program) = codex().await else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(program);
    command.args(["app-server", "generate-json-schema", "--out"]).arg(folder.path());
    let written = command.env("CODEX_HOME", folder.path()).output().await.expect("Codex");
    assert!(written.status.success(), "{written:?}");
    for (file, methods) in [
        (
            "ClientRequest",
            "initialize thread/start thread/resume thread/list thread/archive turn/start turn/interrupt",
        ),
        ("ClientNotification", "initialized"),
        (
            "ServerRequest",
            "item/commandExecution/requestApproval item/fileChange/requestApproval \
             item/permissions/requestApproval mcpServer/elicitation/request",
        ),
        (
            "ServerNotification",
            "item/started item/completed thread/tokenUsage/updated serverRequest/resolved turn/completed \
             item/agentMessage/delta item/plan/delta",
        ),
    ] {
        let schema = std::fs::read_to_string(folder.path().join(format!("{file}.json"))).expect("a schema");
        for method in methods.split(' ') {
            assert!(schema.contains(&format!("\"{method}\"")), "{file} has no {method}");
        }
    }
}

/// Returns the tools of vmcp as the model sees them in a request: a namespace with its description.
fn namespace(request: &Value) -> &Value {
    let tools = request["tools"].as_array().expect("tools");
    tools.iter().find(|tool| tool["name"] == "mcp__vmcp").unwrap_or_else(|| panic!("{tools:?}"))
}

/// Calls find_tool, then call_tool, then tells the result.
fn searching(last: &Value) -> ModelAnswer {
    let calls = |name, arguments| ModelAnswer::Calls { namespace: Some("mcp__vmcp"), name, arguments };
    let output = last["output"].to_string();
    match last["type"].as_str() {
        Some("function_call_output") if output.contains("token_metrics") => {
            calls("optim_call_tool", json!({"tool_name": "echo_add", "parameters": {"a": 40404, "b": 2020}}))
        }
        Some("function_call_output") => ModelAnswer::Says(format!("the tool says {output}")),
        _ => calls("optim_find_tool", json!({"tool_description": "add two numbers"})),
    }
}

/// Runs `codex exec` in a home, with its own files in `codex_home` of it if given; returns its events.
async fn exec(program: &Path, laptop: &Laptop, codex_home: Option<&str>) -> String {
    let mut command = Command::new(program);
    command.args(["exec", "--skip-git-repo-check", "--json", "add two numbers"]).current_dir(laptop.path(""));
    command.env("HOME", laptop.path("")).env(MODEL_KEY, "x").env_remove("CODEX_HOME");
    command.env_remove("XDG_CACHE_HOME").env_remove("XDG_CONFIG_HOME");
    command.envs(codex_home.map(|folder| ("CODEX_HOME", laptop.path(folder))));
    let ran = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let ran =
        tokio::time::timeout(vmcp_integration::WAIT_TIMEOUT, ran).await.expect("an end").expect("Codex");
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{text}{}", String::from_utf8_lossy(&ran.stderr));
    text
}

#[tokio::test]
async fn codex_finds_and_calls_through_vmcp_as_connect_has_set_it_up() {
    let Some(program) = codex().await else { return };
    let model = ModelStub::start(searching).await;
    // The instructions of a server are as long as a server may make them.
    let fixture = binary("vmcp-fixture");
    let echo = json!({"name": "echo", "command": [fixture, "--toolset", "echo", "--name", "n".repeat(3000)]});
    let many = Fixture::stdio("many", "synthetic:200").start().await;
    let mut config = settings(&[echo, many.backend.clone()]);
    let ports = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    config["server"] = json!({"listen": ports[0], "adminListen": ports[1]});
    let laptop = Laptop::new(&config);
    std::fs::create_dir(laptop.path(".codex")).expect("a folder");
    laptop.write(".codex/config.toml", &model.codex_config());
    let connected = laptop.run(&["connect", "codex"]).await;
    assert_eq!(connected.code, Some(0), "{}", connected.stderr);
    assert!(connected.stderr.contains("approval_mode = \"approve\""), "{}", connected.stderr);

    // Codex asks its user before a call that may change something; `codex exec` has none, and refuses.
    let events = exec(&program, &laptop, None).await;
    assert!(events.contains("requires approval"), "{events}");
    let first = &model.requests()[0];
    let seen = namespace(first);
    let mut names: Vec<_> =
        seen["tools"].as_array().expect("tools").iter().map(|tool| &tool["name"]).collect();
    names.retain(|name| name.as_str().is_some_and(|name| name.starts_with("optim")));
    assert_eq!(names, ["optim_call_tool", "optim_find_tool"], "{seen}");
    let instructions = seen["description"].as_str().expect("a description");
    let end = instructions.find("Then run one with call_tool.").expect("the instructions of vmcp");
    assert!(end < 2048, "clients cut instructions at 2 KB, and those of vmcp end at {end}");
    for part in ["This server stands for many MCP servers", "describe the task to find_tool"] {
        assert!(instructions.find(part).is_some_and(|at| at < end), "{part}: {instructions}");
    }
    assert!(seen.to_string().contains("Searches all connected tools"), "{seen}");

    let approved = "\n[mcp_servers.vmcp.tools.optim_call_tool]\napproval_mode = \"approve\"\n";
    let file = std::fs::read_to_string(laptop.path(".codex/config.toml")).expect("the client's file");
    laptop.write(".codex/config.toml", &(file + approved));
    let events = exec(&program, &laptop, None).await;
    assert!(events.contains("the tool says ") && events.contains("42424"), "{events}");
    let requests = model.requests();
    let result = requests.last().expect("a request")["input"].to_string();
    assert!(result.contains("echo_add") && result.contains("42424"), "{result}");

    // Another Codex, with its files elsewhere, is connected there.
    std::fs::create_dir(laptop.path("elsewhere")).expect("a folder");
    laptop.write("elsewhere/config.toml", &model.codex_config());
    let mut connect = laptop.command(&["connect", "codex"]);
    let connected = connect.env("CODEX_HOME", laptop.path("elsewhere")).output().await.expect("vmcp");
    assert!(connected.status.success(), "{}", String::from_utf8_lossy(&connected.stderr));
    let file = std::fs::read_to_string(laptop.path("elsewhere/config.toml")).expect("the client's file");
    laptop.write("elsewhere/config.toml", &(file + approved));
    let events = exec(&program, &laptop, Some("elsewhere")).await;
    assert!(events.contains("the tool says ") && events.contains("42424"), "{events}");
    assert_eq!(laptop.run(&["stop"]).await.code, Some(0));
}
