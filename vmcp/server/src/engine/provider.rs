//! From the configuration to folders and to an embedding provider.

use std::env;
use std::path::PathBuf;
use std::sync::Arc;

use vmcp_config::{Config, EmbeddingProvider, Headers};
use vmcp_embed::local::{LocalSettings, MODEL_NAME};
use vmcp_embed::{EmbedError, Embedder, OpenAiSettings, Settings, TeiSettings};

/// Where vmcp keeps what can be made or fetched again: `$XDG_CACHE_HOME/vmcp`, or `~/.cache/vmcp`. Without a home, a folder
/// among the temporary files.
pub fn cache_dir() -> PathBuf {
    let folder = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    cache.unwrap_or_else(env::temp_dir).join("vmcp")
}

/// The folder of `embeddings.db`.
pub fn storage_dir(config: &Config) -> PathBuf {
    config.optimizer.storage_dir.clone().unwrap_or_else(cache_dir)
}

/// The folder of the local model; also where `vmcp model pull` puts it.
pub fn model_dir(config: &Config) -> PathBuf {
    match &config.optimizer.embeddings.provider {
        EmbeddingProvider::Local { model_dir: Some(dir), .. } => dir.clone(),
        _ => default_model_dir(),
    }
}

/// The folder of the local model when none is configured.
pub fn default_model_dir() -> PathBuf {
    cache_dir().join("models").join(MODEL_NAME)
}

/// The provider's name, as written in the configuration.
pub fn provider_name(config: &Config) -> &'static str {
    match &config.optimizer.embeddings.provider {
        _ if !config.optimizer.enabled => "none",
        EmbeddingProvider::None => "none",
        EmbeddingProvider::Local { .. } => "local",
        EmbeddingProvider::Tei { .. } => "tei",
        EmbeddingProvider::OpenAi { .. } => "openai",
    }
}

/// The configured provider; `None` when there shall be none. Nothing is contacted or loaded yet.
pub fn embedder(config: &Config) -> Result<Option<Arc<dyn Embedder>>, EmbedError> {
    let headers = |headers: &Headers| {
        headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect::<Vec<_>>()
    };
    let settings = match &config.optimizer.embeddings.provider {
        _ if !config.optimizer.enabled => return Ok(None),
        EmbeddingProvider::None => return Ok(None),
        EmbeddingProvider::Local { .. } => Settings::Local(LocalSettings::new(model_dir(config))),
        EmbeddingProvider::Tei { endpoint, model, timeout, headers: sent } => Settings::Tei(TeiSettings {
            model: model.clone(),
            headers: headers(sent),
            timeout: *timeout,
            ..TeiSettings::new(endpoint.as_str())
        }),
        EmbeddingProvider::OpenAi { endpoint, model, api_key, dimensions, timeout, headers: sent } => {
            Settings::OpenAi(OpenAiSettings {
                api_key: api_key.as_ref().map(|key| key.expose().to_owned()),
                headers: headers(sent),
                dimensions: dimensions.and_then(|width| usize::try_from(width).ok()),
                timeout: *timeout,
                ..OpenAiSettings::new(endpoint.as_str(), model)
            })
        }
    };
    settings.build().map(Some)
}
