//! Vectors for the catalog of an evaluation, from a cache where it has them.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use vmcp_embed::{EmbedError, Embedder};
use vmcp_search::{Index, TEXT_VERSION, vector_text};
use vmcp_store::{ContentKey, Store, ToolVector};

use super::corpus::Corpus;
use crate::cli::console::failure::CommandFailure;
use crate::cli::console::{notes, progress};
use vmcp_engine::engine::snapshot::build::vectors;
use vmcp_engine::folders;

/// Batches of the provider in one call, so that it can group texts of similar length.
const BATCHES: usize = 8;

/// Returns the index of the catalog, with a vector for each tool if there is an embedder.
pub(super) async fn index(
    corpus: &Corpus,
    embedder: Option<&Arc<dyn Embedder>>,
) -> Result<Index, CommandFailure> {
    let documents = corpus.documents();
    let index = Index::new(&documents);
    let Some(embedder) = embedder else { return Ok(index) };
    let texts: Vec<_> = documents.iter().map(vector_text).collect();
    let (store, model) = (cache()?, embedder.model_id().await?);
    let known = vectors(&texts, &store, &model, |_| None)?;
    let wanting: Vec<_> = texts
        .iter()
        .zip(corpus.tools())
        .enumerate()
        .filter(|(at, (text, _))| !text.is_empty() && !known.has(*at))
        .map(|(_, wanting)| wanting)
        .collect();
    let bar = progress::counter(wanting.len(), "embedding tools");
    for batch in wanting.chunks(BATCHES * embedder.batch_size().max(1)) {
        let texts: Vec<_> = batch.iter().map(|(text, _)| (*text).clone()).collect();
        let made = embedder.embed(&texts).await?;
        let rows = batch.iter().zip(&made).map(|((text, tool), vector)| ToolVector {
            key: ContentKey::new(TEXT_VERSION, &model, text),
            backend: &tool.backend,
            tool: &tool.definition.name,
            description: &tool.description,
            model_id: &model,
            vector,
        });
        // The time of a row is used to expire rows, which this cache does not do.
        store.put_vectors(&rows.collect::<Vec<_>>(), 0)?;
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    // Loads the model even if the cache had everything, so that the first query is not slower than the
    // others.
    embedder.embed(&["warm up".to_owned()]).await?;
    Ok(index.with_vectors(vectors(&texts, &store, &model, |_| None)?))
}

/// Opens a cache apart from the server's, which deletes rows of tools that its backends do not offer.
fn cache() -> Result<Store, CommandFailure> {
    let dir = folders::cache_dir().join("eval");
    Ok(Store::open(&dir).or_else(|error| {
        notes::note(&format!("warning: {error}; the next run will embed anew"));
        Store::in_memory()
    })?)
}

/// An embedder of queries that measures the time it takes.
pub(super) struct TimedEmbedder {
    embedder: Arc<dyn Embedder>,
    spent: Mutex<Duration>,
}

impl TimedEmbedder {
    pub(super) fn new(embedder: Arc<dyn Embedder>) -> TimedEmbedder {
        TimedEmbedder { embedder, spent: Mutex::default() }
    }

    /// Returns the time spent since the last call, and resets it.
    pub(super) fn take(&self) -> Duration {
        std::mem::take(&mut self.spent.lock())
    }
}

#[async_trait]
impl Embedder for TimedEmbedder {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let started = Instant::now();
        let embedded = self.embedder.embed_queries(texts).await;
        *self.spent.lock() += started.elapsed();
        embedded
    }

    async fn model_id(&self) -> Result<String, EmbedError> {
        self.embedder.model_id().await
    }

    fn batch_size(&self) -> usize {
        self.embedder.batch_size()
    }

    fn takes_short_forms(&self) -> bool {
        self.embedder.takes_short_forms()
    }
}
