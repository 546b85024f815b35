//! Large results over HTTP: the envelope, every way of reading what is kept, owners, restarts, bounds.

use std::time::Duration;

use axum::Router;
use axum::extract::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use serde_json::{Value, json};
use vmcp_integration::{Client, HttpAnswer, Vmcp, VmcpBuilder};

const ALICE: &str = "alice-0123456789abcdef";
const BOB: &str = "bob-0123456789abcdef";

/// A backend whose tools answer with as many rows as asked for, or with a text of so many bytes.
async fn start_backend() -> Value {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let router = Router::new().route("/mcp", post(answer));
    tokio::spawn(async move { axum::serve(listener, router).await });
    json!({"name": "data", "transport": "streamable-http", "url": format!("http://{address}/mcp")})
}

async fn answer(Json(message): Json<Value>) -> Response {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let count = message["params"]["arguments"]["count"].as_u64().unwrap_or_default();
    let result = match (message["method"].as_str().unwrap_or_default(), &message["params"]["name"]) {
        ("initialize", _) => {
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "data", "version": "1"}})
        }
        ("notifications/initialized", _) => return StatusCode::ACCEPTED.into_response(),
        ("tools/list", _) => json!({"tools": [tool("rows"), tool("text")]}),
        ("tools/call", name) => {
            let row = |n| json!({"id": n, "name": format!("row {n}"), "value": n % 1000});
            let text = if name == "rows" {
                Value::from((0..count).map(row).collect::<Vec<_>>()).to_string()
            } else {
                "line of text\n".repeat(usize::try_from(count).expect("a size") / 13)
            };
            json!({"content": [{"type": "text", "text": text}]})
        }
        (method, _) => {
            return Json(json!({"jsonrpc": "2.0", "id": message["id"],
                "error": {"code": -32601, "message": format!("no {method}")}}))
            .into_response();
        }
    };
    Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}

async fn builder(large_results: Value) -> VmcpBuilder {
    let mut settings = json!({"enabled": true});
    for (key, value) in large_results.as_object().expect("settings") {
        settings[key] = value.clone();
    }
    let entry = |(subject, key): (&str, &str)| json!({"subject": subject, "key": key});
    let keys = [("alice", ALICE), ("bob", BOB)].map(entry);
    Vmcp::new().backend_entry(start_backend().await).config(json!({
        "optimizer": {"largeResults": settings},
        "incomingAuth": {"type": "apiKeys", "apiKeys": keys},
    }))
}

/// A client that sees the tools of the backend.
async fn ready(client: Client) -> Client {
    vmcp_integration::eventually("the tools to be listed", async || {
        client.tools().await.contains_key("data_rows").then_some(())
    })
    .await;
    client
}

fn envelope(answer: &HttpAnswer) -> Value {
    let text = answer.result()["content"][0]["text"].as_str().expect("a text");
    serde_json::from_str(text).expect("an envelope")
}

async fn rows(client: &Client, count: usize) -> String {
    let answer = client.call_found("data_rows", json!({ "count": count })).await;
    envelope(&answer)["result_ref"].as_str().expect("a reference").to_owned()
}

#[tokio::test]
async fn fifty_thousand_rows_are_an_envelope_in_both_eras_and_their_owners_alone() {
    let vmcp = builder(json!({})).await.start().await;
    let legacy = Client::legacy_bearing(&vmcp.url, ALICE).await;
    let bob = ready(vmcp.modern().bearing(BOB)).await;
    for client in [ready(vmcp.modern().bearing(ALICE)).await, legacy] {
        let answer = client.call_found("data_rows", json!({"count": 50_000})).await;
        assert!(answer.text.len() < 1_024 + 200, "with its JSON-RPC: {}", answer.text);
        assert!(answer.result()["content"].to_string().len() < 1_024);
        let told = envelope(&answer);
        let reference = told["result_ref"].as_str().expect("a reference");
        assert_eq!(told["rows"], 50_000);
        let operation = "Filter rows where value > 100 and return top 10";
        let arguments = json!({"data": reference, "operation": operation, "timeout": 30});
        let processed = client.call_tool("optim_process_large_dataset", arguments.clone()).await;
        assert_eq!(processed.structured()["processed_size"], 10, "{}", processed.text);
        let link = &answer.result()["content"][1]["uri"];
        let read = client.request("resources/read", json!({ "uri": link })).await;
        let text = read.result()["contents"][0]["text"].as_str().expect("a text");
        assert_eq!(serde_json::from_str::<Vec<Value>>(text).expect("rows").len(), 50_000);
        let refused = bob.call_tool("optim_process_large_dataset", arguments).await;
        assert!(
            refused.is_tool_error() && refused.text.contains("result_ref is unknown"),
            "{}",
            refused.text
        );
        assert!(bob.request("resources/read", json!({ "uri": link })).await.is_failure());
    }
    assert_eq!(vmcp.metric("vmcp_large_results_total").await, 2);
}

#[tokio::test]
async fn results_outlive_a_restart_with_session_keys_and_their_time_passes() {
    let keys = json!({"server": {"sessionKeys": ["a key of this test, long enough"]}});
    let mut vmcp = builder(json!({"ttl": "20s"})).await.config(keys).start().await;
    let client = ready(vmcp.modern().bearing(ALICE)).await;
    let reference = rows(&client, 2_000).await;
    vmcp.restart().await;
    let client = ready(vmcp.modern().bearing(ALICE)).await;
    let arguments = json!({"result_ref": reference, "path": "$[7].id"});
    let read = client.call_tool("optim_read_result", arguments.clone()).await;
    assert_eq!(read.structured()["value"], 7, "{}", read.text);
    vmcp_integration::eventually("the result to expire", async || {
        tokio::time::sleep(Duration::from_millis(500)).await;
        client.call_tool("optim_read_result", arguments.clone()).await.is_tool_error().then_some(())
    })
    .await;
}

#[tokio::test]
async fn fifty_megabytes_are_kept_and_the_cap_holds() {
    let bounds = json!({"maxBytesPerPrincipal": 60_000_000, "maxBytes": 80_000_000});
    let vmcp = builder(bounds).await.start().await;
    let client = ready(vmcp.modern().bearing(ALICE)).await;
    for _ in 0..3 {
        let answer = client.call_found("data_text", json!({"count": 50_000_000})).await;
        assert!(answer.text.len() < 1_300, "{}", answer.text.get(..2_000).unwrap_or(&answer.text));
    }
    assert_eq!(vmcp.metric("vmcp_kept_results").await, 1);
    assert!(vmcp.metric("vmcp_kept_results_bytes").await <= 60_000_000);
    assert_eq!(vmcp.metric("vmcp_kept_results_evicted_total").await, 2);
}
