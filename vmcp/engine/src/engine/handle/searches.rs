//! Methods of [`Engine`] that hand out searchers, and take in the outcomes of their queries.

use std::sync::Arc;
use std::time::Duration;

use vmcp_search::learning::BONUS_MIN_SIMILARITY;

use crate::access::identity::PrincipalKey;
use crate::engine::snapshot::reliability::{common_reliability, reliability_of_documents};
use crate::engine::{Engine, Snapshot};
use crate::search::context::learning_mode;
use crate::search::{LearnedTools, QueryVectors, Searcher};

impl Engine {
    /// Returns a searcher of a snapshot that embeds queries with the provider, unless the provider is down. A
    /// principal with an identity searches by its own experience with tools, so that one client's failures
    /// and habits change nothing for others; clients without an identity share theirs.
    pub fn searcher(&self, snapshot: &Snapshot, principal: PrincipalKey) -> Searcher {
        let vectors = match self.0.shared.provider.load_full() {
            None => QueryVectors::Off,
            Some(provider) => match provider.outage() {
                Some(outage) => QueryVectors::Down(outage.error),
                None => QueryVectors::From(provider.queries()),
            },
        };
        Searcher {
            index: Arc::clone(&snapshot.index),
            vectors,
            reliability: match principal {
                PrincipalKey::Identity(_) => {
                    reliability_of_documents(self.0.shared.reliability.of(principal), snapshot.unfiltered())
                }
                PrincipalKey::Only | PrincipalKey::Address(_) => {
                    common_reliability(&self.total_metrics(), snapshot.unfiltered())
                }
            },
            learned: self.learned_tools(snapshot, principal),
            reranking: self.reranking(snapshot),
            settings: (&snapshot.config.optimizer.search).into(),
        }
    }

    /// Returns what was learned, for a search; `None` if that is off or nothing was learned.
    fn learned_tools(&self, snapshot: &Snapshot, principal: PrincipalKey) -> Option<LearnedTools> {
        let learning = &snapshot.config.optimizer.learning;
        let learned = self.learner().learned();
        (learning.enabled && !learned.is_empty()).then(|| LearnedTools {
            learned,
            catalog: Arc::clone(&snapshot.catalog),
            owner: principal.owner(),
            mode: learning_mode(learning.mode),
            min_similarity: learning.min_similarity.max(BONUS_MIN_SIMILARITY),
        })
    }

    /// Reports that a query was embedded in time.
    pub fn query_answered(&self) {
        if let Some(provider) = self.0.shared.provider.load_full() {
            provider.query_answered();
        }
    }

    /// Reports that a query was not embedded within `after`.
    pub fn query_slow(&self, after: Duration) {
        if let Some(provider) = self.0.shared.provider.load_full() {
            provider.query_slow(after);
        }
    }

    /// Reports that a query could not be embedded, after `took`. If the provider counts as down, searches do
    /// not wait for it until it answers the background task again.
    pub fn query_failed(&self, error: &vmcp_embed::EmbedError, took: Duration) {
        if let Some(provider) = self.0.shared.provider.load_full() {
            provider.query_failed(error, took);
        }
    }

    /// Reports that a query was embedded by another model than the tools.
    pub fn query_of_other_model(&self) {
        if let Some(provider) = self.0.shared.provider.load_full() {
            provider.suspect();
        }
    }
}
