//! Servers on other people's SDKs answer through vmcp as they answer direct, call by call: over stdio, HTTP
//! and SSE, in each revision that they speak.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::task::AbortHandle;
use vmcp_integration::{
    Client, MODERN, Messages, Process, Vmcp, WAIT_TIMEOUT, eventually, free_port, installed, node,
};

const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/all_of_it.py");
const TYPESCRIPT: &str = include_str!("../../clients/all_of_it.mjs");
const LEGACY: [&str; 2] = ["2025-06-18", "2025-11-25"];
const BOTH: [&str; 3] = ["2025-06-18", "2025-11-25", MODERN];

pub(super) static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A server program on one SDK.
#[derive(Clone, Copy)]
pub(super) enum Sdk {
    /// An interpreter, and the SDK as the script calls it.
    Python(&'static str, &'static str),
    TypeScript(&'static str),
}

impl Sdk {
    /// Returns the command up to the transport.
    fn command(self) -> Vec<String> {
        let show = |path: std::path::PathBuf| path.display().to_string();
        match self {
            Self::Python(interpreter, sdk) => vec![show(installed(interpreter)), PYTHON.into(), sdk.into()],
            Self::TypeScript(sdk) => {
                let node = show(node("node"));
                vec![node, "--input-type=module".into(), "--eval".into(), TYPESCRIPT.into(), sdk.into()]
            }
        }
    }

    /// Starts the server over HTTP or SSE; returns its URL.
    pub(super) async fn listen(self, transport: &str) -> (Process, String) {
        let all = self.command();
        let mut command = Command::new(&all[0]);
        command.args(&all[1..]).arg(transport).current_dir(installed("node"));
        if let Self::TypeScript(_) = self {
            let process = Process::start(transport, &mut command);
            let url = process.line_after("listening on ").await;
            return (process, url);
        }
        let port = free_port();
        let process = Process::start(transport, command.arg(port.to_string()));
        process.line_after("Uvicorn running on").await;
        (process, format!("http://127.0.0.1:{port}/{}", if transport == "sse" { "sse" } else { "mcp" }))
    }

    /// Starts vmcp before the server over one transport; `url` is the server's that runs already.
    pub(super) async fn behind(self, transport: &str, url: &str) -> (Option<Process>, Vmcp) {
        let (process, mut entry) = if transport == "stdio" {
            // The script is text of the configuration, where `$${` is a `${`.
            let mut command: Vec<_> = self.command().iter().map(|word| word.replace("${", "$${")).collect();
            command.push("stdio".to_owned());
            let entry = json!({"command": command, "cwd": installed("node"), "connectionTimeout": "2m",
                "warmSessions": 0});
            (None, entry)
        } else if transport == "http" {
            (None, json!({"url": url}))
        } else {
            let (process, url) = self.listen(transport).await;
            (Some(process), json!({"url": url}))
        };
        entry["name"] = "all".into();
        if transport == "sse" {
            entry["transport"] = "sse".into();
        }
        let settings = json!({"aggregation": {"conflictResolution": "passthrough"},
            "optimizer": {"exposure": "All"}});
        let vmcp = Vmcp::new().backend_entry(entry).config(settings).start().await;
        eventually("the server's tools", async || {
            vmcp.modern().tools().await.contains_key("count").then_some(())
        })
        .await;
        (process, vmcp)
    }
}

/// Answers what the server asks.
fn user(method: &str, _: &Value) -> Value {
    match method {
        "roots/list" => json!({"roots": [{"uri": "file:///home/ann", "name": "home"}]}),
        "sampling/createMessage" => json!({"role": "assistant", "model": "m", "stopReason": "endTurn",
            "content": {"type": "text", "text": "4"}}),
        _ => json!({"action": "accept", "content": {"name": "Ann"}}),
    }
}

/// The requests of a story, in order.
fn requests(is_modern: bool) -> Vec<(&'static str, Value)> {
    let call = |name: &str, arguments: Value| ("tools/call", json!({"name": name, "arguments": arguments}));
    let mut all = vec![
        call("add", json!({"a": 2, "b": 3})),
        call("add", json!({"a": "two"})),
        call("fail", json!({"reason": "größer"})),
        call("blocks", json!({})),
        call("progress", json!({"steps": 3})),
        call("log", json!({})),
        ("resources/read", json!({"uri": "all://text"})),
        ("resources/read", json!({"uri": "all://bytes"})),
        ("resources/read", json!({"uri": "all://of/some%20one"})),
        ("prompts/get", json!({"name": "greet", "arguments": {"who": "Ann"}})),
        ("prompts/get", json!({"name": "greet", "arguments": {}})),
    ];
    for reference in [
        json!({"type": "ref/prompt", "name": "greet"}),
        json!({"type": "ref/resource", "uri": "all://of/{name}"}),
    ] {
        let argument =
            json!({"name": if reference["uri"].is_null() { "who" } else { "name" }, "value": "ad"});
        all.push(("completion/complete", json!({"ref": reference, "argument": argument})));
    }
    // The SDKs ask legacy clients only, and a modern one has no connection whose calls could be counted.
    if !is_modern {
        all.extend(["ask", "sample", "roots"].map(|name| call(name, json!({}))));
        all.extend([call("count", json!({})), call("count", json!({}))]);
    }
    all
}

/// Answers and messages that a client of a revision got from one server.
struct Story {
    /// Its lists and answers, in order.
    answers: Vec<Value>,
    /// Questions and notifications of its calls, whichever stream they came on; more may come on the GET
    /// stream after the last answer.
    heard: Arc<Mutex<Vec<Value>>>,
    listener: Option<AbortHandle>,
}

impl Drop for Story {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.abort();
        }
    }
}

impl Story {
    /// Lives through it as a client of a revision.
    async fn live(url: &str, revision: &str) -> Self {
        let is_modern = revision == MODERN;
        let capabilities = json!({"elicitation": {}, "sampling": {}, "roots": {}});
        let client = Arc::new(if is_modern {
            Client::modern(url).declaring(capabilities)
        } else {
            Client::legacy_with(url, revision, "raw", capabilities).await
        });
        let mut story = Self { answers: Vec::new(), heard: Arc::default(), listener: None };
        if !is_modern {
            client.request("logging/setLevel", json!({"level": "info"})).await;
            story.listener = Some(listen(&client, &story.heard).await);
        }
        for (method, list) in [
            ("tools/list", "tools"),
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
            ("prompts/list", "prompts"),
        ] {
            let answer = client.request(method, json!({})).await;
            let mut items = answer.result()[list].as_array().cloned().unwrap_or_default();
            items.retain(|item| !item["name"].as_str().is_some_and(|name| name.starts_with("optim")));
            items.sort_by_key(|item| item["name"].to_string());
            story.answers.push(json!([method, items]));
        }
        for (token, (method, mut params)) in requests(is_modern).into_iter().enumerate() {
            params["_meta"] = json!({"progressToken": token});
            if is_modern {
                params["_meta"]["io.modelcontextprotocol/logLevel"] = "info".into();
            }
            let (answer, asked) = client.converse(method, params.clone(), &user).await;
            let mut heard = story.heard.lock();
            heard.extend(asked);
            let notifications = answer.notifications.iter();
            heard.extend(notifications.map(|message| json!([message["method"], message["params"]])));
            story.answers.push(json!([method, params, without_signature(answer.message)]));
        }
        story
    }

    /// Returns what was heard so far, in an order that does not depend on the stream.
    fn heard(&self) -> Vec<Value> {
        let mut heard = self.heard.lock().clone();
        heard.retain(|message| {
            let method = message[0].as_str().unwrap_or_default();
            let is_question =
                ["elicitation/create", "sampling/createMessage", "roots/list"].contains(&method);
            is_question || ["notifications/progress", "notifications/message"].contains(&method)
        });
        heard.iter_mut().for_each(without_source);
        heard.sort_by_key(ToString::to_string);
        heard
    }
}

/// Takes the name of the server that asks out of a question.
pub(super) fn without_source(message: &mut Value) {
    let Some(params) = message[1].as_object_mut() else { return };
    for key in ["message", "systemPrompt"] {
        let text = params.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some((_, words)) = text.split_once(" asks: ").filter(|_| text.starts_with("The server ")) {
            params.insert(key.to_owned(), words.into());
        } else if text.starts_with("The server ") {
            params.remove(key);
        }
    }
    if let Some(meta) = params.get_mut("_meta").and_then(Value::as_object_mut)
        && meta.remove("vmcp/server").is_some()
        && meta.is_empty()
    {
        params.remove("_meta");
    }
    if params.is_empty() {
        message[1] = Value::Null;
    }
}

/// Records what comes on the GET stream, and answers questions there.
async fn listen(client: &Arc<Client>, heard: &Arc<Mutex<Vec<Value>>>) -> AbortHandle {
    let (mut messages, heard) = (Messages::of(client.listen().await), Arc::clone(heard));
    let client = Arc::clone(client);
    let task = tokio::spawn(async move {
        while let Some(message) = messages.next().await {
            if let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) {
                client.reply(id, &user(method, &message["params"])).await;
            }
            heard.lock().push(json!([message["method"], message["params"]]));
        }
    });
    task.abort_handle()
}

/// Returns a response without its id and without the name with which each server signs its results.
pub(super) fn without_signature(mut message: Value) -> Value {
    for key in ["jsonrpc", "id"] {
        message.as_object_mut().expect("an object").remove(key);
    }
    if let Some(meta) = message["result"]["_meta"].as_object_mut() {
        meta.remove("io.modelcontextprotocol/serverInfo");
        if meta.is_empty() {
            message["result"].as_object_mut().expect("an object").remove("_meta");
        }
    }
    message
}

/// Compares each transport with the server direct, in each revision.
async fn compare(sdk: Sdk, transports: &[&str], revisions: &[&str]) {
    // One after the other: interpreters take long to start where many do.
    let _turn = TURN.lock().await;
    let (_server, url) = sdk.listen("http").await;
    let behind = join_all(transports.iter().map(async |transport| {
        let started = sdk.behind(transport, &url).await;
        (transport, started)
    }));
    let behind = behind.await;
    for revision in revisions {
        let direct = Story::live(&url, revision).await;
        for (transport, (_process, vmcp)) in &behind {
            // The older transport is of the legacy era, in which servers word errors otherwise.
            if **transport == "sse" && *revision == MODERN {
                continue;
            }
            let through = Story::live(&vmcp.url, revision).await;
            assert_eq!(through.answers.len(), direct.answers.len(), "over {transport} in {revision}");
            for (seen, expected) in through.answers.iter().zip(&direct.answers) {
                assert_eq!(seen, expected, "over {transport} in {revision}");
            }
            let patience = Instant::now() + WAIT_TIMEOUT;
            while through.heard() != direct.heard() && Instant::now() < patience {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            assert_eq!(through.heard(), direct.heard(), "over {transport} in {revision}");
        }
    }
}

#[tokio::test]
async fn servers_on_the_python_sdk_1() {
    compare(Sdk::Python("agents/bin/python", "python"), &["stdio", "http", "sse"], &LEGACY).await;
}

#[tokio::test]
async fn servers_on_the_python_sdk_2() {
    compare(Sdk::Python("python/bin/python", "python"), &["stdio", "http", "sse"], &BOTH).await;
}

#[tokio::test]
async fn servers_on_fastmcp() {
    compare(Sdk::Python("python/bin/python", "fastmcp"), &["stdio", "http", "sse"], &BOTH).await;
}

#[tokio::test]
async fn servers_on_the_typescript_sdk_1() {
    compare(Sdk::TypeScript("1"), &["stdio", "http", "sse"], &LEGACY).await;
}

#[tokio::test]
async fn servers_on_the_typescript_sdk_2() {
    compare(Sdk::TypeScript("2"), &["stdio", "http"], &BOTH).await;
}
