//! [`HttpAnswer`]: a response over HTTP, read to its end.

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::Value;

/// A response to a request, read to its end.
#[derive(Debug)]
pub struct HttpAnswer {
    /// The HTTP status.
    pub status: StatusCode,
    /// The HTTP headers.
    pub headers: HeaderMap,
    /// The response message as it was sent.
    pub text: String,
    /// The response message, parsed; null when the body is not JSON.
    pub message: Value,
    /// Notifications that came before it on its stream.
    pub notifications: Vec<Value>,
}

impl HttpAnswer {
    /// Reads a whole body: one JSON document, or a stream of events that ends.
    pub async fn read(response: reqwest::Response) -> Self {
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.text().await.expect("a whole body");
        let is_stream = headers
            .get("content-type")
            .is_some_and(|kind| kind.to_str().is_ok_and(|kind| kind.starts_with("text/event-stream")));
        let mut messages: Vec<String> =
            if is_stream { events(&body.replace('\r', "")).collect() } else { vec![body] };
        let text = messages.pop().unwrap_or_default();
        let message = serde_json::from_str(&text).unwrap_or_default();
        let notifications = messages.iter().map(|text| serde_json::from_str(text).expect("JSON in an event"));
        Self { status, headers, message, notifications: notifications.collect(), text }
    }

    /// Returns the result; fails the test without one.
    pub fn result(&self) -> &Value {
        self.message.get("result").unwrap_or_else(|| panic!("no result: {} {}", self.status, self.text))
    }

    /// Returns the JSON-RPC error; fails the test without one.
    pub fn error(&self) -> &Value {
        self.message.get("error").unwrap_or_else(|| panic!("no error: {} {}", self.status, self.text))
    }

    /// Returns true for a tool result with `isError`.
    pub fn is_tool_error(&self) -> bool {
        self.result()["isError"] == Value::Bool(true)
    }

    /// Returns true for a JSON-RPC error and for a tool result with `isError`.
    pub fn is_failure(&self) -> bool {
        self.message["error"].is_object() || self.message["result"]["isError"] == Value::Bool(true)
    }

    /// Returns the text blocks of a tool result, one a line.
    pub fn content_text(&self) -> String {
        let blocks = self.result()["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
    }

    /// Returns the `structuredContent` of a tool result.
    pub fn structured(&self) -> &Value {
        &self.result()["structuredContent"]
    }
}

/// Returns the data of each event of a complete stream, without events that carry none.
fn events(body: &str) -> impl Iterator<Item = String> {
    body.split("\n\n").filter_map(|event| {
        let data = event.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim_start);
        let data = data.collect::<Vec<_>>().join("\n");
        (!data.is_empty()).then_some(data)
    })
}
