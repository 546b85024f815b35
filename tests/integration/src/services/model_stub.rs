//! A stub of OpenAI's Responses API on loopback: the model of a real Codex, which says what the test wants.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use futures::StreamExt as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::{eventually, found_by};

/// Name of the variable with the key that Codex sends, which the stub does not look at.
pub const MODEL_KEY: &str = "STUB_KEY";

/// Returns the path of the real Codex, or the reason of its absence.
pub async fn codex_program() -> Result<PathBuf, String> {
    found_by("codex.sh").await.map(PathBuf::from)
}

/// One answer of the model.
#[derive(Debug, Clone)]
pub enum ModelAnswer {
    /// A message.
    Says(String),
    /// A call of a function. Codex keeps the tools of an MCP server in a namespace, `mcp__NAME`.
    Calls {
        /// The namespace; `None` for a function of Codex itself.
        namespace: Option<&'static str>,
        /// The function.
        name: &'static str,
        /// Its arguments.
        arguments: Value,
    },
    /// A stream that begins and never goes on.
    Hangs,
}

impl ModelAnswer {
    /// Writes the events of the answer.
    fn events(&self, number: usize) -> String {
        let item = match self {
            ModelAnswer::Says(text) => json!({
                "type": "message", "role": "assistant", "id": format!("msg_{number}"),
                "content": [{"type": "output_text", "text": text}],
            }),
            ModelAnswer::Calls { namespace, name, arguments } => {
                let mut call = json!({
                    "type": "function_call", "call_id": format!("call_{number}"), "name": name,
                    "arguments": arguments.to_string(),
                });
                if let Some(namespace) = namespace {
                    call["namespace"] = json!(namespace);
                }
                call
            }
            ModelAnswer::Hangs => return event(&created(number)),
        };
        let usage = json!({"input_tokens": 10, "input_tokens_details": null, "output_tokens": 4,
            "output_tokens_details": null, "total_tokens": 14});
        let id = format!("resp_{number}");
        [
            created(number),
            json!({"type": "response.output_item.done", "item": item}),
            json!({"type": "response.completed", "response": {"id": id, "usage": usage}}),
        ]
        .iter()
        .map(event)
        .collect()
    }
}

fn created(number: usize) -> Value {
    json!({"type": "response.created", "response": {"id": format!("resp_{number}")}})
}

fn event(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().expect("a type"))
}

/// Decides the answer to the last item of a request's input.
type Script = dyn Fn(&Value) -> ModelAnswer + Send + Sync;

#[derive(Clone)]
struct StubState {
    script: Arc<Script>,
    requests: Arc<Mutex<Vec<Value>>>,
}

/// The stub; ends when dropped.
pub struct ModelStub {
    url: String,
    state: StubState,
    serving: JoinHandle<()>,
}

impl ModelStub {
    /// Starts it. `script` gets the last item of each request's input: what the user said, or the output of
    /// the function that the model called.
    pub async fn start(script: impl Fn(&Value) -> ModelAnswer + Send + Sync + 'static) -> ModelStub {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let state = StubState { script: Arc::new(script), requests: Arc::default() };
        let routes = Router::new().route("/v1/responses", post(answer)).with_state(state.clone());
        let serving = tokio::spawn(async move {
            let _ended = axum::serve(listener, routes).await;
        });
        ModelStub { url, state, serving }
    }

    /// Returns the `config.toml` of a Codex with this model.
    pub fn codex_config(&self) -> String {
        format!(
            "model = \"stub-model\"\nmodel_provider = \"stub\"\n\n[model_providers.stub]\nname = \"stub\"\n\
             base_url = \"{}\"\nwire_api = \"responses\"\nenv_key = \"{MODEL_KEY}\"\n",
            self.url
        )
    }

    /// Returns the bodies of the requests so far.
    pub fn requests(&self) -> Vec<Value> {
        self.state.requests.lock().clone()
    }

    /// Waits until the last item of a request has `text`, and returns the body of the request.
    pub async fn asked(&self, text: &str) -> Value {
        eventually(&format!("`{text}` to reach the model"), async || {
            self.requests().into_iter().find(|request| last_item(request).to_string().contains(text))
        })
        .await
    }
}

impl Drop for ModelStub {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn last_item(request: &Value) -> Value {
    request["input"].as_array().and_then(|items| items.last()).cloned().unwrap_or_default()
}

async fn answer(State(state): State<StubState>, Json(request): Json<Value>) -> Response {
    let answer = (state.script)(&last_item(&request));
    let number = {
        let mut requests = state.requests.lock();
        requests.push(request);
        requests.len()
    };
    let events = Bytes::from(answer.events(number));
    let whole = futures::stream::once(std::future::ready(Ok::<_, Infallible>(events)));
    let body = if matches!(answer, ModelAnswer::Hangs) {
        Body::from_stream(whole.chain(futures::stream::pending()))
    } else {
        Body::from_stream(whole)
    };
    ([("content-type", "text/event-stream")], body).into_response()
}
