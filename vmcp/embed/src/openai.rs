//! The provider `openai`: any service that answers `/v1/embeddings`, such as vLLM, Ollama, OpenAI or TEI
//! itself.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::batch::{EmbeddingService, Lane, RequestLanes};
use crate::embedder::Embedder;
use crate::embedder::instructions::{Instructions, instructed};
use crate::error::EmbedError;
use crate::http::{HttpService, Patience};
use crate::vectors::answered_vector::AnsweredVector;

/// The settings of an OpenAI-compatible service. No `Debug`: they hold a credential.
#[derive(Clone)]
pub struct OpenAiSettings {
    /// Base URL, such as `https://api.openai.com` or `http://localhost:11434/v1`; `/v1` is added to
    /// a URL without a path.
    pub endpoint: String,
    /// The model's name as the service knows it.
    pub model: String,
    /// API key, sent as `Authorization: Bearer`.
    pub api_key: Option<String>,
    /// Headers sent with every request.
    pub headers: Vec<(String, String)>,
    /// Width of the vectors to ask for; only models trained for it can shorten theirs.
    pub dimensions: Option<usize>,
    /// Texts of one request.
    pub batch: usize,
    /// Timeout of one request.
    pub timeout: Duration,
}

impl OpenAiSettings {
    /// The model used if none is configured.
    pub const DEFAULT_MODEL: &str = "text-embedding-3-small";

    /// Settings with the defaults: no key, the model's own width, 64 texts and 30 s a request.
    pub fn new(endpoint: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            model: model.into(),
            api_key: None,
            headers: Vec::new(),
            dimensions: None,
            batch: 64,
            timeout: Duration::from_secs(30),
        }
    }
}

/// The provider `openai`.
pub struct OpenAiEmbedder {
    service: HttpService,
    path: String,
    model: String,
    dimensions: Option<usize>,
    batch: usize,
    instructions: Instructions,
    lanes: RequestLanes,
}

#[derive(Serialize)]
struct EmbeddingsRequest<'a> {
    model: &'a str,
    input: &'a [&'a str],
    encoding_format: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

#[derive(Deserialize)]
struct EmbeddingsAnswer {
    data: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    embedding: AnsweredVector,
    /// Some services leave it out, and answer in the order of the texts.
    index: Option<usize>,
}

impl OpenAiEmbedder {
    /// Checks the settings; contacts nothing.
    pub fn new(settings: OpenAiSettings) -> Result<Self, EmbedError> {
        let OpenAiSettings { endpoint, model, api_key, headers, dimensions, batch, timeout } = settings;
        if model.is_empty() {
            return Err(EmbedError::Settings("model is empty; name the one that the service has".to_owned()));
        }
        let service = HttpService::new(&endpoint, &headers, api_key.as_deref(), timeout)?;
        let path = match service.path() {
            "" => "/v1/embeddings".to_owned(),
            path if path.ends_with("/embeddings") => path.to_owned(),
            path => format!("{path}/embeddings"),
        };
        let instructions = Instructions::of_model(&model);
        let (batch, lanes) = (batch.max(1), RequestLanes::new());
        Ok(Self { service, path, model, dimensions, batch, instructions, lanes })
    }
}

#[async_trait]
impl EmbeddingService for OpenAiEmbedder {
    async fn request(&self, texts: &[&str], patience: Patience) -> Result<Vec<Vec<f32>>, EmbedError> {
        let Self { model, dimensions, .. } = self;
        let body =
            EmbeddingsRequest { model, input: texts, encoding_format: "float", dimensions: *dimensions };
        let body = serde_json::to_vec(&body).map_err(|error| EmbedError::Settings(error.to_string()))?;
        let answer = self.service.post(&self.path, Bytes::from(body), patience).await?;
        let EmbeddingsAnswer { mut data } = self.service.parse(&self.path, &answer)?;
        // The protocol allows any order; `index` tells which text a vector belongs to.
        if data.iter().any(|embedding| embedding.index.is_some()) {
            data.sort_by_key(|embedding| embedding.index);
            if data.iter().enumerate().any(|(at, embedding)| embedding.index != Some(at)) {
                return Err(self.bad_answer("its `index` values do not count from 0".to_owned()));
            }
        }
        let vectors: Vec<Vec<f32>> = data.into_iter().map(|embedding| embedding.embedding.0).collect();
        if let Some(wanted) = dimensions
            && let Some(other) = vectors.iter().find(|vector| vector.len() != *wanted)
        {
            let got = other.len();
            return Err(self.bad_answer(format!("{got} dimensions where `dimensions` asks for {wanted}")));
        }
        Ok(vectors)
    }

    fn bad_answer(&self, reason: String) -> EmbedError {
        self.service.bad_answer(reason)
    }
}

#[async_trait]
impl Embedder for OpenAiEmbedder {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let texts = instructed(self.instructions.passage, texts);
        self.lanes.embed(self, &texts, self.batch, Lane::Bulk).await
    }

    async fn embed_queries(&self, queries: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let queries = instructed(self.instructions.query, queries);
        self.lanes.embed(self, &queries, self.batch, Lane::Query).await
    }

    /// The id includes the endpoint: `default` or `embed` on two servers need not be one model, and embedding
    /// again after a move is cheap.
    async fn model_id(&self) -> Result<String, EmbedError> {
        let Self { service, model, dimensions, instructions, .. } = self;
        let width = dimensions.map(|dimensions| format!("#{dimensions}")).unwrap_or_default();
        Ok(format!("openai/{}/{model}{width}{}", service.endpoint, instructions.mark()))
    }

    fn batch_size(&self) -> usize {
        self.lanes.bulk_batch(self.batch)
    }
}

#[cfg(test)]
mod tests;
