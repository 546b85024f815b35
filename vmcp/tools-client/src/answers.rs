//! Answers of `GET /tools` and `GET /tools/metrics`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A tool with its tags.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundTool {
    /// Name by which it is called.
    pub name: String,
    /// Its description.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of its arguments.
    #[serde(default)]
    pub input_schema: Value,
    /// Contexts in which it is of use.
    #[serde(default)]
    pub contexts: Vec<String>,
    /// Kinds of tools that it is one of.
    #[serde(default)]
    pub categories: Vec<String>,
}

/// The tools of one answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FoundTools {
    /// The tools, the best fit first.
    pub tools: Vec<FoundTool>,
    /// Counts, and the reason for an empty answer.
    #[serde(default)]
    pub metadata: Map<String, Value>,
}

impl FoundTools {
    /// Makes the answer to a message that means no context.
    pub(crate) fn without_context() -> FoundTools {
        let mut metadata = Map::new();
        metadata.insert("filtered".to_owned(), false.into());
        metadata.insert("reason".to_owned(), "no_context_detected".into());
        FoundTools { tools: Vec::new(), metadata }
    }

    /// Returns why the answer has no tools, or all tools.
    pub fn reason(&self) -> Option<&str> {
        self.metadata.get("reason").and_then(Value::as_str)
    }
}

/// Tokens of answers, and of the whole lists in their place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUsage {
    /// Whole lists.
    pub baseline: UsageFigures,
    /// Answers that contexts chose.
    pub filtered: UsageFigures,
    /// Share of the baseline that filtering saves, such as `40%`.
    pub reduction: String,
}

/// Figures of one kind of answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageFigures {
    /// Number of answers.
    pub requests: u64,
    /// Their tokens.
    pub total_tokens: u64,
    /// Tokens of one answer on average.
    pub avg_tokens_per_request: u64,
    /// Begin of the count, RFC 3339.
    pub since: String,
}
