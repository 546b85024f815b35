//! `optimizer.learning`: what the use of tools teaches about queries.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problems::Report;
use crate::values::decimal::RawDecimal;

/// Validated settings of learning.
#[derive(Debug, Clone, PartialEq)]
pub struct Learning {
    /// True if uses of tools are learned, and change rankings.
    pub enabled: bool,
    /// Similarity of two queries, 0 to 1, below which one teaches nothing about the other.
    pub min_similarity: f32,
    /// True if the texts of queries are stored; their vectors are in any case.
    pub store_query_text: bool,
}

/// Learning from use: a tool that was called after `set_context` is remembered for such queries, in
/// `state.db`, and ranked higher for them. 5000 pairs at most; those unused for 30 days go.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Learning")]
pub struct RawLearning {
    /// Learn, and use what was learned. Default: on with `exposure: Contextual`, here or in a profile, else
    /// off.
    pub enabled: Option<bool>,
    /// Similarity of two queries, from "0" to "1", below which one teaches nothing about the other. Models score
    /// unrelated short texts up to 0.5.
    #[schemars(extend("x-range" = "0 to 1"))]
    pub min_similarity: RawDecimal,
    /// Store the text of a query beside its vector and its hash, for people who look into the database.
    pub store_query_text: bool,
}

impl Default for RawLearning {
    fn default() -> Self {
        Self { enabled: None, min_similarity: "0.6".into(), store_query_text: false }
    }
}

impl RawLearning {
    pub(crate) fn validate(&self, has_contextual: bool, report: &mut Report) -> Learning {
        let path = "optimizer.learning.minSimilarity";
        Learning {
            enabled: self.enabled.unwrap_or(has_contextual),
            min_similarity: self.min_similarity.validate(path, &(0.0..=1.0), report),
            store_query_text: self.store_query_text,
        }
    }
}
