//! The provider `local`: a small model in this process. The table of models, their files, the means to obtain
//! them, and the embedder.

mod files;
mod graph;
mod loaded_model;
mod model_status;
mod models;
mod pull;
mod weights;
mod word_rows;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{OnceCell, Semaphore};

pub use model_status::{ModelStatus, model_status};
pub use models::{DIMENSIONS, LocalModel, MODELS};
pub use pull::{ModelSource, OnProgress, PullError, PullPhase, PullProgress, pull};

use crate::batch::Lane;
use crate::embedder::Embedder;
use crate::error::EmbedError;
use crate::vectors;
use loaded_model::{LoadedModel, Tokens};

/// The settings of a local model.
#[derive(Debug, Clone)]
pub struct LocalSettings {
    /// The model.
    pub model: &'static LocalModel,
    /// The model folder, filled by [`fn@pull`].
    pub model_dir: PathBuf,
    /// Threads for inference; `None` uses one a core, at most 4, because the process has other work.
    pub threads: Option<usize>,
}

impl LocalSettings {
    /// Settings for a model whose files are in `model_dir`, with threads by the machine.
    pub fn new(model: &'static LocalModel, model_dir: impl Into<PathBuf>) -> Self {
        Self { model, model_dir: model_dir.into(), threads: None }
    }
}

/// Padded tokens of one batch. Larger batches are not faster (9 CPU seconds for 500 tool texts at 512, 10 at
/// 2048) and hold 40 MB more; smaller ones end sooner when a call is abandoned.
const MAX_BATCH_TOKENS: usize = 512;
/// Texts of one batch, and the number that callers are told to hand over at a time.
const MAX_BATCH_TEXTS: usize = 32;

/// The provider `local`. It reads no file and holds no memory before its first text.
pub struct LocalEmbedder {
    settings: LocalSettings,
    model: OnceCell<Arc<LoadedModel>>,
    /// One batch at a time in each lane: a batch already uses every thread of its lane.
    query_lane: Arc<Semaphore>,
    bulk_lane: Arc<Semaphore>,
}

impl LocalEmbedder {
    /// Creates an embedder that loads its model at its first use. A model pulled after a failed use is found
    /// by the next one.
    pub fn new(settings: LocalSettings) -> Self {
        let lane = || Arc::new(Semaphore::new(1));
        Self { settings, model: OnceCell::new(), query_lane: lane(), bulk_lane: lane() }
    }

    /// Returns the model, loaded once; a failed load is tried again by the next call.
    async fn model(&self) -> Result<Arc<LoadedModel>, EmbedError> {
        let LocalSettings { model, model_dir, threads } = self.settings.clone();
        let cores = || std::thread::available_parallelism().map_or(1, usize::from).min(4);
        let load = || {
            blocking(move || {
                LoadedModel::load(model, &model_dir, threads.unwrap_or_else(cores)).map(Arc::new)
            })
        };
        self.model.get_or_try_init(load).await.cloned()
    }

    /// Runs one batch on a blocking thread, in its lane.
    async fn run(
        &self,
        model: &Arc<LoadedModel>,
        lane: Lane,
        batch: Vec<Tokens>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let turns = match lane {
            Lane::Query => &self.query_lane,
            Lane::Bulk => &self.bulk_lane,
        };
        let turn = Arc::clone(turns).acquire_owned().await;
        let turn = turn.map_err(|error| EmbedError::Model(error.to_string()))?;
        let model = Arc::clone(model);
        // The permit ends with the work, not with the caller: abandoned queries must not pile up on the
        // cores.
        blocking(move || {
            let _turn = turn;
            model.run(lane, &batch)
        })
        .await
    }
}

impl LocalEmbedder {
    async fn embed_in(&self, lane: Lane, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let model = self.model().await?;
        let tokens = {
            let (model, texts) = (Arc::clone(&model), texts.to_vec());
            blocking(move || model.tokenize(&texts)).await?
        };
        let mut vectors = vec![Vec::new(); tokens.len()];
        for (places, batch) in batches(tokens) {
            for (place, vector) in places.into_iter().zip(self.run(&model, lane, batch).await?) {
                if let Some(slot) = vectors.get_mut(place) {
                    *slot = vector;
                }
            }
        }
        vectors::checked(vectors, texts.len(), Some(DIMENSIONS))
            .map_err(|reason| EmbedError::Answer { endpoint: self.settings.model.name.to_owned(), reason })
    }
}

#[async_trait]
impl Embedder for LocalEmbedder {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.embed_in(Lane::Bulk, texts).await
    }

    async fn embed_queries(&self, queries: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let instruction = self.settings.model.query_instruction;
        if instruction.is_empty() {
            return self.embed_in(Lane::Query, queries).await;
        }
        let instructed: Vec<_> = queries.iter().map(|query| format!("{instruction}{query}")).collect();
        self.embed_in(Lane::Query, &instructed).await
    }

    async fn model_id(&self) -> Result<String, EmbedError> {
        let LocalModel { hub_name, revision, .. } = self.settings.model;
        Ok(format!("local/{hub_name}@{revision}"))
    }

    fn batch_size(&self) -> usize {
        MAX_BATCH_TEXTS
    }

    async fn prepare(&self) {
        // The error comes again with the next text.
        let _loaded = self.model().await;
    }

    /// The files are the pinned ones, or the model is not loaded.
    fn is_pinned(&self) -> bool {
        true
    }

    /// Measured with the default model alone.
    fn takes_short_forms(&self) -> bool {
        self.settings.model == LocalModel::default_model()
    }
}

/// Groups texts of similar length into batches, so that little is padded. Each batch has the places of its
/// texts in the call.
fn batches(texts: Vec<Tokens>) -> Vec<(Vec<usize>, Vec<Tokens>)> {
    let mut texts: Vec<(usize, Tokens)> = texts.into_iter().enumerate().collect();
    texts.sort_by_key(|(_, tokens)| tokens.len());
    let mut batches: Vec<(Vec<usize>, Vec<Tokens>)> = Vec::new();
    for (place, tokens) in texts {
        match batches.last_mut() {
            // The texts are sorted, so this one is the longest of the batch and decides its padded size.
            Some((places, batch))
                if batch.len() < MAX_BATCH_TEXTS && (batch.len() + 1) * tokens.len() <= MAX_BATCH_TOKENS =>
            {
                places.push(place);
                batch.push(tokens);
            }
            _ => batches.push((vec![place], vec![tokens])),
        }
    }
    batches
}

/// Runs `work` on a blocking thread. Inference takes milliseconds to seconds of a core; it must not hold a
/// worker of the runtime.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EmbedError> + Send + 'static,
) -> Result<T, EmbedError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| EmbedError::Model(error.to_string()))?
}

#[cfg(test)]
mod tests;
