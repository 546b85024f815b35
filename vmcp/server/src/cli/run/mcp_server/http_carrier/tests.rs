//! Tests of the carrier, against endpoints that answer by a rule.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;

/// Status, headers and body of an answer.
type Reply = (u16, Vec<(&'static str, &'static str)>, String);

const JSON: (&str, &str) = ("content-type", "application/json");
const EVENTS: (&str, &str) = ("content-type", "text/event-stream");
const SESSION: (&str, &str) = ("mcp-session-id", "s-1");

/// One client at an endpoint.
struct Client {
    to_server: mpsc::Sender<Bytes>,
    from_server: mpsc::Receiver<Bytes>,
    run: JoinHandle<()>,
}

impl Client {
    async fn new(reply: fn(&Method, &HeaderMap, &Value) -> Reply) -> Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let answer = move |method: Method, headers: HeaderMap, body: String| async move {
            let message = serde_json::from_str(&body).unwrap_or_default();
            let (status, head, body) = reply(&method, &headers, &message);
            let mut answer = Response::new(Body::from(body));
            *answer.status_mut() = StatusCode::from_u16(status).unwrap();
            for (name, value) in head {
                answer.headers_mut().insert(name, HeaderValue::from_static(value));
            }
            answer
        };
        let router = axum::Router::new().fallback(answer);
        tokio::spawn(async move { axum::serve(listener, router).await });
        let (to_server, lines) = mpsc::channel(8);
        let (incoming, from_server) = mpsc::channel(8);
        let carrier = HttpCarrier::new(url, Some(Secret::from("key-1")), incoming).unwrap();
        Client { to_server, from_server, run: tokio::spawn(carrier.run(lines)) }
    }

    async fn say(&self, message: Value) {
        self.to_server.send(message.to_string().into()).await.unwrap();
    }

    /// Returns the next line of the server; `None` once the connection has ended.
    async fn hear(&mut self) -> Option<Value> {
        let line = timeout(Duration::from_secs(10), self.from_server.recv()).await.expect("a line in time");
        line.map(|line| {
            assert!(!line.contains(&b'\n'), "one line");
            serde_json::from_slice(&line).unwrap()
        })
    }

    async fn ask(&mut self, id: u64, method: &str, params: Value) -> Option<Value> {
        self.say(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        self.hear().await
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
}

fn answer(message: &Value, result: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string()
}

/// A legacy server: each message behind `initialize` must name session and revision.
fn legacy(method: &Method, headers: &HeaderMap, message: &Value) -> Reply {
    assert_eq!(header(headers, "authorization"), "Bearer key-1");
    if message["method"] == "initialize" {
        let body = answer(message, &json!({ "protocolVersion": "2025-06-18" }));
        return (200, vec![JSON, SESSION], body.replacen(',', ",\n", 1));
    }
    let session = (header(headers, "mcp-session-id"), header(headers, "mcp-protocol-version"));
    assert_eq!(session, ("s-1", "2025-06-18"), "{message}");
    match (method, message["method"].as_str()) {
        (&Method::GET, _) => {
            let pushed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
            (200, vec![EVENTS], format!("id: 7\ndata: {pushed}\n\n"))
        }
        (_, Some("tools/call")) => {
            let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": {} });
            (
                200,
                vec![EVENTS],
                format!("data: {progress}\n\ndata: {}\n\n", answer(message, &json!({ "ok": true }))),
            )
        }
        (_, Some("tools/list")) => (404, vec![], "no such session".to_owned()),
        _ => (202, vec![], String::new()),
    }
}

#[tokio::test]
async fn a_legacy_session_goes_through_with_its_headers_and_ends_with_its_loss() {
    let mut client = Client::new(legacy).await;
    let opened = client.ask(0, "initialize", json!({ "protocolVersion": "2025-06-18" })).await.unwrap();
    assert_eq!(opened["result"]["protocolVersion"], "2025-06-18");
    let progress = client.ask(1, "tools/call", json!({ "name": "x" })).await.unwrap();
    assert_eq!(progress["method"], "notifications/progress", "events arrive before the answer");
    assert_eq!(client.hear().await.unwrap()["result"]["ok"], true);
    client.say(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    assert_eq!(client.hear().await.unwrap()["method"], "notifications/tools/list_changed", "pushed");
    client.say(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" })).await;
    // Pushed messages may come first.
    while client.hear().await.is_some() {}
    client.run.await.unwrap();
}

/// A modern server, whose tool wants an argument as a header.
fn modern(_: &Method, headers: &HeaderMap, message: &Value) -> Reply {
    if header(headers, "mcp-method") != message["method"] {
        return (
            400,
            vec![JSON],
            json!({ "jsonrpc": "2.0", "error": { "code": -32001, "message": "m" } }).to_string(),
        );
    }
    if message["method"] == "tools/list" {
        let schema = json!({ "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
        } });
        return (
            200,
            vec![JSON],
            answer(message, &json!({ "tools": [{ "name": "x", "inputSchema": schema }] })),
        );
    }
    let seen = json!({ "name": header(headers, "mcp-name"), "region": header(headers, "mcp-param-region") });
    (200, vec![JSON], answer(message, &seen))
}

#[tokio::test]
async fn a_modern_request_has_the_headers_that_its_body_asks_for() {
    let mut client = Client::new(modern).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": vmcp_wire::era::Revision::MODERN.as_str(),
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
    });
    client.ask(1, "tools/list", json!({ "_meta": meta })).await.unwrap();
    let call = json!({ "name": "x", "arguments": { "region": "eu" }, "_meta": meta });
    let called = client.ask(2, "tools/call", call).await.unwrap();
    assert_eq!(called["result"], json!({ "name": "x", "region": "eu" }));
}

#[tokio::test]
async fn a_refusal_outside_of_the_protocol_becomes_an_error_with_what_to_do() {
    let mut client = Client::new(|_, _, _| (401, vec![], "no token".to_owned())).await;
    let refused = client.ask(1, "tools/list", json!({})).await.unwrap();
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(words.contains("401") && words.contains("no token") && words.contains("VMCP_TOKEN"), "{words}");
    assert_eq!(refused["id"], 1);
    drop(client.to_server);
    client.run.await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_gone_ends_the_connection() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (incoming, mut from_server) = mpsc::channel(8);
    let carrier = HttpCarrier::new("http://127.0.0.1:1/mcp".to_owned(), None, incoming).unwrap();
    let (to_server, lines) = mpsc::channel(8);
    to_server.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.into()).await.unwrap();
    timeout(Duration::from_secs(10), carrier.run(lines)).await.expect("an end");
    assert!(from_server.recv().await.is_none(), "the relay decides about the request");
}
