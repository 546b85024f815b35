//! [`FakeModel`]: a language model that always gives the same answer.

use std::sync::Arc;

use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A service with `/v1/chat/completions` that gives one answer, and the prompts that it got.
#[derive(Clone, Default)]
pub struct FakeModel {
    /// `None`: status 500.
    answer: Option<String>,
    prompts: Arc<Mutex<Vec<String>>>,
    /// Base URL, with the version.
    pub url: String,
}

impl FakeModel {
    /// A service that gives this answer; `None`: status 500.
    pub async fn start(answer: Option<&str>) -> FakeModel {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let model = FakeModel { answer: answer.map(str::to_owned), url, ..FakeModel::default() };
        let app = axum::Router::new().route("/v1/chat/completions", post(complete)).with_state(model.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        model
    }

    /// The prompts that it got.
    pub fn prompts(&self) -> Vec<String> {
        self.prompts.lock().clone()
    }

    /// Number of tools in each prompt, of a server called `s`.
    pub fn offered(&self) -> Vec<usize> {
        let tools = |prompt: &String| prompt.lines().filter(|line| line.starts_with("- s_")).count();
        self.prompts.lock().iter().map(tools).collect()
    }
}

async fn complete(State(model): State<FakeModel>, Json(body): Json<Value>) -> (StatusCode, Json<Value>) {
    assert_eq!(body["model"], "small");
    model.prompts.lock().push(body["messages"][1]["content"].as_str().unwrap().to_owned());
    match model.answer {
        Some(answer) => (StatusCode::OK, Json(json!({"choices": [{"message": {"content": answer}}]}))),
        None => (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({}))),
    }
}
