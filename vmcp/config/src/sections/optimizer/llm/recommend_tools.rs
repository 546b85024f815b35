//! `optimizer.recommendTools`: how recommend_tools ranks where a call does not say.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The way to rank tools for a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RankingMode {
    /// The search alone.
    Semantic,
    /// A language model among the first hits of the search, unless these are clear.
    #[default]
    Hybrid,
    /// A language model among all tools.
    Llm,
}

// Raw and validated form in one type: each field has a default, and no bounds.
/// Recommendations of `recommend_tools`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "RecommendTools")]
pub struct RecommendTools {
    /// Ranking of a call that names no `search_mode`. Without a language model (`optimizer.llm`, or the
    /// client's own), the search ranks.
    pub search_mode: RankingMode,
    /// Tell the success rate, latency and calls of each recommended tool, to the client and to the language
    /// model.
    pub include_metrics: bool,
}

impl Default for RecommendTools {
    fn default() -> Self {
        RecommendTools { search_mode: RankingMode::Hybrid, include_metrics: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;

    fn loaded(text: &str) -> crate::Optimizer {
        load(text, "f", &|_| None).unwrap().config.optimizer
    }

    #[test]
    fn both_spellings_and_both_places_are_read() {
        let wanted = RecommendTools { search_mode: RankingMode::Llm, include_metrics: false };
        for text in [
            "optimizer: { recommendTools: { searchMode: llm, includeMetrics: false } }",
            "recommend_tools: { search_mode: llm, include_metrics: false, max_fallbacks: 1 }",
            "recommendTools: { searchMode: llm, includeMetrics: false, maxFallbacks: 1 }",
        ] {
            let optimizer = loaded(text);
            assert_eq!(optimizer.recommend_tools, wanted, "{text}");
            assert_eq!(optimizer.max_fallbacks, if text.contains("allbacks") { 1 } else { 3 }, "{text}");
        }
        assert_eq!(loaded("").recommend_tools, RecommendTools::default());
        assert_eq!(loaded("").metrics_retention_days, 7);
        assert_eq!(loaded("metrics_retention_days: 30").metrics_retention_days, 30);
    }

    #[test]
    fn the_embedding_model_is_that_of_the_openai_provider() {
        let text = "recommend_tools: { embedding_model: text-embedding-3-large }\n\
                    optimizer: { embeddings: { provider: openai, openai: { apiKey: a-key-of-some-length } } }";
        match loaded(text).embeddings.provider {
            crate::EmbeddingProvider::OpenAi { model, .. } => assert_eq!(model, "text-embedding-3-large"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_setting_in_both_places_and_an_unknown_one_are_mistakes() {
        let said = |text: &str| load(text, "f", &|_| None).unwrap_err().to_string();
        let twice = "recommend_tools: { max_fallbacks: 1 }\noptimizer: { maxFallbacks: 2 }";
        assert!(said(twice).contains("optimizer.maxFallbacks"), "{}", said(twice));
        let unknown = said("recommend_tools: { search_mode: magic }");
        assert!(unknown.starts_with("f:1: optimizer.recommendTools.searchMode"), "{unknown}");
        let days = said("metrics_retention_days: 0");
        assert!(days.contains("optimizer.metricsRetentionDays"), "{days}");
    }
}
