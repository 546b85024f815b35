//! Requests during which the server asks for input, answered in the form of the era of the client.

use futures::StreamExt as _;
use reqwest::Response;
use reqwest::header::ACCEPT;
use serde_json::{Value, json};

use crate::{Client, HttpAnswer, WAIT_TIMEOUT};

/// Answers a question by method and parameters: with a result, or with an error object under `error`.
pub type User<'a> = &'a dyn Fn(&str, &Value) -> Value;

/// Messages of an event stream, read one by one.
pub struct Messages {
    response: std::pin::Pin<Box<dyn futures::Stream<Item = Vec<u8>> + Send>>,
    read: String,
    /// The id of the last event that had one.
    pub last_id: Option<String>,
}

impl Messages {
    /// Reads the messages of a response; one JSON document counts as a stream of one event.
    pub fn of(response: Response) -> Self {
        let kind = response.headers().get("content-type");
        let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let chunks = response.bytes_stream().map(|chunk| chunk.expect("a chunk").to_vec());
        let response: std::pin::Pin<Box<dyn futures::Stream<Item = Vec<u8>> + Send>> = if is_stream {
            chunks.boxed()
        } else {
            let end = futures::stream::once(std::future::ready(b"\n\n".to_vec()));
            futures::stream::once(std::future::ready(b"data: ".to_vec())).chain(chunks).chain(end).boxed()
        };
        Self { response, read: String::new(), last_id: None }
    }

    /// Returns the next message; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Value> {
        let read = async {
            loop {
                while let Some((event, rest)) = self.read.split_once("\n\n") {
                    let data: String = event.lines().filter_map(|line| line.strip_prefix("data:")).collect();
                    let id = event.lines().find_map(|line| line.strip_prefix("id: ")).map(ToOwned::to_owned);
                    let rest = rest.to_owned();
                    self.read = rest;
                    self.last_id = id.or(self.last_id.take());
                    if !data.trim().is_empty() {
                        return Some(serde_json::from_str(&data).expect("JSON in an event"));
                    }
                }
                let chunk = self.response.next().await?;
                // Lines of events end with LF or CRLF; JSON has neither inside.
                self.read.push_str(&String::from_utf8_lossy(&chunk).replace('\r', ""));
            }
        };
        tokio::time::timeout(WAIT_TIMEOUT, read).await.expect("a message in time")
    }
}

impl Messages {
    /// Waits until an event has had an id, and returns it.
    pub async fn next_id(&mut self) -> String {
        while self.last_id.is_none() {
            let chunk =
                tokio::time::timeout(WAIT_TIMEOUT, self.response.next()).await.expect("an event in time");
            self.read.push_str(&String::from_utf8_lossy(&chunk.expect("an event with an id")));
            let id = self.read.lines().rev().find_map(|line| line.strip_prefix("id: "));
            self.last_id = id.map(ToOwned::to_owned);
        }
        self.last_id.clone().unwrap_or_default()
    }
}

impl Client {
    /// Resumes a stream of a legacy session behind the event with this id.
    pub async fn resume(&self, last_id: &str) -> Response {
        let get = self.http.get(&self.url).header(ACCEPT, "text/event-stream");
        let get = get.header("mcp-protocol-version", &self.revision).header("last-event-id", last_id);
        get.header("mcp-session-id", self.session.clone().unwrap_or_default())
            .send()
            .await
            .expect("an answer")
    }

    /// Answers a request of the server.
    pub async fn reply(&self, id: &Value, said: &Value) -> Response {
        let mut message = json!({"jsonrpc": "2.0", "id": id});
        match said.get("error") {
            Some(error) => message["error"] = error.clone(),
            None => message["result"] = said.clone(),
        }
        self.post("", &json!({}), &message.to_string()).send().await.expect("an HTTP answer")
    }

    /// Sends a request and answers the questions of the server until it asks no more. Returns the answer, and
    /// the questions as `[method, params]`.
    pub async fn converse(&self, method: &str, params: Value, user: User<'_>) -> (HttpAnswer, Vec<Value>) {
        if self.session.is_some() {
            return self.converse_on_stream(method, params, user).await;
        }
        let (mut asked, mut repeated) = (Vec::new(), params.clone());
        loop {
            let answer = self.request(method, repeated.clone()).await;
            if answer.message["result"]["resultType"] != "input_required" {
                return (answer, asked);
            }
            let mut responses = json!({});
            for (key, question) in answer.result()["inputRequests"].as_object().into_iter().flatten() {
                let method = question["method"].as_str().expect("a method");
                asked.push(json!([method, question["params"]]));
                responses[key] = user(method, &question["params"]);
            }
            repeated = params.clone();
            repeated["inputResponses"] = responses;
            if let Some(state) = answer.result().get("requestState") {
                repeated["requestState"] = state.clone();
            }
        }
    }

    async fn converse_on_stream(
        &self,
        method: &str,
        params: Value,
        user: User<'_>,
    ) -> (HttpAnswer, Vec<Value>) {
        let response = self.open(method, params).await;
        let (status, headers) = (response.status(), response.headers().clone());
        let mut messages = Messages::of(response);
        let (mut asked, mut notifications) = (Vec::new(), Vec::new());
        while let Some(message) = messages.next().await {
            match (message.get("method").and_then(Value::as_str), message.get("id")) {
                (Some(method), Some(id)) => {
                    asked.push(json!([method, message["params"]]));
                    let replied = self.reply(id, &user(method, &message["params"])).await;
                    assert_eq!(replied.status(), 202, "{method}: {:?}", replied.text().await);
                }
                (Some(_), None) => notifications.push(message),
                (None, _) => {
                    let text = message.to_string();
                    return (HttpAnswer { status, headers, text, message, notifications }, asked);
                }
            }
        }
        panic!("the stream ended without an answer");
    }
}
