//! `optimizer.embeddings`: where vectors come from (R022-20, -22, -42, GOB-50).

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

/// The one model that runs in-process.
pub const LOCAL_MODEL: &str = "all-MiniLM-L6-v2";

/// Where vectors come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Embeddings {
    /// Who makes them.
    pub provider: EmbeddingProvider,
    /// What a search does while nobody does.
    pub on_unavailable: OnUnavailable,
}

/// Who makes vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EmbeddingProvider {
    /// Nobody: searches go by words alone.
    None,
    /// A model in this process.
    Local {
        /// Name of the model; [`LOCAL_MODEL`].
        model: String,
        /// Folder that holds it; `None`: where `vmcp` puts what it downloads.
        model_dir: Option<PathBuf>,
    },
    /// HuggingFace Text Embeddings Inference.
    Tei {
        /// Base URL, to which `/embed` is added.
        endpoint: Url,
        /// The model that the service is expected to serve; another one is reported.
        model: Option<String>,
        /// Longest request.
        timeout: Duration,
        /// Sent with every request.
        headers: Headers,
    },
    /// Any service with OpenAI's `/v1/embeddings`: OpenAI, vLLM, Ollama.
    OpenAi {
        /// Base URL with the version, to which `/embeddings` is added: `https://api.openai.com/v1`.
        endpoint: Url,
        /// The model to ask for.
        model: String,
        /// Sent as a bearer token.
        api_key: Option<Secret>,
        /// Ask for vectors of this length; `None`: the model's own.
        dimensions: Option<u32>,
        /// Longest request.
        timeout: Duration,
        /// Sent with every request.
        headers: Headers,
    },
}

/// What a search does while vectors cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnUnavailable {
    /// Goes by words alone and says so.
    Degrade,
    /// Fails.
    Fail,
}

/// Where vectors come from.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Embeddings")]
pub struct RawEmbeddings {
    /// Who makes them.
    pub provider: RawProvider,
    /// What a search does while that fails.
    pub on_unavailable: OnUnavailable,
    /// With `provider: tei`.
    pub tei: Option<RawTei>,
    /// With `provider: openai`.
    pub openai: Option<RawOpenAi>,
    /// With `provider: local`.
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

/// Who makes vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "EmbeddingProvider")]
pub enum RawProvider {
    /// A small model in this process.
    Local,
    /// HuggingFace Text Embeddings Inference.
    Tei,
    /// Any service with OpenAI's `/v1/embeddings`: OpenAI, vLLM, Ollama.
    OpenAi,
    /// Nobody: searches go by words alone.
    None,
}

/// HuggingFace Text Embeddings Inference.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Tei")]
pub struct RawTei {
    /// Base URL, such as `http://tei:8080`.
    pub endpoint: Option<String>,
    /// The model that the service is expected to serve; a warning says when it serves another.
    pub model: Option<String>,
    /// Longest request.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub timeout: RawDuration,
    /// Headers sent with every request, such as `Authorization`.
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
    /// The model to ask for.
    pub model: String,
    /// Sent as a bearer token unless it is empty; write `${OPENAI_API_KEY}`.
    pub api_key: Option<Secret>,
    /// Ask for vectors of this length.
    #[schemars(range(min = 1, max = 65_536))]
    pub dimensions: Option<u32>,
    /// Longest request.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub timeout: RawDuration,
    /// Headers sent with every request.
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

/// A small model in this process.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Local")]
pub struct RawLocal {
    /// Only `all-MiniLM-L6-v2` so far.
    pub model: String,
    /// Folder that holds the model. Default: where vmcp puts what it downloads.
    pub model_dir: Option<String>,
}

impl Default for RawLocal {
    fn default() -> Self {
        Self { model: LOCAL_MODEL.to_owned(), model_dir: None }
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
        // Where there is no provider, there is a problem, and the configuration is never used.
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
        if self.model != LOCAL_MODEL {
            let path = format!("{PATH}.local.model");
            let shown = report.shown(&path, &self.model);
            let remedy = format!("use `{LOCAL_MODEL}`, or serve the model by `tei` or `openai`");
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
        let timeout = self.timeout.validate(&format!("{path}.timeout"), &TIMEOUT, report);
        let endpoint = http_url::validate(&self.endpoint, &format!("{path}.endpoint"), report)?;
        Some(EmbeddingProvider::OpenAi {
            endpoint,
            model: self.model,
            // `${OPENAI_API_KEY:-}`: local services need none.
            api_key: self.api_key.filter(|key| !key.expose().is_empty()),
            dimensions: self.dimensions,
            timeout,
            headers,
        })
    }
}
