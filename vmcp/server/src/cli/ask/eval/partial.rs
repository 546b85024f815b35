//! `vmcp eval --partial`: measures the search while only a part of the tools has vectors, as during a cold
//! start and after a server was added.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde::Serialize;
use vmcp_embed::{EmbedError, Embedder};
use vmcp_engine::search::{QueryVectors, Searcher};
use vmcp_search::Vectors;

use super::corpus::Corpus;
use super::evaluation::{Measured, evaluate};
use super::files::Query;
use super::report::Measures;
use crate::cli::console::failure::CommandFailure;
use crate::cli::console::output;

/// Shares of embedded tools, in eighths.
const EIGHTHS: [usize; 7] = [0, 1, 2, 4, 6, 7, 8];
/// Factor that scatters the places of a spread part. Prime, so that every place comes once unless the number
/// of tools is a multiple of it.
const SPREAD: usize = 7919;

/// The tools that have vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Embedded {
    /// The first of the catalog: whole servers, as while tools are embedded.
    First,
    /// Some of every server.
    Spread,
}

/// The measures with one part of the tools embedded. Scripts rely on the names.
#[derive(Debug, Serialize)]
pub(super) struct PartMeasures {
    /// Share of the tools that have a vector.
    share: f64,
    embedded: Embedded,
    #[serde(flatten)]
    measures: Measures,
}

/// Measures every part. `searcher` has the vectors of all tools.
pub(super) async fn measure(
    corpus: &Corpus,
    queries: &[Query],
    searcher: &Searcher,
) -> Result<Vec<PartMeasures>, CommandFailure> {
    let QueryVectors::From(embedder) = &searcher.vectors else {
        return Err(CommandFailure::new("--partial measures search by vectors, which are off")
            .remedy("choose a provider by --provider or optimizer.embeddings"));
    };
    let remembered = Arc::new(RememberedQueries { embedder: Arc::clone(embedder), known: Mutex::default() });
    let mut parts = Vec::new();
    for embedded in [Embedded::First, Embedded::Spread] {
        for eighths in EIGHTHS {
            let index =
                searcher.index.with_vectors(part(searcher.index.vectors(), corpus.len(), eighths, embedded));
            let searcher = Searcher {
                index: Arc::new(index),
                vectors: QueryVectors::From(Arc::clone(&remembered) as Arc<dyn Embedder>),
                ..searcher.clone()
            };
            let report = evaluate(corpus, queries, &searcher, None, Measured::Part).await?;
            let measures = report.measures(corpus.len(), 0);
            parts.push(PartMeasures { share: eighths as f64 / 8.0, embedded, measures });
        }
    }
    Ok(parts)
}

/// Returns the vectors of a part of the tools.
fn part(all: &Vectors, tools: usize, eighths: usize, embedded: Embedded) -> Vectors {
    let rows = (0..tools).map(|at| {
        let place = match embedded {
            Embedded::First => at,
            Embedded::Spread => at * SPREAD % tools,
        };
        all.row(at).filter(|_| place * 8 < eighths * tools).map(<[f32]>::to_vec)
    });
    Vectors::from_rows(all.dims(), rows)
}

/// Returns a table of the parts.
pub(super) fn human_text(parts: &[PartMeasures], queries: usize, tools: usize) -> String {
    let rows = parts.iter().map(|part| {
        let embedded = match part.embedded {
            Embedded::First => "first of the catalog",
            Embedded::Spread => "spread over it",
        };
        [
            format!("{:.3}", part.share),
            embedded.to_owned(),
            format!("{:.3}", part.measures.recall_at_8),
            format!("{:.3}", part.measures.ndcg_at_10),
        ]
    });
    let table = output::table(["SHARE", "EMBEDDED TOOLS", "RECALL@8", "NDCG@10"], rows);
    format!("{table}\n\n{queries} queries, {tools} tools; a share of 0 is search by words alone")
}

/// Embeds each text of a query once for all parts.
struct RememberedQueries {
    embedder: Arc<dyn Embedder>,
    known: Mutex<HashMap<Vec<String>, Vec<Vec<f32>>>>,
}

#[async_trait]
impl Embedder for RememberedQueries {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let known = self.known.lock().get(texts).cloned();
        if let Some(vectors) = known {
            return Ok(vectors);
        }
        let vectors = self.embedder.embed(texts).await?;
        self.known.lock().insert(texts.to_vec(), vectors.clone());
        Ok(vectors)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_its_share_of_the_vectors() {
        let all = Vectors::from_rows(1, (0..104).map(|_| Some(vec![1.0])));
        for embedded in [Embedded::First, Embedded::Spread] {
            let counts = EIGHTHS.map(|eighths| part(&all, 104, eighths, embedded).count());
            assert_eq!(counts, [0, 13, 26, 52, 78, 91, 104], "{embedded:?}");
        }
        let first = part(&all, 104, 1, Embedded::First);
        assert!((0..13).all(|at| first.has(at)));
        let spread = part(&all, 104, 1, Embedded::Spread);
        let reached = (0..8).filter(|eighth| (eighth * 13..(eighth + 1) * 13).any(|at| spread.has(at)));
        assert!(reached.count() >= 6, "its tools are of most servers");
    }
}
