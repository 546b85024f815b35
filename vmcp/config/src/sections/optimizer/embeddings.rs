//! `optimizer.embeddings`: the embedding provider that makes vectors for search by meaning, and the fallback
//! while it fails.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::problems::{self, Report};
use crate::sections::proxy::TIMEOUT;
use crate::values::duration::{self, RawDuration};
use crate::values::headers::{self, Headers};
use crate::values::http_url;
use crate::values::secret::Secret;

/// Names of the models that run inside the process; the first is the default.
pub const LOCAL_MODELS: [&str; 2] = ["all-MiniLM-L6-v2", "bge-small-en-v1.5"];

/// Validated settings of the embedding provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Embeddings {
    /// Source of the vectors.
    pub provider: EmbeddingProvider,
    /// Behavior of a search while vectors cannot be made.
    pub on_unavailable: OnUnavailable,
}

/// Source of the vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EmbeddingProvider {
    /// No vectors: searches use keywords alone.
    None,
    /// A small model inside the process.
    Local {
        /// Name of the model, one of [`LOCAL_MODELS`].
        model: String,
        /// Folder of the model's files; `None`: the folder that vmcp downloads to.
        model_dir: Option<PathBuf>,
    },
    /// HuggingFace Text Embeddings Inference.
    Tei {
        /// Base URL of the service, to which `/embed` is added.
        endpoint: Url,
        /// Model that the service is expected to serve; a warning names any other.
        model: Option<String>,
        /// Time limit of one request.
        timeout: Duration,
        /// HTTP headers of every request.
        headers: Headers,
    },
    /// Any service with OpenAI's `/v1/embeddings`: OpenAI, vLLM, Ollama.
    OpenAi {
        /// Base URL with the version, to which `/embeddings` is added: `https://api.openai.com/v1`.
        endpoint: Url,
        /// Model to ask for.
        model: String,
        /// Key sent as a bearer token; `None`: no `Authorization` header.
        api_key: Option<Secret>,
        /// Length of the vectors to ask for; `None`: the model's own.
        dimensions: Option<u32>,
        /// Time limit of one request.
        timeout: Duration,
        /// HTTP headers of every request.
        headers: Headers,
    },
}

/// Behavior of a search while vectors cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnUnavailable {
    /// Search by keywords alone, and say so in the answer.
    Degrade,
    /// Answer with an error.
    Fail,
}

/// Source of the vectors for search by meaning.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Embeddings")]
pub struct RawEmbeddings {
    /// Source of the vectors. The first use of `local` downloads a model of about 90 MB.
    pub provider: RawProvider,
    /// Behavior of a search while vectors cannot be made.
    pub on_unavailable: OnUnavailable,
    /// Settings of `provider: tei`; a warning says if another provider is chosen.
    pub tei: Option<RawTei>,
    /// Settings of `provider: openai`; a warning says if another provider is chosen.
    pub openai: Option<RawOpenAi>,
    /// Settings of `provider: local`; a warning says if another provider is chosen.
    pub local: Option<RawLocal>,
}

impl Default for RawEmbeddings {
    fn default() -> Self {
        Self {
            provider: RawProvider::Local,
            on_unavailable: OnUnavailable::Degrade,
            tei: None,
            openai: None,
            local: None,
        }
    }
}

/// Source of the vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "EmbeddingProvider")]
pub enum RawProvider {
    /// A small model inside the process.
    Local,
    /// HuggingFace Text Embeddings Inference.
    Tei,
    /// Any service with OpenAI's `/v1/embeddings`: OpenAI, vLLM, Ollama.
    OpenAi,
    /// No vectors: searches use keywords alone.
    None,
}

/// HuggingFace Text Embeddings Inference.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Tei")]
pub struct RawTei {
    /// Required. Base URL of the service, such as `http://tei:8080`.
    pub endpoint: Option<String>,
    /// Model that the service is expected to serve; a warning names any other.
    pub model: Option<String>,
    /// Time limit of one request. Beyond it, the request has failed and is tried again later.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub timeout: RawDuration,
    /// HTTP headers of every request, such as `Authorization`.
    pub headers: BTreeMap<String, Secret>,
}

impl Default for RawTei {
    fn default() -> Self {
        Self { endpoint: None, model: None, timeout: "30s".into(), headers: BTreeMap::new() }
    }
}

/// A service with OpenAI's `/v1/embeddings`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "OpenAi")]
pub struct RawOpenAi {
    /// Base URL with the version, such as `http://localhost:11434/v1`.
    pub endpoint: String,
    /// Model to ask for.
    pub model: String,
    /// API key, sent as a bearer token unless it is empty; write `${OPENAI_API_KEY}`.
    pub api_key: Option<Secret>,
    /// Length of the vectors to ask for. Default: the model's own.
    #[schemars(range(min = 1, max = 65_536))]
    pub dimensions: Option<u32>,
    /// Time limit of one request. Beyond it, the request has failed and is tried again later.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub timeout: RawDuration,
    /// HTTP headers of every request.
    pub headers: BTreeMap<String, Secret>,
}

impl Default for RawOpenAi {
    fn default() -> Self {
        Self {
            endpoint: "https://api.openai.com/v1".to_owned(),
            model: "text-embedding-3-small".to_owned(),
            api_key: None,
            dimensions: None,
            timeout: "30s".into(),
            headers: BTreeMap::new(),
        }
    }
}

/// A small model inside the process.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Local")]
pub struct RawLocal {
    /// Name of the model, `all-MiniLM-L6-v2` (90 MB) or `bge-small-en-v1.5` (130 MB, slower).
    pub model: String,
    /// Folder of the model's files. Default: the folder that vmcp downloads to.
    pub model_dir: Option<String>,
}

impl Default for RawLocal {
    fn default() -> Self {
        let [model, ..] = LOCAL_MODELS;
        Self { model: model.to_owned(), model_dir: None }
    }
}

const PATH: &str = "optimizer.embeddings";

impl RawEmbeddings {
    pub(crate) fn validate(&self, report: &mut Report) -> Embeddings {
        self.warn_of_unused(report);
        let provider = match self.provider {
            RawProvider::None => Some(EmbeddingProvider::None),
            RawProvider::Local => Some(self.local.clone().unwrap_or_default().validate(report)),
            RawProvider::Tei => self.tei.clone().unwrap_or_default().validate(report),
            RawProvider::OpenAi => self.openai.clone().unwrap_or_default().validate(report),
        };
        // A missing provider has been reported as a problem, so this configuration is never used.
        let provider = provider.unwrap_or(EmbeddingProvider::None);
        Embeddings { provider, on_unavailable: self.on_unavailable }
    }

    fn warn_of_unused(&self, report: &mut Report) {
        let blocks = [
            (RawProvider::Tei, "tei", self.tei.is_some()),
            (RawProvider::OpenAi, "openai", self.openai.is_some()),
            (RawProvider::Local, "local", self.local.is_some()),
        ];
        for (_, name, _) in blocks.iter().filter(|(provider, _, given)| *given && *provider != self.provider)
        {
            report.warn(
                &problems::key(PATH, name),
                "not used, because another provider is chosen",
                format!("set `provider: {name}`, or remove this block"),
            );
        }
    }
}

impl RawLocal {
    fn validate(self, report: &mut Report) -> EmbeddingProvider {
        if !LOCAL_MODELS.contains(&self.model.as_str()) {
            let path = format!("{PATH}.local.model");
            let shown = report.shown(&path, &self.model);
            let known = LOCAL_MODELS.map(|model| format!("`{model}`")).join(" or ");
            let remedy = format!("use {known}, or serve the model by `tei` or `openai`");
            report.problem(&path, format!("the model {shown} does not run in-process"), remedy);
        }
        EmbeddingProvider::Local { model: self.model, model_dir: self.model_dir.map(PathBuf::from) }
    }
}

impl RawTei {
    fn validate(self, report: &mut Report) -> Option<EmbeddingProvider> {
        let path = format!("{PATH}.tei");
        let at = format!("{path}.endpoint");
        let Some(endpoint) = self.endpoint else {
            report.problem(
                &at,
                "missing",
                "add the base URL of the service, such as `http://localhost:8080`",
            );
            return None;
        };
        let headers = headers::validate(&self.headers, &format!("{path}.headers"), report);
        let timeout = self.timeout.validate(&format!("{path}.timeout"), &TIMEOUT, report);
        let endpoint = http_url::validate(&endpoint, &at, report)?;
        Some(EmbeddingProvider::Tei { endpoint, model: self.model, timeout, headers })
    }
}

impl RawOpenAi {
    fn validate(self, report: &mut Report) -> Option<EmbeddingProvider> {
        let path = format!("{PATH}.openai");
        if self.model.trim().is_empty() {
            let remedy = "name the model to ask for, such as `text-embedding-3-small`";
            report.problem(&format!("{path}.model"), "empty", remedy);
        }
        let headers = headers::validate(&self.headers, &format!("{path}.headers"), report);
        if self.api_key.is_some() && headers.contains_key("authorization") {
            let at = format!("{path}.apiKey");
            report.problem(&at, "`headers` gives `Authorization` too", "keep one of the two");
        }
        headers::check_key(self.api_key.as_ref(), &format!("{path}.apiKey"), report);
        let timeout = self.timeout.validate(&format!("{path}.timeout"), &TIMEOUT, report);
        let endpoint = http_url::validate(&self.endpoint, &format!("{path}.endpoint"), report)?;
        Some(EmbeddingProvider::OpenAi {
            endpoint,
            model: self.model,
            // `${OPENAI_API_KEY:-}` is empty for local services, which need no key.
            api_key: self.api_key.filter(|key| !key.expose().is_empty()),
            dimensions: self.dimensions,
            timeout,
            headers,
        })
    }
}
