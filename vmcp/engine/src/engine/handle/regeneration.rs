//! Regeneration: embeds tools on demand, also tools that have a vector. Each batch replaces the vectors in
//! the cache; searches use the old ones until all are made.

use std::sync::Arc;
use std::time::{Duration, Instant};

use vmcp_embed::EmbedError;

use crate::engine::conductor::commands::ConductorHandle;
use crate::engine::conductor::embedding_worker::EmbeddingWorker;
use crate::engine::shared::Shared;

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

/// Embeds the tools of one backend again, or of all; tools that no client may find are left out. Without a
/// provider nothing is embedded. Fails while the provider does not tell its model.
pub(in crate::engine) async fn regenerate(
    shared: &Arc<Shared>,
    conductor: &ConductorHandle,
    backend: Option<&str>,
) -> Result<Regenerated, EmbedError> {
    let started = Instant::now();
    let Some(provider) = shared.provider.load_full() else { return Ok(Regenerated::default()) };
    let snapshot = shared.snapshot.load_full();
    let of_backend = |at: &usize| {
        let tool = snapshot.catalog.tools.get(*at);
        tool.is_some_and(|tool| backend.is_none_or(|wanted| *wanted == *tool.backend))
    };
    let findable = snapshot.texts.iter().enumerate().filter(|(_, text)| !text.is_empty());
    let positions: Vec<usize> = findable.map(|(at, _)| at).filter(of_backend).collect();
    let worker = EmbeddingWorker { provider, shared: Arc::clone(shared), conductor: conductor.clone() };
    let model = worker.identify().await?;
    if worker.provider.learn_model(&model) {
        // Queries are of this model from now on.
        conductor.load_vectors().await;
    }
    let mut failed = 0;
    for batch in positions.chunks(worker.batch_size()) {
        if let Err(error) = worker.embed(&snapshot, &model, batch).await {
            tracing::warn!(%error, tools = batch.len(), "tools could not be embedded again");
            failed += batch.len();
        }
    }
    conductor.load_vectors().await;
    let embedded = positions.len() - failed;
    let took = started.elapsed();
    tracing::info!(embedded, failed, ?took, "embeddings were regenerated");
    Ok(Regenerated { embedded, failed, took })
}
