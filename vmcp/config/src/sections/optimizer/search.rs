//! `optimizer.search`: ranking of tools (keywords by BM25F, meaning by cosine distance, fused) and the number
//! of results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problems::Report;
use crate::values::decimal::RawDecimal;

/// Ranking of tools in a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    /// Tools returned by a search that asks for no number of its own.
    pub max_tools: usize,
    /// Weight of meaning against keywords, from 0 (keywords only) to 1 (meaning only).
    pub hybrid_semantic_ratio: f32,
    /// Greatest cosine distance, from 0 to 2, at which a tool counts as found by meaning. `None`: no limit.
    pub semantic_distance_threshold: Option<f32>,
    /// Weight of tools' success rates, from 0 (none) to 1.
    pub reliability_weight: f32,
    /// Weight of what was learned, from 0 (none) to 1.
    pub learned_weight: f32,
}

/// Ranking of tools in a search.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Search")]
pub struct RawSearch {
    /// Tools returned by a search that asks for no number of its own.
    #[schemars(range(min = 1, max = 50))]
    pub max_tools: usize,
    /// Weight of meaning against keywords, from "0" (keywords only) to "1" (meaning only).
    #[schemars(extend("x-range" = "0 to 1"))]
    pub hybrid_semantic_ratio: RawDecimal,
    /// Greatest cosine distance, from "0" (identical) to "2" (opposite), at which a tool counts as found by
    /// meaning; tools beyond it can still be found by keywords. Without it, there is no limit.
    #[schemars(extend("x-range" = "0 to 2"))]
    pub semantic_distance_threshold: Option<RawDecimal>,
    /// Weight of tools' success rates, from "0" (none) to "1": of two tools that fit equally well, the one whose
    /// calls succeed comes first. A tool with fewer than 3 calls counts as one that works.
    #[schemars(extend("x-range" = "0 to 1"))]
    pub reliability_weight: RawDecimal,
    /// Weight of what was learned, from "0" (none) to "1", while `learning` is on: of two tools that fit equally
    /// well, the one that was used for such queries comes first.
    #[schemars(extend("x-range" = "0 to 1"))]
    pub learned_weight: RawDecimal,
}

impl Default for RawSearch {
    fn default() -> Self {
        Self {
            max_tools: 8,
            hybrid_semantic_ratio: "0.6".into(),
            semantic_distance_threshold: None,
            reliability_weight: "0.5".into(),
            learned_weight: "0.5".into(),
        }
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
            reliability_weight: self.reliability_weight.validate(
                &format!("{path}.reliabilityWeight"),
                &(0.0..=1.0),
                report,
            ),
            learned_weight: self.learned_weight.validate(
                &format!("{path}.learnedWeight"),
                &(0.0..=1.0),
                report,
            ),
        }
    }
}
