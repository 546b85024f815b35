//! `optimizer.discovery`: `GET /tools`, tools by topic over plain HTTP.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::optim_tool::OptimTool;
use crate::problems::{self, Report};

/// Most bytes that one compiled pattern may take; a larger one is refused.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// Requests that count as baseline in `GET /tools/metrics`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MetricsMode {
    /// Each answer: with the tokens of the whole list in its place.
    #[default]
    Paired,
    /// Answers with the whole list alone.
    Observed,
}

/// Contexts and categories of a tool, in place of those that its server names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "ToolTags")]
pub struct ConfiguredTags {
    /// Contexts in which it is of use.
    pub contexts: Vec<String>,
    /// Kinds of tools that it is one of, such as `retrieval`.
    pub categories: Vec<String>,
}

/// Words and patterns that mean a context.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ContextSigns {
    /// Words and phrases; simple inflections of them mean the context too.
    pub keywords: Vec<String>,
    /// Regular expressions, such as `\bINV-\d+\b`; case matters, and `(?i)` before one makes it not matter.
    pub patterns: Vec<String>,
}

impl ContextSigns {
    /// Compiles the patterns; those that are none, which a validated file does not have, are left out.
    pub fn compiled(&self) -> Vec<Regex> {
        self.patterns.iter().filter_map(|pattern| compile(pattern).ok()).collect()
    }
}

fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).build()
}

// Raw and validated form in one type: `validate` reports, and changes nothing.
/// `GET /tools` on the client port, for programs that are no MCP clients: tools by topic, with the rights
/// that the caller has at `/mcp`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own in the file")]
pub struct Discovery {
    /// Serve it.
    pub enabled: bool,
    /// `false`: every answer has all tools, whatever the contexts.
    pub context_filtering: bool,
    /// Further contexts, each with the `keywords` and `patterns` that mean it. One with the name of a
    /// built-in context (`jira`, `notes`, `agile`, `communication`, `search`, `documents`, `users`) replaces
    /// those that it gives: `jira` without `patterns` is still meant by the key of an issue, such as
    /// `PROJ-123`.
    pub contexts: BTreeMap<String, ContextSigns>,
    /// Contexts and categories of tools, by the tools' listed names, in place of those that their servers
    /// name in `_meta` and of those that their words mean.
    pub tags: BTreeMap<String, ConfiguredTags>,
    /// Requests that count as baseline in `GET /tools/metrics`.
    pub metrics_mode: MetricsMode,
    /// `true`: where a message means no context, the language model of `optimizer.llm` chooses among all
    /// tools.
    pub llm_fallback: bool,
    /// Serve servers and tools, and take calls, at `/api/v1/servers`, for programs that do not speak MCP.
    pub rest_api: bool,
}

impl Default for Discovery {
    fn default() -> Self {
        Self {
            enabled: false,
            context_filtering: true,
            contexts: BTreeMap::new(),
            tags: BTreeMap::new(),
            metrics_mode: MetricsMode::default(),
            llm_fallback: false,
            rest_api: false,
        }
    }
}

impl Discovery {
    /// `tools` are the own tools on offer.
    pub(crate) fn validate(&self, has_llm: bool, tools: &[OptimTool], report: &mut Report) {
        if self.rest_api && !tools.contains(&OptimTool::CallTool) {
            report.problem(
                "optimizer.discovery.restApi",
                "its calls go through call_tool, which `optimizer.tools` lacks",
                "add `call_tool` to `optimizer.tools`, or remove it",
            );
        }
        if self.llm_fallback && !has_llm {
            report.problem(
                "optimizer.discovery.llmFallback",
                "there is no language model",
                "add `optimizer.llm`, or remove it",
            );
        }
        for (name, signs) in &self.contexts {
            let path = problems::key("optimizer.discovery.contexts", name);
            if signs.patterns.is_empty() && signs.keywords.iter().all(|word| word.trim().is_empty()) {
                let remedy = "list the words that mean this context, such as `keywords: [invoice]`";
                report.problem(&path, "neither keywords nor patterns", remedy);
            }
            for (index, pattern) in signs.patterns.iter().enumerate() {
                if let Err(error) = compile(pattern) {
                    let path = problems::item(&format!("{path}.patterns"), index);
                    // The last line of a syntax error says the cause, after a drawing of the place.
                    let error = error.to_string();
                    let cause = error.lines().last().unwrap_or_default();
                    let cause = cause.strip_prefix("error: ").unwrap_or(cause);
                    let message = format!("`{pattern}` is no regular expression: {cause}");
                    report.problem(
                        &path,
                        message,
                        "correct it; look-around and back-references do not exist",
                    );
                }
            }
        }
    }
}
