//! `optimizer.contextual`: the list of tools that a client gets once it has said what it is busy with.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problems::Report;
use crate::values::decimal::RawDecimal;

/// Validated settings of `exposure: Contextual`.
#[derive(Debug, Clone, PartialEq)]
pub struct Contextual {
    /// Tools of the list.
    pub top_k: usize,
    /// Confidence, 0 to 1, below which the whole list is shown.
    pub cold_start_threshold: f32,
    /// Weight of tools' own texts.
    pub static_weight: f32,
    /// Weight of learned pairs.
    pub dynamic_weight: f32,
    /// The list before a client has set a context.
    pub no_context: NoContext,
    /// The way in which a context chooses tools.
    pub context_source: ContextSource,
    /// Tools of the latest calls that stay in the list after a change of the context.
    pub retain_recent_calls: usize,
}

/// The way in which a context chooses tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ContextSource {
    /// By the similarity of tools' texts and of learned uses.
    Embeddings,
    /// By the words of `optimizer.discovery.contexts` and the built-in contexts; without such a word,
    /// everything is listed.
    Keywords,
    /// By words where it has some, else by similarity.
    Both,
}

/// The list that a client gets before it has set a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NoContext {
    /// All tools.
    All,
    /// The optimizer's tools and `pinnedTools`.
    None,
}

/// The list of tools under `exposure: Contextual`: those that fit what the client said with `set_context`, as
/// soon as enough is known about such tasks.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Contextual")]
pub struct RawContextual {
    /// Tools of the list, beside the optimizer's and `pinnedTools`.
    #[schemars(range(min = 1, max = 100))]
    pub top_k: usize,
    /// Confidence, from "0" to "1", below which all tools are listed: mean similarity of the ten nearest learned
    /// queries, times the share of ten that there are. "0" shows a short list from the first context on.
    #[schemars(extend("x-range" = "0 to 1"))]
    pub cold_start_threshold: RawDecimal,
    /// Weight of the similarity of tools' own texts.
    #[schemars(extend("x-range" = "0 to 1"))]
    pub static_weight: RawDecimal,
    /// Weight of the similarity of queries for which a tool was used before.
    #[schemars(extend("x-range" = "0 to 1"))]
    pub dynamic_weight: RawDecimal,
    /// The list that a client gets before it has set a context.
    pub no_context: NoContext,
    /// The way in which a context chooses tools.
    pub context_source: ContextSource,
    /// Tools of a client's latest calls that stay in its list after a change of the context, beside the
    /// `topK` that fit. `0`: none.
    #[schemars(range(max = 20))]
    pub retain_recent_calls: usize,
}

impl Default for RawContextual {
    fn default() -> Self {
        Self {
            top_k: 15,
            cold_start_threshold: "0.3".into(),
            static_weight: "0.6".into(),
            dynamic_weight: "0.4".into(),
            no_context: NoContext::All,
            context_source: ContextSource::Embeddings,
            retain_recent_calls: 0,
        }
    }
}

impl RawContextual {
    pub(crate) fn validate(&self, report: &mut Report) -> Contextual {
        let mut share = |name: &str, value: &RawDecimal| {
            value.validate(&format!("optimizer.contextual.{name}"), &(0.0..=1.0), report)
        };
        Contextual {
            top_k: self.top_k,
            cold_start_threshold: share("coldStartThreshold", &self.cold_start_threshold),
            static_weight: share("staticWeight", &self.static_weight),
            dynamic_weight: share("dynamicWeight", &self.dynamic_weight),
            no_context: self.no_context,
            context_source: self.context_source,
            retain_recent_calls: self.retain_recent_calls,
        }
    }
}
