//! [`FakeModel`]: a language model that gives prepared answers.

use std::sync::Arc;

use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A service with `/v1/chat/completions` that gives its answers in turn, the last one again and again, and
/// the prompts that it got.
#[derive(Clone, Default)]
pub struct FakeModel {
    /// None: status 500.
    answers: Vec<String>,
    prompts: Arc<Mutex<Vec<String>>>,
    /// Base URL, with the version.
    pub url: String,
}

impl FakeModel {
    /// A service that gives this answer; `None`: status 500.
    pub async fn start(answer: Option<&str>) -> FakeModel {
        FakeModel::start_with(answer.as_slice()).await
    }

    /// A service that gives these answers in turn; none: status 500.
    pub async fn start_with(answers: &[&str]) -> FakeModel {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let model = FakeModel {
            answers: answers.iter().map(|&answer| answer.to_owned()).collect(),
            url,
            ..FakeModel::default()
        };
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
    let number = {
        let mut prompts = model.prompts.lock();
        prompts.push(body["messages"][1]["content"].as_str().unwrap().to_owned());
        prompts.len() - 1
    };
    match model.answers.get(number).or(model.answers.last()) {
        Some(answer) => (StatusCode::OK, Json(json!({"choices": [{"message": {"content": answer}}]}))),
        None => (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({}))),
    }
}
