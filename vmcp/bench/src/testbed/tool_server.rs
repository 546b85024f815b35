//! An MCP server of 2025-11-25 in this process, whose tools do as they are called.
//!
//! | tool | does |
//! |---|---|
//! | `wait {ms}` | waits, then answers |
//! | `echo {text}` | answers with the text |
//! | `rows {count}` | answers with so many rows, as JSON |

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// Names of the tools.
pub(crate) const TOOLS: [&str; 3] = ["wait", "echo", "rows"];

/// The server; ends when dropped.
pub(crate) struct ToolServer {
    /// Address of the endpoint.
    pub(crate) url: String,
    _serving: AbortOnDropHandle<()>,
}

impl ToolServer {
    /// Starts it at a free port.
    pub(crate) async fn start() -> Result<ToolServer> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/mcp", listener.local_addr()?);
        let serving = tokio::spawn(async move {
            // Serving ends when the task is aborted.
            let _ = axum::serve(listener, Router::new().route("/mcp", post(answer))).await;
        });
        Ok(ToolServer { url, _serving: AbortOnDropHandle::new(serving) })
    }
}

/// Returns rows of four fields as a JSON list, about 60 bytes a row.
pub(crate) fn rows(count: u64) -> String {
    let mut text = String::from("[");
    for id in 0..count {
        let comma = if id == 0 { "" } else { "," };
        let (team, amount) = (id % 7, id % 100);
        let _ =
            write!(text, r#"{comma}{{"id":{id},"team":"team {team}","amount":{amount},"note":"row {id}"}}"#);
    }
    text.push(']');
    text
}

async fn answer(Json(message): Json<Value>) -> Response {
    let Some(id) = message.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let argument = |name: &str| message.pointer(&format!("/params/arguments/{name}")).cloned();
    let number = |name: &str| argument(name).as_ref().and_then(Value::as_u64);
    let result = match message.get("method").and_then(Value::as_str).unwrap_or_default() {
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "bench", "version": "1"}}),
        "tools/list" => {
            let hints = json!({"readOnlyHint": true});
            let tool =
                |name: &str| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": hints});
            json!({"tools": TOOLS.map(tool)})
        }
        "tools/call" => {
            if let Some(pause) = number("ms") {
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            let text = match number("count") {
                Some(count) => json!(rows(count)),
                None => argument("text").unwrap_or_else(|| json!("waited")),
            };
            json!({"content": [{"type": "text", "text": text}]})
        }
        _ => {
            let error = json!({"code": -32601, "message": "method not found"});
            return Json(json!({"jsonrpc": "2.0", "id": id, "error": error})).into_response();
        }
    };
    Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_json_of_their_number() {
        for count in [0, 1, 1_000] {
            let parsed: Vec<Value> = serde_json::from_str(&rows(count)).unwrap();
            assert_eq!(parsed.len() as u64, count);
        }
    }
}
