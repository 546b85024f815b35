//! Helpers of tests: configurations from YAML, and a scripted MCP server over HTTP.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "helpers of tests fail like tests"
)]

pub mod fake_model;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use vmcp_config::{Config, Secret};

use crate::access::policy::{AccessRequest, Decision, Policy, PolicyId};
use crate::engine::{Engine, Options, Storage};
use crate::telemetry::calls::{CallObserver, CallRecord};

/// A configuration; panics on mistakes. Installs the TLS provider, as `main` does, for what is made of it.
pub fn config(yaml: &str) -> Config {
    let _ = rustls::crypto::ring::default_provider().install_default();
    vmcp_config::load(yaml, "test.yaml", &|_| None).unwrap_or_else(|problems| panic!("{problems}")).config
}

/// A configuration with these `server.sessionKeys`.
pub fn keyed(keys: &[&str]) -> Arc<Config> {
    let mut config = config(KEYWORDS);
    config.server.session_keys = keys.iter().map(|key| Secret::from(*key)).collect();
    Arc::new(config)
}

/// YAML with these backends, and no embeddings; `more` is put behind it.
pub fn backends(urls: &[(&str, &str)], more: &str) -> String {
    let entries: Vec<_> =
        urls.iter().map(|(name, url)| format!("{{ name: {name}, url: '{url}' }}")).collect();
    format!("backends: [{}]\n{more}", entries.join(", "))
}

/// Turns embeddings off.
pub const KEYWORDS: &str = "optimizer: { embeddings: { provider: none } }\n";

/// An engine whose cache is in memory, with every backend tried once.
pub async fn engine(yaml: &str) -> Engine {
    engine_with(yaml, Options::default()).await
}

/// An engine with options, of which only the place of the cache is replaced.
pub async fn engine_with(yaml: &str, options: Options) -> Engine {
    let options = Options { storage: Storage::Memory, ..options };
    let engine = Engine::start(config(yaml), options).await.unwrap();
    tokio::time::timeout(Duration::from_secs(30), engine.settled()).await.expect("the backends settle");
    engine
}

/// Keeps the record of each call.
#[derive(Debug, Default)]
pub struct SeenCalls(Mutex<Vec<CallRecord>>);

impl SeenCalls {
    /// Takes out the records of the calls that have ended since the last look.
    pub fn take(&self) -> Vec<CallRecord> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl CallObserver for SeenCalls {
    fn observe(&self, record: &CallRecord) {
        self.0.lock().push(record.clone());
    }
}

/// Waits until `condition` holds.
pub async fn eventually(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..1500 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("waited in vain: {what}");
}

/// An MCP server of 2025-11-25 with tools that can be changed. Tools called `slow`, `fail`, `blank`, `refuse`
/// and `long` do as they are called, and a call of `down` has the status 503. `rows` answers with `count`
/// rows as JSON, `content` with the blocks of its argument. All others answer with the parameters of the
/// call, and with the argument `structured` as structured content.
#[derive(Clone)]
pub struct Scripted {
    /// Its URL.
    pub url: String,
    script: Arc<Mutex<Script>>,
}

#[derive(Default)]
struct Script {
    tools: BTreeMap<String, Value>,
    calls: Vec<Value>,
    /// The server has everything under this name; see [`Scripted::everything`].
    everything: Option<&'static str>,
    /// Every method that was called, but for the handshake and the lists.
    methods: Vec<String>,
}

impl Scripted {
    /// A server with these tools: name, description, properties of the input schema (all required).
    pub async fn start(tools: &[(&str, &str, Value)]) -> Scripted {
        Scripted::serve(TcpListener::bind("127.0.0.1:0").await.unwrap(), tools)
    }

    /// As [`Scripted::start`], at a port that is open already: connections in its backlog are answered now.
    pub fn serve(listener: TcpListener, tools: &[(&str, &str, Value)]) -> Scripted {
        let script: Arc<Mutex<Script>> = Arc::default();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let app = axum::Router::new().route("/mcp", post(answer)).with_state(Arc::clone(&script));
        tokio::spawn(async move { axum::serve(listener, app).await });
        let server = Scripted { url, script };
        for (name, description, properties) in tools {
            server.set(name, description, properties);
        }
        server
    }

    /// A server with everything that a client can reach: the tool `work`, the prompt `ask`, the resource
    /// `NAME://note`, the template `NAME://{id}`, the task `NAME-1`, and the extension `example.com/NAME`
    /// with the method `NAME/search`.
    pub async fn everything(name: &'static str) -> Scripted {
        let server = Scripted::start(&[("work", "Works.", json!({}))]).await;
        server.script.lock().everything = Some(name);
        server
    }

    /// Every method that was called so far, but for the handshake and the lists.
    pub fn methods(&self) -> Vec<String> {
        self.script.lock().methods.clone()
    }

    /// Adds or replaces a tool.
    pub fn set(&self, name: &str, description: &str, properties: &Value) {
        let required: Vec<_> = properties.as_object().unwrap().keys().collect();
        let schema = json!({"type": "object", "properties": properties, "required": required});
        let tool = json!({"name": name, "description": description, "inputSchema": schema});
        self.script.lock().tools.insert(name.to_owned(), tool);
    }

    /// Gives a tool annotations.
    pub fn annotate(&self, name: &str, annotations: Value) {
        if let Some(tool) = self.script.lock().tools.get_mut(name) {
            tool["annotations"] = annotations;
        }
    }

    /// Gives a tool an output schema.
    pub fn promise(&self, name: &str, output: Value) {
        if let Some(tool) = self.script.lock().tools.get_mut(name) {
            tool["outputSchema"] = output;
        }
    }

    /// Removes a tool.
    pub fn remove(&self, name: &str) {
        self.script.lock().tools.remove(name);
    }

    /// The parameters of every `tools/call` so far.
    pub fn calls(&self) -> Vec<Value> {
        self.script.lock().calls.clone()
    }
}

async fn answer(State(script): State<Arc<Mutex<Script>>>, Json(message): Json<Value>) -> Response {
    let Some(id) = message.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let method = message["method"].as_str().unwrap_or_default();
    let everything = script.lock().everything;
    let of_vmcp = ["initialize", "server/discover", "ping"].contains(&method);
    let lists = method.ends_with("/list") && method != "tasks/list";
    if !of_vmcp && !lists {
        script.lock().methods.push(method.to_owned());
    }
    let result = match method {
        "initialize" => {
            let capabilities = everything.map_or(json!({"tools": {"listChanged": true}}), |name| {
                json!({"tools": {}, "prompts": {}, "completions": {}, "resources": {"subscribe": true},
                    "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}, "extensions": {format!("example.com/{name}"): {}}})
            });
            Ok(json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
            "serverInfo": {"name": "scripted", "version": "1"}}))
        }
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({"tools": script.lock().tools.values().collect::<Vec<_>>()})),
        "tools/call" => {
            let params = message["params"].clone();
            script.lock().calls.push(params.clone());
            if params["name"] == "down" {
                return StatusCode::SERVICE_UNAVAILABLE.into_response();
            }
            match everything.filter(|_| params.get("task").is_some()) {
                Some(name) => Ok(json!({"task": task_of(name)})),
                None => run(params["name"].as_str().unwrap_or_default(), &params).await,
            }
        }
        method => {
            let answer = everything.and_then(|name| answer_of_everything(name, method, &message["params"]));
            answer.ok_or_else(|| json!({"code": -32601, "message": "no such method"}))
        }
    };
    let body = match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
    };
    Json(body).into_response()
}

/// The task of [`Scripted::everything`].
fn task_of(name: &str) -> Value {
    json!({"taskId": format!("{name}-1"), "status": "working", "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": null})
}

/// An answer of [`Scripted::everything`].
fn answer_of_everything(name: &str, method: &str, params: &Value) -> Option<Value> {
    let note = format!("{name}://note");
    let task = task_of(name);
    Some(match method {
        "prompts/list" => json!({"prompts": [{"name": "ask"}]}),
        "resources/list" => json!({"resources": [{"uri": note, "name": "note"}]}),
        "resources/templates/list" => {
            json!({"resourceTemplates": [{"uriTemplate": format!("{name}://{{id}}"), "name": "any"}]})
        }
        "prompts/get" => json!({"messages": []}),
        "resources/read" if params["uri"] == note => {
            json!({"contents": [{"uri": note, "mimeType": "text/plain", "text": format!("a note of {name}")}]})
        }
        "resources/read" => json!({"contents": []}),
        "resources/subscribe" => json!({}),
        "completion/complete" => json!({"completion": {"values": []}}),
        "tasks/list" => json!({"tasks": [task]}),
        "tasks/get" | "tasks/cancel" | "tasks/update" | "tasks/result"
            if params["taskId"] == task["taskId"] =>
        {
            task
        }
        method if method == format!("{name}/search") => json!({}),
        _ => return None,
    })
}

async fn run(tool: &str, params: &Value) -> Result<Value, Value> {
    let text = |text: String| json!({"type": "text", "text": text});
    match tool {
        "slow" => {
            tokio::time::sleep(Duration::from_mins(1)).await;
            Ok(json!({"content": []}))
        }
        "fail" => Ok(json!({"content": [text("it is broken".into())], "isError": true})),
        "blank" => Ok(json!({"content": [text(" \n".into())]})),
        "refuse" => Err(json!({"code": -32001, "message": "not today", "data": {"why": 1}})),
        "long" => Ok(json!({"content": vec![text("word".repeat(60)); 3]})),
        "rows" => {
            let count = params["arguments"]["count"].as_u64().unwrap_or_default();
            let row =
                |n| json!({"id": n, "team": format!("team {}", n % 7), "amount": n % 100, "note": "a row"});
            let rows: Vec<_> = (0..count).map(row).collect();
            Ok(json!({"content": [text(Value::from(rows).to_string())]}))
        }
        "content" => Ok(json!({"content": params["arguments"]["content"]})),
        _ => {
            let mut result = json!({"content": [text(params.to_string())], "x-vendor": {"kept": true}});
            if let Some(structured) = params["arguments"].get("structured") {
                result["structuredContent"] = structured.clone();
            }
            Ok(result)
        }
    }
}

/// Allows everything but calls of one tool.
#[derive(Debug)]
pub struct DenyTool(&'static str);

impl DenyTool {
    /// The policy that denies the tool with this listed name.
    pub fn named(tool: &'static str) -> Arc<dyn Policy> {
        Arc::new(DenyTool(tool))
    }
}

impl Policy for DenyTool {
    fn decide(&self, request: &AccessRequest<'_>) -> Decision {
        let policy = PolicyId::new("deny-tool");
        match request.item.tool() {
            Some(tool) if tool.name == self.0 => Decision::Deny { policy },
            _ => Decision::Allow { policy },
        }
    }
}
