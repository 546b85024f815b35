//! `optimizer.search`: how tools are ranked and how many are returned (R022-07).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problems::Report;
use crate::values::decimal::RawDecimal;

/// Ranking.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    /// How many tools a search returns unless it asks for fewer or more.
    pub max_tools: usize,
    /// Weight of meaning against words, from 0 (words only) to 1 (meaning only).
    pub hybrid_semantic_ratio: f32,
    /// Tools farther than this cosine distance, from 0 to 2, count as not found by meaning. `None`: no cut.
    pub semantic_distance_threshold: Option<f32>,
}

/// Ranking.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Search")]
pub struct RawSearch {
    /// How many tools a search returns.
    #[schemars(range(min = 1, max = 50))]
    pub max_tools: usize,
    /// Weight of meaning against words, "0" (words only) to "1" (meaning only).
    #[schemars(extend("x-range" = "0 to 1"))]
    pub hybrid_semantic_ratio: RawDecimal,
    /// Tools farther than this cosine distance, "0" to "2", count as not found by meaning. Without it, there is no cut.
    #[schemars(extend("x-range" = "0 to 2"))]
    pub semantic_distance_threshold: Option<RawDecimal>,
}

impl Default for RawSearch {
    fn default() -> Self {
        Self { max_tools: 8, hybrid_semantic_ratio: "0.6".into(), semantic_distance_threshold: None }
    }
}

impl RawSearch {
    pub(crate) fn validate(&self, report: &mut Report) -> Search {
        let path = "optimizer.search";
        Search {
            max_tools: self.max_tools,
            hybrid_semantic_ratio: self.hybrid_semantic_ratio.validate(
                &format!("{path}.hybridSemanticRatio"),
                &(0.0..=1.0),
                report,
            ),
            semantic_distance_threshold: self.semantic_distance_threshold.as_ref().map(|threshold| {
                threshold.validate(&format!("{path}.semanticDistanceThreshold"), &(0.0..=2.0), report)
            }),
        }
    }
}
