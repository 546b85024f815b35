//! The provider `tei`: HuggingFace text-embeddings-inference. Vectors come from `POST /embed`, limits and
//! model from `GET /info`.

pub mod rerank;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::batch::{EmbeddingService, Lane, RequestLanes};
use crate::embedder::Embedder;
use crate::embedder::instructions::{Instructions, instructed};
use crate::error::EmbedError;
use crate::http::{HttpService, Patience};
use crate::vectors::answered_vector::AnsweredVector;

/// The settings of a TEI service. No `Debug`: headers may carry credentials.
#[derive(Clone)]
pub struct TeiSettings {
    /// Base URL, for example `http://tei.default.svc:8080`.
    pub endpoint: String,
    /// The model that is expected there. The service's own statement counts; a difference is logged.
    pub model: Option<String>,
    /// Headers sent with every request, for example an `Authorization`.
    pub headers: Vec<(String, String)>,
    /// Timeout of one request.
    pub timeout: Duration,
    /// Age at which the service's description of itself is asked for again.
    pub info_ttl: Duration,
}

impl TeiSettings {
    /// Settings with the defaults: no headers, 30 s a request, a swapped model noticed within 10 s.
    pub fn new(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            model: None,
            headers: Vec::new(),
            timeout: Duration::from_secs(30),
            info_ttl: Duration::from_secs(10),
        }
    }
}

/// Time that a known service has for its description. Queries wait for it, within a deadline of 2 s.
const INFO_PATIENCE: Duration = Duration::from_secs(1);
/// TEI's default of `max_client_batch_size`, used until `/info` tells it.
const DEFAULT_BATCH: usize = 32;
/// TEI's default of `max_concurrent_requests`, used until `/info` tells it.
const DEFAULT_CONCURRENT: usize = 512;

/// The provider `tei`.
pub struct TeiEmbedder {
    service: HttpService,
    expected_model: Option<String>,
    info_ttl: Duration,
    /// The last description of the service. An async mutex: it is held while the service is asked, which
    /// makes concurrent callers wait for one answer (single flight).
    info: Mutex<Option<CachedInfo>>,
    /// The last known batch size, readable without the lock.
    batch: AtomicUsize,
    lanes: RequestLanes,
}

/// A description, and the time of the last question for it; `None`: the next caller asks.
struct CachedInfo {
    info: TeiInfo,
    asked: Option<Instant>,
}

/// The parts of `/info` that matter here. An old or imitated service may lack any of them.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct TeiInfo {
    model_id: Option<String>,
    model_sha: Option<String>,
    model_dtype: Option<String>,
    /// `{"embedding": {"pooling": …}}`, or another kind of model.
    #[serde(default)]
    model_type: Value,
    max_client_batch_size: Option<usize>,
    max_concurrent_requests: Option<usize>,
}

impl TeiInfo {
    /// Returns the name of the model with everything by which the service tells two of that name apart:
    /// `model@revision#dtype,pooling`. `model_sha` repeats the argument `--revision`, null by default.
    fn model(&self) -> Option<String> {
        let mut model = self.model_id.clone()?;
        if let Some(sha) = &self.model_sha {
            model.push('@');
            model.push_str(sha);
        }
        let pooling = self.model_type.pointer("/embedding/pooling").and_then(Value::as_str);
        let details: Vec<_> = [self.model_dtype.as_deref(), pooling].into_iter().flatten().collect();
        if !details.is_empty() {
            model.push('#');
            model.push_str(&details.join(","));
        }
        Some(model)
    }

    /// Returns the batch size to use. TEI counts permits per text, not per request: a batch larger than
    /// `max_concurrent_requests` can never succeed, and a quarter of it leaves room for others.
    pub(crate) fn batch(&self) -> usize {
        let concurrent = self.max_concurrent_requests.unwrap_or(DEFAULT_CONCURRENT);
        self.max_client_batch_size.unwrap_or(DEFAULT_BATCH).min(concurrent / 4).max(1)
    }
}

#[derive(Serialize)]
struct EmbedRequest<'a> {
    inputs: &'a [&'a str],
    truncate: bool,
}

impl TeiEmbedder {
    /// Checks the settings; contacts nothing.
    pub fn new(settings: TeiSettings) -> Result<Self, EmbedError> {
        let TeiSettings { endpoint, model, headers, timeout, info_ttl } = settings;
        Ok(Self {
            service: HttpService::new(&endpoint, &headers, None, timeout)?,
            expected_model: model,
            info_ttl,
            info: Mutex::new(None),
            batch: DEFAULT_BATCH.into(),
            lanes: RequestLanes::new(),
        })
    }

    /// Returns the service's description of itself, at most `info_ttl` old; the last one while the service
    /// does not answer or answers something else, because the request for vectors shows soon enough whether
    /// it works. Concurrent callers ask once (single flight).
    async fn info(&self) -> Result<TeiInfo, EmbedError> {
        let mut cached = self.info.lock().await;
        if let Some(CachedInfo { info, asked: Some(asked) }) = cached.as_ref()
            && asked.elapsed() < self.info_ttl
        {
            return Ok(info.clone());
        }
        let answered = if cached.is_some() {
            timeout(INFO_PATIENCE, self.ask_info()).await.unwrap_or_else(|_| {
                let endpoint = self.service.endpoint.clone();
                Err(EmbedError::Timeout { endpoint, after: INFO_PATIENCE })
            })
        } else {
            self.ask_info().await
        };
        let info = match (answered, cached.as_mut()) {
            (Ok(info), _) => info,
            (Err(error), Some(known)) => {
                tracing::debug!(%error, "GET /info failed; the last description is used");
                known.asked = Some(Instant::now());
                return Ok(known.info.clone());
            }
            // Imitations of TEI have no description, or a page for every path.
            (Err(EmbedError::Status { status: 404 | 405, .. } | EmbedError::Answer { .. }), None) => {
                TeiInfo::default()
            }
            (Err(error), None) => return Err(error),
        };
        if cached.as_ref().is_none_or(|before| before.info.model() != info.model()) {
            self.log_model(&info);
        }
        self.batch.store(info.batch(), Ordering::Relaxed);
        *cached = Some(CachedInfo { info: info.clone(), asked: Some(Instant::now()) });
        Ok(info)
    }

    async fn ask_info(&self) -> Result<TeiInfo, EmbedError> {
        let body = self.service.get(&format!("{}/info", self.path())).await?;
        self.service.parse("/info", &body)
    }

    /// Returns the path that `/embed` and `/info` are added to, also if the endpoint names `/embed` itself.
    fn path(&self) -> &str {
        let path = self.service.path();
        path.strip_suffix("/embed").unwrap_or(path)
    }

    /// Returns the instructions of the service's model. The configured name counts where the service has a
    /// path in place of a name.
    fn instructions(&self, info: &TeiInfo) -> Instructions {
        let own = info.model_id.as_deref();
        let is_a_path = own.is_none_or(|own| own.starts_with('/'));
        let names = [own, self.expected_model.as_deref().filter(|_| is_a_path)];
        let mut known = names.into_iter().flatten().map(Instructions::of_model);
        known.find(|known| *known != Instructions::default()).unwrap_or_default()
    }

    async fn embed_in(&self, lane: Lane, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let info = self.info().await?;
        let instructions = self.instructions(&info);
        let instruction = if lane == Lane::Query { instructions.query } else { instructions.passage };
        let texts = instructed(instruction, texts);
        let vectors = self.lanes.embed(self, &texts, info.batch(), lane).await;
        if vectors.is_err()
            && let Some(known) = self.info.lock().await.as_mut()
        {
            // A service that comes back may have another model: it is asked again before the next texts are
            // sent.
            known.asked = None;
        }
        vectors
    }

    /// Logs the model of the service, and warns if it is not the configured one.
    fn log_model(&self, info: &TeiInfo) {
        let model = info.model_id.as_deref().unwrap_or("unnamed");
        let endpoint = &self.service.endpoint;
        match &self.expected_model {
            Some(expected) if expected != model => {
                tracing::warn!(%endpoint, model, expected, "embedding service has another model than configured; its own is used");
            }
            _ => tracing::info!(%endpoint, model, "embedding service answers"),
        }
    }
}

#[async_trait]
impl EmbeddingService for TeiEmbedder {
    async fn request(&self, texts: &[&str], patience: Patience) -> Result<Vec<Vec<f32>>, EmbedError> {
        let body = serde_json::to_vec(&EmbedRequest { inputs: texts, truncate: true })
            .map_err(|error| EmbedError::Settings(error.to_string()))?;
        let path = format!("{}/embed", self.path());
        let answer = self.service.post(&path, Bytes::from(body), patience).await?;
        let vectors: Vec<AnsweredVector> = self.service.parse("/embed", &answer)?;
        Ok(vectors.into_iter().map(|AnsweredVector(values)| values).collect())
    }

    fn bad_answer(&self, reason: String) -> EmbedError {
        self.service.bad_answer(reason)
    }
}

#[async_trait]
impl Embedder for TeiEmbedder {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.embed_in(Lane::Bulk, texts).await
    }

    async fn embed_queries(&self, queries: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.embed_in(Lane::Query, queries).await
    }

    async fn model_id(&self) -> Result<String, EmbedError> {
        let info = self.info().await?;
        let model = info.model().or_else(|| self.expected_model.clone());
        let mark = self.instructions(&info).mark();
        Ok(format!("tei/{}{mark}", model.as_deref().unwrap_or("unnamed")))
    }

    fn batch_size(&self) -> usize {
        self.lanes.bulk_batch(self.batch.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests;
