//! Regeneration: embeds tools anew on demand, whether or not they have a vector. Each batch replaces the
//! vectors in the cache; searches use those of before until all are made.

use std::time::{Duration, Instant};

use vmcp_embed::EmbedError;

use super::worker::EmbeddingWorker;
use crate::engine::Engine;

/// Result of a regeneration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Regenerated {
    /// Tools with a new vector.
    pub embedded: usize,
    /// Tools that keep the vector of before, because the provider failed.
    pub failed: usize,
    /// Time that it took.
    pub took: Duration,
}

impl Engine {
    /// Embeds the tools of one backend anew, or of all; tools that no client may find are left out. Without a
    /// provider there is nothing to embed. Fails while the provider does not tell its model.
    pub async fn regenerate_embeddings(&self, backend: Option<&str>) -> Result<Regenerated, EmbedError> {
        let (shared, started) = (&self.0.shared, Instant::now());
        let Some(provider) = shared.provider.load_full() else { return Ok(Regenerated::default()) };
        let model = provider.embedder.model_id().await?;
        let snapshot = self.snapshot();
        let of_backend = |at: &usize| {
            let tool = snapshot.catalog.tools.get(*at);
            tool.is_some_and(|tool| backend.is_none_or(|wanted| *wanted == *tool.backend))
        };
        let findable = snapshot.texts.iter().enumerate().filter(|(_, text)| !text.is_empty());
        let positions: Vec<usize> = findable.map(|(at, _)| at).filter(of_backend).collect();
        let batch_size = provider.embedder.batch_size().max(1);
        let worker =
            EmbeddingWorker { provider, shared: shared.clone(), conductor: self.0.conductor.clone() };
        let mut failed = 0;
        for batch in positions.chunks(batch_size) {
            if let Err(error) = worker.embed(&snapshot, &model, batch).await {
                tracing::warn!(%error, tools = batch.len(), "tools could not be embedded anew");
                failed += batch.len();
            }
        }
        self.0.conductor.load_vectors().await;
        let embedded = positions.len() - failed;
        let took = started.elapsed();
        tracing::info!(embedded, failed, ?took, "embeddings were made anew");
        Ok(Regenerated { embedded, failed, took })
    }
}
