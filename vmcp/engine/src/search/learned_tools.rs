//! [`LearnedTools`]: the documents that learned pairs speak for.

use std::sync::Arc;

use vmcp_model::catalog::Catalog;
use vmcp_search::Visible;
use vmcp_search::learning::{AskedQuery, LearningMode, PROMOTION_PLACES, Recollection};

use super::context::Learned;
use crate::telemetry::tool_metrics::ToolKey;

/// Learned pairs, and the catalog that knows the documents of their tools.
#[derive(Clone)]
pub struct LearnedTools {
    /// The pairs.
    pub learned: Arc<Learned>,
    /// The catalog of the index.
    pub catalog: Arc<Catalog>,
    /// The identity that searches; `None` for a client without one.
    pub owner: Option<Arc<str>>,
    /// Influence of the pairs.
    pub mode: LearningMode,
    /// Similarity below which a pair says nothing about the query.
    pub min_similarity: f32,
}

/// Documents that learned pairs speak for.
#[derive(Debug, Default)]
pub(super) struct LearnedDocuments {
    /// Strength by document, in ascending order of these.
    pub(super) strengths: Vec<(usize, f32)>,
    /// Documents of tools that were used for nearly the same query, the nearest query first.
    pub(super) promoted: Vec<usize>,
}

impl LearnedDocuments {
    /// Keeps of the promoted documents the first three that the caller sees: a removed or hidden tool takes
    /// no place from them.
    pub(super) fn promoting(mut self, visible: Option<&Arc<Visible>>) -> LearnedDocuments {
        self.promoted.retain(|document| visible.is_none_or(|visible| visible.contains(*document)));
        self.promoted.truncate(PROMOTION_PLACES);
        self
    }
}

impl LearnedTools {
    /// Returns the documents that the pairs speak for.
    pub(super) fn recollect(&self, model: &str, vector: &[f32]) -> LearnedDocuments {
        let asked = AskedQuery { model, vector, owner: self.owner.as_deref() };
        let Recollection { strengths, promoted } =
            self.learned.recollect(&asked, self.min_similarity, self.mode);
        let document = |(backend, name): &ToolKey| {
            let found = self.catalog.tool_of(backend, name).into_iter();
            let tool = found.into_iter().find(|tool| *tool.definition.name == **name)?;
            self.catalog.position(&tool.name)
        };
        let strength = |(tool, strength): (ToolKey, f32)| Some((document(&tool)?, strength));
        let mut strengths: Vec<_> = strengths.into_iter().filter_map(strength).collect();
        strengths.sort_by_key(|(document, _)| *document);
        LearnedDocuments { strengths, promoted: promoted.iter().filter_map(document).collect() }
    }
}
