//! `optimizer.learning`: what the use of tools teaches about queries. [`query_log`] is the record of searches
//! for people.

pub(crate) mod query_log;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problems::Report;
use crate::values::decimal::RawDecimal;

/// Ways to learn from the use of tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LearningMode {
    /// Repeated uses add up, and a tool that was used for nearly the same query comes among the first three.
    #[default]
    Promote,
    /// The confidence in a pair is a moving average, and a pair adds a bounded bonus to its tool.
    Seed,
}

/// Validated settings of learning.
#[derive(Debug, Clone, PartialEq)]
pub struct Learning {
    /// True if uses of tools are learned, and change rankings.
    pub enabled: bool,
    /// Way to learn.
    pub mode: LearningMode,
    /// Similarity of two queries, 0 to 1, below which one teaches nothing about the other.
    pub min_similarity: f32,
    /// True if the texts of queries are stored; their vectors are in any case.
    pub store_query_text: bool,
}

/// Learning from use: a tool that was called after `set_context` is remembered for such queries, in
/// `state.db`, and ranked higher for them: for the same identity where clients have one, else for all
/// clients. 5000 pairs at most; those unused for 30 days go.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Learning")]
pub struct RawLearning {
    /// Learn, and use what was learned. Default: on with `exposure: Contextual`, here or in a profile, else
    /// off.
    pub enabled: Option<bool>,
    /// Way to learn from repeated uses.
    pub mode: LearningMode,
    /// Similarity of two queries, from "0" to "1", below which one teaches nothing about the other. Models score
    /// unrelated short texts up to 0.5.
    #[schemars(extend("x-range" = "0 to 1"))]
    pub min_similarity: RawDecimal,
    /// Store the text of a query beside its vector and its hash, for people who look into the database.
    pub store_query_text: bool,
}

impl Default for RawLearning {
    fn default() -> Self {
        Self {
            enabled: None,
            mode: LearningMode::default(),
            min_similarity: "0.6".into(),
            store_query_text: false,
        }
    }
}

impl RawLearning {
    pub(crate) fn validate(&self, has_contextual: bool, report: &mut Report) -> Learning {
        let path = "optimizer.learning.minSimilarity";
        Learning {
            enabled: self.enabled.unwrap_or(has_contextual),
            mode: self.mode,
            min_similarity: self.min_similarity.validate(path, &(0.0..=1.0), report),
            store_query_text: self.store_query_text,
        }
    }
}
