//! `vmcp serve --stdio`: one client at the other end of a pipe, in either era.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use vmcp_integration::{Fixture, MODERN, WAIT_TIMEOUT, eventually, node, vmcp_command};

pub(super) struct Pipe {
    pub(super) child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    _folder: tempfile::TempDir,
}

impl Pipe {
    fn open(config: &Value) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("vmcp.yaml");
        std::fs::write(&file, config.to_string()).expect("writing");
        let mut command = vmcp_command();
        command.args(["serve", "--stdio", "--config"]).arg(&file).current_dir(folder.path());
        Self::start(command, folder)
    }

    /// Starts a command that serves on standard input and output.
    pub(super) fn start(mut command: Command, folder: tempfile::TempDir) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("vmcp");
        let input = child.stdin.take().expect("a pipe");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, input, lines, _folder: folder }
    }

    /// Closes standard input, upon which the server ends.
    pub(super) async fn end(self) {
        let Pipe { mut child, input, .. } = self;
        drop(input);
        let status = tokio::time::timeout(WAIT_TIMEOUT, child.wait()).await.expect("an end");
        assert!(status.expect("a status").success());
    }

    /// Sends a message.
    pub(super) async fn send(&mut self, message: &Value) {
        self.input.write_all(format!("{message}\n").as_bytes()).await.expect("an open pipe");
    }

    /// Sends a request and returns its answer; messages before it are dropped.
    pub(super) async fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        self.until(|message| message["id"] == id).await
    }

    /// Lists tools until `tool` is among them; ids are `first_id` and those behind it.
    pub(super) async fn until_listed(&mut self, tool: &str, first_id: u64) {
        let deadline = tokio::time::Instant::now() + WAIT_TIMEOUT;
        for id in first_id.. {
            let listed = self.ask(id, "tools/list", json!({})).await;
            let tools = listed["result"]["tools"].as_array().expect("tools");
            if tools.iter().any(|listed| listed["name"] == tool) {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "waited in vain for {tool}: {listed}");
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    /// Returns the next message that is `wanted`; others are dropped.
    pub(super) async fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = tokio::time::timeout(WAIT_TIMEOUT, self.lines.next_line()).await;
            let line = line.expect("a message in time").expect("an open pipe").expect("a line");
            let message: Value = serde_json::from_str(&line).expect("nothing but JSON on standard output");
            if wanted(&message) {
                return message;
            }
        }
    }
}

fn config(backend: &Fixture) -> Value {
    json!({"backends": [backend.backend], "optimizer": {"embeddings": {"provider": "none"}, "storage": {"dir": "storage"}}})
}

#[tokio::test]
async fn a_legacy_client_initializes_lists_finds_and_calls() {
    let echo = Fixture::http("echo", "echo").start().await;
    let mut pipe = Pipe::open(&config(&echo));
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
    let opened = pipe.ask(1, "initialize", params).await;
    assert_eq!(opened["result"]["protocolVersion"], "2025-11-25", "{opened}");
    pipe.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    let mut id = 1;
    let pipe = tokio::sync::Mutex::new(pipe);
    eventually("the backend's tools", async || {
        id += 1;
        let listed = pipe.lock().await.ask(id, "tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().expect("tools").clone();
        tools.iter().any(|tool| tool["name"] == "echo_add").then_some(())
    })
    .await;
    let mut pipe = pipe.into_inner();
    let find = json!({"name": "optim.find_tool", "arguments": {"tool_description": "add two numbers"}});
    let found = pipe.ask(1001, "tools/call", find).await;
    assert_eq!(found["result"]["structuredContent"]["tools"][0]["name"], "echo_add", "{found}");
    let call = json!({"name": "optim.call_tool", "arguments": {"tool_name": "echo_add", "parameters": {"a": 2, "b": 3}}});
    let called = pipe.ask(1002, "tools/call", call).await;
    assert_eq!(called["result"]["content"][0]["text"], "5", "{called}");
    pipe.end().await;
}

#[tokio::test]
async fn a_modern_client_is_served_and_nonsense_is_not_fatal() {
    let echo = Fixture::stdio("echo", "echo").start().await;
    let mut pipe = Pipe::open(&config(&echo));
    let meta = json!({"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}});
    let discovered = pipe.ask(1, "server/discover", json!({"_meta": meta})).await;
    assert_eq!(discovered["result"]["supportedVersions"][0], MODERN, "{discovered}");
    pipe.input.write_all(b"this is no JSON\n\n[]\n{}\n").await.expect("an open pipe");
    let listed = pipe.ask(2, "tools/list", json!({"_meta": meta})).await;
    assert_eq!(listed["result"]["resultType"], "complete", "{listed}");
}

#[tokio::test]
async fn a_line_that_is_too_long_or_no_text_ends_nothing() {
    let echo = Fixture::stdio("echo", "echo").start().await;
    let mut pipe = Pipe::open(&config(&echo));
    let meta = json!({"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}});
    pipe.ask(1, "server/discover", json!({"_meta": meta})).await;
    let huge = json!({"jsonrpc": "2.0", "id": 2, "method": "ping", "params": {"x": "x".repeat(5 << 20)}});
    pipe.send(&huge).await;
    let refused = pipe.until(|message| message["error"].is_object()).await;
    let message = refused["error"]["message"].as_str().expect("a message");
    assert!(message.contains("optimizer.limits.bodyBytes"), "{message}");
    pipe.input
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"pi\xe9ng\"}\n")
        .await
        .expect("an open pipe");
    let refused = pipe.until(|message| message["error"].is_object()).await;
    assert_eq!(refused["error"]["code"], -32700, "{refused}");
    let listed = pipe.ask(4, "tools/list", json!({"_meta": meta})).await;
    assert_eq!(listed["result"]["resultType"], "complete", "{listed}");
}

#[tokio::test]
async fn a_client_that_never_reads_is_not_read_for_ever() {
    let echo = Fixture::stdio("echo", "echo").start().await;
    let mut pipe = Pipe::open(&config(&echo));
    let meta = json!({"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}});
    pipe.ask(1, "server/discover", json!({"_meta": meta})).await;
    let mut sent = 0;
    let blocked = async {
        loop {
            let request =
                json!({"jsonrpc": "2.0", "id": sent, "method": "tools/list", "params": {"_meta": meta}});
            let line = format!("{request}\n");
            let written =
                tokio::time::timeout(Duration::from_secs(3), pipe.input.write_all(line.as_bytes())).await;
            if written.is_err() {
                break;
            }
            sent += 1;
            assert!(sent < 50_000, "everything is taken from a client that reads nothing");
        }
    };
    blocked.await;
    // Once the client reads, every request has its answer or its refusal, and the server goes on.
    let mut answered = 0;
    while answered < sent {
        pipe.until(|message| message["id"].is_u64()).await;
        answered += 1;
    }
}

#[tokio::test]
async fn a_backend_that_asks_is_answered_over_the_pipe() {
    let echo = Fixture::stdio("echo", "echo").args(["--era", "legacy"]).start().await;
    let mut pipe = Pipe::open(&config(&echo));
    let capabilities = json!({"elicitation": {}});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "x", "version": "1"}});
    pipe.ask(1, "initialize", params).await;
    let mut id = 1;
    let pipe = tokio::sync::Mutex::new(pipe);
    eventually("the backend's tools", async || {
        id += 1;
        let listed = pipe.lock().await.ask(id, "tools/list", json!({})).await;
        listed.to_string().contains("echo_ask").then_some(())
    })
    .await;
    let mut pipe = pipe.into_inner();
    let yes = json!({"action": "accept", "content": {}});

    let params = json!({"name": "echo_ask", "arguments": {"message": "legacy?"}});
    pipe.send(&json!({"jsonrpc": "2.0", "id": 1001, "method": "tools/call", "params": params})).await;
    let question = pipe.until(|message| message["method"] == "elicitation/create").await;
    assert_eq!(question["params"]["message"], "The server echo asks: legacy?");
    pipe.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": yes})).await;
    let answer = pipe.until(|message| message["id"] == 1001).await;
    assert!(answer["result"]["content"][0]["text"].as_str().expect("a text").contains("accept"), "{answer}");

    let meta = json!({"io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": capabilities});
    let mut params = json!({"name": "echo_ask", "arguments": {"message": "modern?"}, "_meta": meta});
    let asked = pipe.ask(1002, "tools/call", params.clone()).await;
    let request = &asked["result"]["inputRequests"]["q1"];
    assert_eq!(request["params"]["message"], "The server echo asks: modern?", "{asked}");
    params["requestState"] = asked["result"]["requestState"].clone();
    params["inputResponses"] = json!({"q1": yes});
    let answer = pipe.ask(1003, "tools/call", params).await;
    assert!(answer["result"]["content"][0]["text"].as_str().expect("a text").contains("accept"), "{answer}");
}

#[tokio::test]
async fn a_tool_that_a_server_adds_is_announced_listed_found_and_called_over_the_pipe() {
    for server in [Fixture::stdio("own", "owner"), Fixture::http("own", "owner")] {
        let server = server.args(["--era", "legacy"]).start().await;
        let mut config = config(&server);
        config["optimizer"]["exposure"] = json!("All");
        let mut pipe = Pipe::open(&config);
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
        pipe.ask(1, "initialize", params).await;
        pipe.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        pipe.until_listed("own_unpack", 100).await;
        let call = |tool: &str| json!({"name": tool, "arguments": {}});
        let unpack = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call("own_unpack")});
        pipe.send(&unpack).await;
        pipe.until(|message| message["method"] == "notifications/tools/list_changed").await;
        pipe.until_listed("own_juggle", 1000).await;
        let called = pipe.ask(3, "tools/call", call("own_juggle")).await;
        assert_eq!(called["result"]["content"][0]["text"], "three torches", "{called}");
        let find =
            json!({"name": "optim.find_tool", "arguments": {"tool_description": "torches in the air"}});
        let found = pipe.ask(4, "tools/call", find).await;
        assert_eq!(found["result"]["structuredContent"]["tools"][0]["name"], "own_juggle", "{found}");
        let found =
            json!({"name": "optim.call_tool", "arguments": {"tool_name": "own_juggle", "parameters": {}}});
        let called = pipe.ask(5, "tools/call", found).await;
        assert_eq!(called["result"]["content"][0]["text"], "three torches", "{called}");
        pipe.end().await;
    }
}

#[tokio::test]
async fn a_server_that_knows_only_its_clients_roots_works_over_the_pipe() {
    let files = node("mcp-server-filesystem").display().to_string();
    let config = json!({"backends": [{"name": "files", "command": [files]}],
        "optimizer": {"embeddings": {"provider": "none"}, "storage": {"dir": "storage"}}});
    let mut pipe = Pipe::open(&config);
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"roots": {}}, "clientInfo": {"name": "x", "version": "1"}});
    pipe.ask(1, "initialize", params).await;
    let mut id = 1;
    let pipe = tokio::sync::Mutex::new(pipe);
    eventually("the backend's tools", async || {
        id += 1;
        let listed = pipe.lock().await.ask(id, "tools/list", json!({})).await;
        listed.to_string().contains("files_read_text_file").then_some(())
    })
    .await;
    let folder = tempfile::tempdir().expect("a folder");
    let note = folder.path().join("note.txt");
    std::fs::write(&note, "buy milk").expect("writing");
    let roots = json!({"roots": [{"uri": format!("file://{}", folder.path().display()), "name": "mine"}]});
    eventually("the file", async || {
        id += 1;
        let mut pipe = pipe.lock().await;
        let params =
            json!({"name": "files_read_text_file", "arguments": {"path": note.display().to_string()}});
        pipe.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).await;
        loop {
            let message =
                pipe.until(|message| message["id"] == id || message["method"] == "roots/list").await;
            if message["method"].is_null() {
                return message.to_string().contains("buy milk").then_some(());
            }
            pipe.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": roots})).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_request_is_left_without_an_answer() {
    let echo = Fixture::http("echo", "echo").start().await;
    let mut pipe = Pipe::open(&config(&echo));
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    pipe.ask(1, "initialize", params).await;
    pipe.until_listed("echo_sleep", 100).await;
    let params = json!({"name": "echo_sleep", "arguments": {"ms": 600_000}});
    pipe.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})).await;
    eventually("the call to run", async || (echo.calls("sleep").await == 1).then_some(())).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    pipe.send(&cancel).await;
    eventually("the call to be cancelled", async || (echo.stats().await["cancelled"] == 1).then_some(()))
        .await;
    // An answer would come before those to these requests.
    for id in [8, 9, 10] {
        pipe.send(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"})).await;
        let next = pipe.until(|message| message.get("id").is_some()).await;
        assert_eq!(next["id"], id, "{next}");
    }
    pipe.end().await;
}
