//! Large answers reach their client while they arrive, whatever eras and forms meet.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use futures::StreamExt as _;
use futures::stream::{self, Stream};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use vmcp_integration::{Vmcp, WAIT_TIMEOUT, eventually};

/// Bytes of the text in the answer: half of them come at once, the others when the test lets them.
const TEXT_BYTES: usize = 2 << 20;

/// A backend that stops in the middle of its answers.
#[derive(Clone)]
struct Halting {
    era: &'static str,
    events: bool,
    /// A permit for each answer that may be ended.
    go_on: Arc<Semaphore>,
    ending: &'static str,
}

impl Halting {
    async fn start(era: &'static str, events: bool, ending: &'static str) -> (Self, String) {
        let halting = Self { era, events, go_on: Arc::new(Semaphore::new(0)), ending };
        let router = Router::new().route("/mcp", post(answer)).with_state(halting.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move { axum::serve(listener, router).await });
        (halting, format!("http://{address}/mcp"))
    }

    /// Yields half of an answer, waits, and yields the rest.
    fn call(&self, id: &Value) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
        let kind = if self.era == "modern" { "\"resultType\":\"complete\"," } else { "" };
        let half = "x".repeat(TEXT_BYTES / 2);
        let (before, after) = if self.events { ("data: ", "\n\n") } else { ("", "") };
        let begin = format!(
            r#"{before}{{"jsonrpc":"2.0","id":{id},"result":{{{kind}"content":[{{"type":"text","text":"{half}"#
        );
        let end = format!("{half}{}{after}", self.ending);
        let go_on = Arc::clone(&self.go_on);
        let end = async move {
            go_on.acquire().await.expect("open").forget();
            Ok(Bytes::from(end))
        };
        stream::once(async { Ok(Bytes::from(begin)) }).chain(stream::once(end))
    }
}

async fn answer(State(halting): State<Halting>, body: String) -> Response {
    let message: Value = serde_json::from_str(&body).expect("JSON");
    let result = match (message["method"].as_str().unwrap_or_default(), halting.era) {
        ("server/discover", "modern") => {
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "halting", "version": "1"}})
        }
        ("initialize", "legacy") => {
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "halting", "version": "1"}})
        }
        ("notifications/initialized", _) => return StatusCode::ACCEPTED.into_response(),
        ("tools/list", _) => {
            json!({"resultType": "complete", "tools": [{"name": "large", "inputSchema": {"type": "object"}}]})
        }
        ("tools/call", _) => {
            let kind = if halting.events { "text/event-stream" } else { "application/json" };
            let body = Body::from_stream(halting.call(&message["id"]));
            return ([(header::CONTENT_TYPE, kind)], body).into_response();
        }
        (method, _) => {
            let error = json!({"code": -32601, "message": format!("method not found: {method}")});
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
            return (StatusCode::NOT_FOUND, axum::Json(answer)).into_response();
        }
    };
    axum::Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}

/// The end of a whole answer.
const WHOLE: &str = r#""}]}}"#;

#[tokio::test]
async fn a_large_answer_flows_through_in_all_pairings() {
    for era in ["modern", "legacy"] {
        for events in [false, true] {
            let (backend, url) = Halting::start(era, events, WHOLE).await;
            let entry = json!({"name": "halting", "transport": "streamable-http", "url": url});
            let vmcp = Vmcp::new().backend_entry(entry).start().await;
            vmcp.with_tool("halting_large").await;
            for client in [vmcp.modern(), vmcp.legacy().await] {
                for (tool, arguments) in [
                    ("halting_large", json!({})),
                    ("optim_call_tool", json!({"tool_name": "halting_large", "parameters": {}})),
                ] {
                    let call = client.open("tools/call", json!({"name": tool, "arguments": arguments}));
                    let response = timeout(WAIT_TIMEOUT, call).await.expect("the head in time");
                    let mut body = response.bytes_stream();
                    let mut text = Vec::new();
                    while text.len() < TEXT_BYTES / 4 {
                        let piece = timeout(WAIT_TIMEOUT, body.next()).await.expect("the beginning in time");
                        text.extend_from_slice(&piece.expect("more").expect("bytes"));
                    }
                    backend.go_on.add_permits(1);
                    while let Some(piece) = timeout(WAIT_TIMEOUT, body.next()).await.expect("the end in time")
                    {
                        text.extend_from_slice(&piece.expect("bytes"));
                    }
                    let text = String::from_utf8(text).expect("UTF-8");
                    let message = text.strip_prefix("data: ").unwrap_or(&text);
                    let message: Value = serde_json::from_str(message).expect("one whole answer");
                    let content = message["result"]["content"][0]["text"].as_str().expect("a text");
                    assert_eq!(content.len(), TEXT_BYTES, "{era} {events} {tool}");
                }
            }
            assert_eq!(vmcp.metric("vmcp_answers_broken_off_total").await, 0);
        }
    }
}

#[tokio::test]
async fn an_answer_that_turns_out_wrong_breaks_off() {
    for ending in ["\u{1}", r#""}],"resultType":"task"}}"#, r#""}],}}"#] {
        let (backend, url) = Halting::start("modern", false, ending).await;
        backend.go_on.add_permits(100);
        let entry = json!({"name": "halting", "transport": "streamable-http", "url": url});
        let telemetry = json!({"telemetry": {"endpoint": "http://127.0.0.1:9", "samplingRate": "1.0"}});
        let vmcp = Vmcp::new().backend_entry(entry).config(telemetry).start().await;
        let client = vmcp.with_tool("halting_large").await;
        let response = client.open("tools/call", json!({"name": "halting_large", "arguments": {}})).await;
        assert!(response.bytes().await.is_err(), "no client takes it for a whole answer");
        assert_eq!(vmcp.metric("vmcp_answers_broken_off_total").await, 1, "{ending:?}");
        assert_eq!(
            vmcp.metric("vmcp_backend_calls_total{backend=\"halting\",outcome=\"protocol\"}").await,
            1
        );
        let line = eventually("the log line", async || {
            let output = vmcp.process.output();
            output.lines().find(|line| line.contains("an answer broke off")).map(str::to_owned)
        })
        .await;
        assert!(line.contains("\"trace_id\":"), "a line of the request: {line}");
    }
}
