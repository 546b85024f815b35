//! [`ChatModel`]: a language model behind any service that answers `/v1/chat/completions`, such as vLLM,
//! Ollama or OpenAI. For ranking tools, beside their embeddings.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::EmbedError;
use crate::http::{HttpService, Patience};

/// The settings of a chat service. No `Debug`: they hold a credential.
#[derive(Clone)]
pub struct ChatSettings {
    /// Base URL, such as `https://api.openai.com` or `http://localhost:11434/v1`; `/v1` is added to
    /// a URL without a path.
    pub endpoint: String,
    /// The model's name as the service knows it.
    pub model: String,
    /// API key, sent as `Authorization: Bearer`.
    pub api_key: Option<String>,
    /// Timeout of one request.
    pub timeout: Duration,
}

/// A language model that answers one prompt.
pub struct ChatModel {
    service: HttpService,
    path: String,
    model: String,
}

#[derive(Serialize)]
struct ChatRequest<'a> {
    model: &'a str,
    messages: [Message<'a>; 2],
    temperature: f32,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Deserialize)]
struct ChatAnswer {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Reply,
}

#[derive(Deserialize)]
struct Reply {
    content: String,
}

impl ChatModel {
    /// Checks the settings; contacts nothing.
    pub fn new(settings: ChatSettings) -> Result<Self, EmbedError> {
        let ChatSettings { endpoint, model, api_key, timeout } = settings;
        let service = HttpService::new(&endpoint, &[], api_key.as_deref(), timeout)?;
        let path = match service.path() {
            "" => "/v1/chat/completions".to_owned(),
            path if path.ends_with("/completions") => path.to_owned(),
            path => format!("{path}/chat/completions"),
        };
        Ok(Self { service, path, model })
    }

    /// Returns the model's answer to a prompt. Asks once: the caller can rank without it.
    pub async fn ask(&self, system: &str, prompt: &str) -> Result<String, EmbedError> {
        let message = |role, content| Message { role, content };
        let messages = [message("system", system), message("user", prompt)];
        let body = ChatRequest { model: &self.model, messages, temperature: 0.0 };
        let body = serde_json::to_vec(&body).map_err(|error| EmbedError::Settings(error.to_string()))?;
        let answer = self.service.post(&self.path, Bytes::from(body), Patience::Once).await?;
        let answer: ChatAnswer = self.service.parse(&self.path, &answer)?;
        let first = answer.choices.into_iter().next();
        first
            .map(|choice| choice.message.content)
            .ok_or_else(|| self.service.bad_answer("it has no `choices`".to_owned()))
    }
}
