//! `optimizer.llm`: the language model that ranks tools, and writes queries and scripts.

pub(crate) mod recommend_tools;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::problems::Report;
use crate::sections::proxy::TIMEOUT;
use crate::values::duration::{self, RawDuration};
use crate::values::secret::Secret;
use crate::values::{headers, http_url};

/// Validated settings of the language model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Llm {
    /// Base URL with the version, to which `/chat/completions` is added.
    pub endpoint: Url,
    /// Model to ask for.
    pub model: String,
    /// Key sent as a bearer token; `None`: no `Authorization` header.
    pub api_key: Option<Secret>,
    /// Time limit of one request.
    pub timeout: Duration,
    /// Most questions for one script or query.
    pub max_turns: usize,
}

/// A language model with OpenAI's `/v1/chat/completions`, such as OpenAI, vLLM or Ollama: ranks tools for
/// `recommend_tools` and `search_tools`, writes queries for `process_large_dataset` and scripts for
/// `execute_code`. It gets the task, and names and first sentences of tools, names and types of columns, or
/// signatures of tools. Without it, and while it fails, the search ranks alone.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Llm")]
pub struct RawLlm {
    /// Base URL with the version, such as `http://localhost:11434/v1`.
    pub endpoint: String,
    /// Required. Model to ask for.
    pub model: String,
    /// API key, sent as a bearer token unless it is empty; write `${OPENAI_API_KEY}`.
    pub api_key: Option<Secret>,
    /// Time limit of one request; beyond it, the search ranks.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub timeout: RawDuration,
    /// Most questions for one script of `execute_code` or query of `process_large_dataset`: one for the
    /// first, and one for each that fails, with its error.
    #[schemars(range(min = 1, max = 10))]
    pub max_turns: u32,
}

impl Default for RawLlm {
    fn default() -> Self {
        Self {
            endpoint: "https://api.openai.com/v1".to_owned(),
            model: String::new(),
            api_key: None,
            timeout: "20s".into(),
            max_turns: 5,
        }
    }
}

impl RawLlm {
    pub(crate) fn validate(&self, report: &mut Report) -> Option<Llm> {
        let path = "optimizer.llm";
        if self.model.trim().is_empty() {
            report.problem(
                &format!("{path}.model"),
                "missing",
                "name the model to ask for, such as `gpt-5-mini`",
            );
        }
        headers::check_key(self.api_key.as_ref(), &format!("{path}.apiKey"), report);
        let timeout = self.timeout.validate(&format!("{path}.timeout"), &TIMEOUT, report);
        let endpoint = http_url::validate(&self.endpoint, &format!("{path}.endpoint"), report)?;
        Some(Llm {
            endpoint,
            model: self.model.clone(),
            // `${OPENAI_API_KEY:-}` is empty for local services, which need no key.
            api_key: self.api_key.clone().filter(|key| !key.expose().is_empty()),
            timeout,
            max_turns: self.max_turns as usize,
        })
    }
}
